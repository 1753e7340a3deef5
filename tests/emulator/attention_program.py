"""A child of ``test_attention_calls.py``: ``python -m emulator.attention_program WHAT FP8``. Prints what it found as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]


class Device:
    """Tensors on the embedded device; what was put there in bf16 can be read as it is there."""

    def __init__(self) -> None:
        from aiter_prebuilt.devices import device
        from aiter_prebuilt.devices.device_memory import DeviceMemory

        path = os.environ["AITER_PREBUILT_HIP"]
        self.memory, self.random = DeviceMemory(device.facts("amd", 0), path), np.random.default_rng(7)

    def put(self, kind: str, values: Any) -> Any:
        """A tensor of ``values``."""
        from aiter_prebuilt.execute.array import DeviceArray
        from build_tools.cases import numbers

        values = np.asarray(values)
        return DeviceArray(self.memory, kind, values.shape, numbers.encode(values, kind).tobytes())

    def normal(self, *shape: int) -> tuple[Any, Floats]:
        """A tensor of bf16 about 0, and what it holds."""
        tensor = self.put("bf16", self.random.normal(size=shape))
        return tensor, self.read(tensor)

    def read(self, tensor: Any) -> Floats:
        """What a tensor holds."""
        from build_tools.cases import numbers

        kind = numbers.stored(tensor.dtype)
        return numbers.decode(np.frombuffer(tensor.read(), kind).reshape(tensor.shape), tensor.dtype)


def attended(q: Floats, k: Floats, v: Floats, scale: float) -> Floats:
    """Causal attention of the last queries [n, heads, d] of keys [m, d] and values [m, dv] of one head."""
    scores = np.einsum("nhd,md->hnm", q, k) * scale
    hidden = np.arange(len(k))[None] > np.arange(len(q))[:, None] + len(k) - len(q)
    scores[:, hidden] = -np.inf
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    made: Floats = np.einsum("hnm,md->nhd", powers / powers.sum(-1, keepdims=True), v)
    return made


def far(one: Floats, other: Floats) -> float:
    """The largest difference; infinite where one is not finite."""
    return float(np.abs(np.nan_to_num(one, nan=np.inf) - other).max())


def long_ragged(on: Device) -> dict[str, float]:
    """131,072 keys of one sequence, the queries of its last three tokens."""
    import aiter_prebuilt

    (q, rows), (k, keys), (v, values) = (
        on.normal(3, 2, 64),
        on.normal(131072, 1, 64),
        on.normal(131072, 1, 64),
    )
    starts = on.put("i32", [0, 3]), on.put("i32", [0, 131072])
    out = aiter_prebuilt.flash_attn_varlen_func(q, k, v, *starts, 3, 131072, causal=True)
    return {"far": far(on.read(out), attended(rows, keys[:, 0], values[:, 0], 0.125))}


def long_paged(on: Device) -> dict[str, float]:
    """The same over pages in an order of their own, divided among workgroups."""
    import aiter_prebuilt

    (q, rows), (k, keys), (v, values) = (
        on.normal(1, 2, 64),
        on.normal(8192, 16, 1, 64),
        on.normal(8192, 16, 1, 64),
    )
    out, pages = on.put("bf16", np.zeros((1, 2, 64))), on.random.permutation(8192)
    words = (on.put("i32", [0, 1]), 1, on.put("i32", [131072]), 131072, 0.125, True, (-1, -1))
    aiter_prebuilt.unified_attention(q, k, v, out, *words, on.put("i32", pages[None]), 0.0, None, None, None)
    wanted = attended(rows, keys[pages].reshape(-1, 64), values[pages].reshape(-1, 64), 0.125)
    return {"far": far(on.read(out), wanted)}


def long_latent(on: Device) -> dict[str, float]:
    """131,072 keys of a latent cache, whose first 512 numbers are the values."""
    import aiter_prebuilt

    (q, rows), (cache, keys) = on.normal(1, 16, 576), on.normal(131072, 1, 1, 576)
    out, pages = on.put("bf16", np.zeros((1, 16, 512))), on.put("i32", np.arange(131072))
    starts = on.put("i32", [0, 1]), on.put("i32", [0, 131072])
    aiter_prebuilt.mla_decode_fwd(q, cache, out, *starts, pages, on.put("i32", [1]), 1, sm_scale=0.04)
    keys = keys[:, 0, 0]
    return {"far": far(on.read(out), attended(rows, keys, keys[:, :512], 0.04))}


def many(on: Device) -> dict[str, float]:
    """1,024 sequences in one call, packed and paged: of 1 to 5 queries, of up to 40 keys."""
    import aiter_prebuilt

    counts, lengths = on.random.integers(1, 6, 1024), on.random.integers(5, 41, 1024)
    starts_q, starts_k = (np.concatenate([[0], np.cumsum(each)]) for each in (counts, lengths))
    (q, rows), (k, keys), (v, values) = (
        on.normal(starts_q[-1], 2, 64),
        on.normal(starts_k[-1], 1, 64),
        on.normal(starts_k[-1], 1, 64),
    )
    spans = zip(starts_q, starts_q[1:], starts_k, starts_k[1:], strict=False)
    parts = [attended(rows[a:b], keys[c:d, 0], values[c:d, 0], 0.125) for a, b, c, d in spans]
    of_queries = on.put("i32", starts_q)
    packed = aiter_prebuilt.flash_attn_varlen_func(
        q, k, v, of_queries, on.put("i32", starts_k), 5, 40, causal=True
    )
    table = starts_k[:-1, None] + np.arange(
        40
    )  # pages of one key; those behind a sequence's are not looked at
    out, pages = on.put("bf16", np.zeros(rows.shape)), [x.reshape(-1, 1, 1, 64) for x in (keys, values)]
    words: Any = (
        of_queries,
        5,
        on.put("i32", lengths),
        40,
        0.125,
        True,
        (-1, -1),
        on.put("i32", table),
        0.0,
        None,
        None,
        None,
    )
    unified: Any = aiter_prebuilt.unified_attention
    unified(q, *(on.put("bf16", each) for each in pages), out, *words)
    return {
        "far": far(on.read(packed), np.concatenate(parts)),
        "paged": far(on.read(out), np.concatenate(parts)),
    }


def backends(on: Device) -> dict[str, float]:
    """Who serves a call: AITER's assembly by its own name, and our kernel, which is asked for what the assembly does not say."""
    import aiter_prebuilt

    (q, _), (k, _), (v, _) = (on.normal(1, 290, heads, 128) for heads in (4, 2, 2))
    found = {}
    for causal in (False, True):
        theirs = aiter_prebuilt.fmha_v3_fwd(q, k, v, 0.0, 0.09, causal, -1, -1, False, False, 0)[0]
        ours = aiter_prebuilt.flash_attn_func(
            q, k, v, 0.0, 0.09, causal, sink_ptr=on.put("f32", np.full(4, -np.inf))
        )
        found[f"dense {causal}"] = far(on.read(theirs), on.read(ours))
    flat: Any = [on.put("bf16", on.read(each)[0]) for each in (q, k, v)]
    starts = on.put("i32", [0, 100, 290])
    words: Any = (190, 190, 0, 0.0, 0.09, 0.0, False, True, -1, -1, False, False, 0)
    varlen_asm: Any = aiter_prebuilt.fmha_v3_varlen_fwd
    packed = varlen_asm(*flat, starts, starts, *words)[0]
    varlen: Any = aiter_prebuilt.flash_attn_varlen_func
    ours = varlen(*flat, starts, starts, 190, 190, softmax_scale=0.09, causal=True, return_lse=True)[0]
    found["packed"] = far(on.read(packed), on.read(ours))
    whole, sums = aiter_prebuilt.flash_attn_func(q, k, v, 0.0, 0.09, True, return_lse=True)
    grad = on.normal(1, 290, 4, 128)[0]
    given = (grad, q, k, v, whole, sums, 0.0, 0.09, True, -1, -1)
    several = zip(
        aiter_prebuilt.fmha_v3_bwd(*given, False, True, 0),
        aiter_prebuilt.mha_bwd(*given, True),
        "qkv",
        strict=False,
    )
    found |= {f"d{name}": far(on.read(one), on.read(other)) for one, other, name in several}
    return found


def beyond(on: Device) -> dict[str, float]:
    """A table names a page that is not there."""
    import aiter_prebuilt

    (q, _), (k, _), (v, _) = on.normal(1, 2, 64), on.normal(4, 16, 1, 64), on.normal(4, 16, 1, 64)
    out = on.put("bf16", np.zeros((1, 2, 64)))
    words = (
        on.put("i32", [0, 1]),
        1,
        on.put("i32", [40]),
        40,
        0.125,
        True,
        (-1, -1),
        on.put("i32", [[0, 1 << 20, 2]]),
    )
    aiter_prebuilt.unified_attention(q, k, v, out, *words, 0.0, None, None, None)
    return {"far": float(on.read(out).sum())}


def _latent_beyond(on: Device, row: int, prompt: bool) -> dict[str, float]:
    """A list names a row of a latent cache that is not there; 20 heads are our kernel's."""
    import aiter_prebuilt

    (q, _), (kv, _) = on.normal(2, 20, 576), on.normal(64, 1, 1, 576)
    out, rows = on.put("bf16", np.zeros((2, 20, 512))), np.arange(60)
    rows[45] = row
    words = (
        out,
        on.put("i32", [0, 1, 2]),
        on.put("i32", [0, 30, 60]),
        on.put("i32", rows),
        on.put("i32", [1, 1]),
        1,
    )
    (aiter_prebuilt.mla_prefill_fwd if prompt else aiter_prebuilt.mla_decode_fwd)(q, kv, *words)
    return {"far": float(on.read(out).sum())}


def beyond_decode(on: Device) -> dict[str, float]:
    """A row behind the last."""
    return _latent_beyond(on, 1 << 20, False)


def beyond_decode_below(on: Device) -> dict[str, float]:
    """A row before the first."""
    return _latent_beyond(on, -100000, False)


def beyond_prompt(on: Device) -> dict[str, float]:
    """A row behind the last, of a prompt."""
    return _latent_beyond(on, 1 << 20, True)


def _prefix_beyond(on: Device, keys: int) -> dict[str, float]:
    """A prefix of so many keys, of which one is not in the cache."""
    import aiter_prebuilt

    (q, _), (k, _), (v, _) = on.normal(2, 4, 128), on.normal(2, 2, 128), on.normal(2, 2, 128)
    (cache_k, _), (cache_v, _) = on.normal(64, 2, 128), on.normal(64, 2, 128)
    out, rows = on.put("bf16", np.zeros((2, 4, 128))), np.arange(keys)
    rows[keys - 3] = 1 << 20
    words = (on.put("i32", [0, 2]), on.put("i32", [0, keys]), on.put("i32", rows))
    aiter_prebuilt.extend_attention_fwd(q, k, v, out, cache_k, cache_v, *words, None, True, None, 2)
    return {"far": float(on.read(out).sum())}


def beyond_prefix(on: Device) -> dict[str, float]:
    """In a tile that is not full."""
    return _prefix_beyond(on, 20)


def beyond_prefix_whole(on: Device) -> dict[str, float]:
    """In a full tile."""
    return _prefix_beyond(on, 32)


BEYOND: Final = (beyond_decode, beyond_decode_below, beyond_prompt, beyond_prefix, beyond_prefix_whole)
WORK: Final[dict[str, Callable[[Device], dict[str, float]]]] = {
    work.__name__: work for work in (long_ragged, long_paged, long_latent, many, backends, beyond, *BEYOND)
}

if __name__ == "__main__":
    print(json.dumps(WORK[sys.argv[1]](Device())))
