"""A child of ``test_latent_lists.py``: lists from ``get_mla_metadata_v1``, attention with them by ``mla_decode_fwd``, and by
``mla_decode_stage1_asm_fwd`` whose parts ``mla_reduce_v1`` makes one; the same calls without lists.

Arguments: the target, its own fp8.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

import aiter_prebuilt
from aiter_prebuilt.devices import device
from aiter_prebuilt.devices.device_memory import DeviceMemory
from aiter_prebuilt.execute.array import DeviceArray
from aiter_prebuilt.execute.record import Recorder, instead
from build_tools.cases import numbers

#: They take tensors without a framework, too, which their types do not say.
lists: Any = aiter_prebuilt.get_mla_metadata_v1
decode: Any = aiter_prebuilt.mla_decode_fwd
stage1: Any = aiter_prebuilt.mla_decode_stage1_asm_fwd
reduce: Any = aiter_prebuilt.mla_reduce_v1
UNITS = 9


class Call(NamedTuple):
    """``queries`` and ``lengths`` of each batch; ``ways``: by lists (l), without (p), by two functions (s)."""

    heads: int
    queries: tuple[int, ...]
    q: str
    kv: str
    lengths: tuple[int, ...]
    page: int = 1
    ways: str = "l"


CALLS = [
    # AITER's assembly takes these lists
    Call(16, (1,) * 5, "bf16", "bf16", (1, 0, 2900, 17, 640), ways="ls"), Call(16, (1,), "bf16", "bf16", (16,)),
    Call(16, (4,) * 4, "bf16", "bf16", (4, 1155, 0, 963), ways="ls"),
    Call(16, (2,) * 3, "bf16", "fp8", (700, 2, 1601), ways="ls"), Call(48, (1, 1), "bf16", "bf16", (333, 900)),
    Call(128, (1,) * 4, "fp8", "fp8", (1, 0, 1200, 31), ways="ls"),
    Call(128, (3, 3), "fp8", "fp8", (3, 977)), Call(16, (2, 4, 3), "bf16", "bf16", (90, 300, 7), 1, "lp"),
    # a kernel of ours does: pages of several keys, as many queries for each batch or not, more of them than keys, no keys
    Call(16, (1,) * 3, "bf16", "bf16", (1, 0, 1290), 64, "lp"), Call(16, (2, 4, 1, 3), "bf16", "fp8", (65, 3, 0, 700), 64, "lp"),
    Call(16, (3, 2), "fp8", "fp8", (2, 700), 1, "lp"), Call(128, (2, 1, 4), "bf16", "bf16", (130, 0, 2), 16, "lp"),
    Call(128, (4, 2), "fp8", "fp8", (70, 260), 64, "lp"), Call(8, (4, 1), "bf16", "fp8", (333, 90), 1, "lp"),
    Call(32, (2, 2), "bf16", "bf16", (300, 20), 1, "lp"), Call(48, (1, 1), "bf16", "bf16", (129, 640), 64),
]  # fmt: skip
#: Of a probability that becomes bf16 or fp8, and of a result that becomes bf16.
LOST = {"bf16": 2.0**-7, "fp8": 2.0**-4}


class Batch:
    """Tensors of one call on the device."""

    def __init__(self, memory: DeviceMemory, fp8: str, call: Call) -> None:
        self.memory, self.fp8, self.call = memory, fp8, call
        rng = np.random.default_rng(sum(call.lengths))
        tokens, size = sum(call.queries), call.page
        pages = [-(-length // size) for length in call.lengths]
        stored = sum(pages) + 3
        self.q = self.made(call.q, rng.normal(size=(tokens, call.heads, 576)))
        self.kv = self.made(call.kv, rng.normal(size=(stored, size, 1, 576)))
        self.listed = rng.integers(0, stored, sum(pages))
        self.borders = np.cumsum([0, *call.queries]), np.cumsum([0, *pages])
        self.q_starts, self.kv_starts = (self.made("i32", each) for each in self.borders)
        self.pages = self.made("i32", self.listed)
        self.lasts = self.made("i32", np.array([(length - 1) % size + 1 for length in call.lengths]))
        self.scale = self.made("f32", np.array([0.5]))

    def made(self, kind: str, values: Any) -> Any:
        name = self.fp8 if kind == "fp8" else kind
        return DeviceArray(self.memory, name, values.shape, numbers.encode(values, name).tobytes())

    def empty(self, kind: str, *shape: int) -> Any:
        return DeviceArray(self.memory, kind, shape)

    def lists(self) -> dict[str, Any]:
        """What ``get_mla_metadata_v1`` makes, in lists as long as ``get_mla_metadata_info_v1`` says."""
        call, most = self.call, max(self.call.queries)
        uniform = most if len(set(call.queries)) == 1 else -1
        folds = call.heads % 16 == 0 and call.heads not in (16, 128) and most == 1 and call.page == 1
        contexts = len(call.lengths) * (call.heads // 16 if folds else 1)
        tiles = min(most, -(-most * call.heads // 128)) if not folds else 1
        made = {
            "work_meta_data": self.empty("i64", 2), "work_info_set": self.empty("i32", (contexts + UNITS - 1) * tiles, 8),
            "work_indptr": self.empty("i32", UNITS + 1), "reduce_indptr": self.empty("i32", contexts * tiles + 1),
            "reduce_final_map": self.empty("i32", contexts * tiles, 2),
            "reduce_partial_map": self.empty("i32", (contexts + UNITS - 1) * tiles),
        }  # fmt: skip
        lists(
            self.q_starts, self.kv_starts, self.lasts, call.heads, 1, True, *made.values(), page_size=call.page,
            kv_granularity=max(1, 16 // call.page), max_seqlen_qo=most, uni_seqlen_qo=uniform,
        )  # fmt: skip
        addresses = [made["work_indptr"][0], made["work_info_set"][0]]
        assert self.read(made["work_meta_data"]).astype(int).tolist() == addresses
        return made

    def read(self, array: DeviceArray) -> Any:
        kind = numbers.stored(array.dtype)
        return numbers.decode(np.frombuffer(array.read(), kind).reshape(array.shape), array.dtype)


def main(target: str, fp8: str) -> int:
    """All calls, and one that gfx950 alone has."""
    facts, path = device.facts("amd", 0), os.environ["AITER_PREBUILT_HIP"]
    memory, helpers = DeviceMemory(facts, path), Recorder(facts, facts.compute_units, None)
    with instead(lists, helpers), instead(stage1, helpers), instead(reduce, helpers):
        for call in [*CALLS, *([Call(16, (1, 1), "fp8", "fp8", (450, 2000))] if target == "gfx950" else [])]:
            for way in call.ways:
                batch, recorder = Batch(memory, fp8, call), Recorder(facts, facts.compute_units, None)
                with instead(decode, recorder):
                    out = {"l": by_lists, "p": by_parts, "s": by_stages}[way](batch)
                kernel = "" if way == "s" else recorder.chosen.kernel
                assert ("listed" in kernel) == (way == "l"), kernel
                check(batch, batch.read(out), kernel.startswith("ours"))
    print("done")
    return 0


def by_lists(batch: Batch) -> Any:
    """``mla_decode_fwd`` with lists."""
    return by_parts(batch, **batch.lists())


def by_parts(batch: Batch, **words: Any) -> Any:
    """``mla_decode_fwd`` without."""
    call = batch.call
    out = batch.empty("bf16", *batch.q.shape[:2], 512)
    decode(
        batch.q, batch.kv, out, batch.q_starts, batch.kv_starts, batch.pages, batch.lasts, max(call.queries), call.page,
        num_kv_splits=None if words else 3, q_scale=batch.scale, kv_scale=batch.scale, **words,
    )  # fmt: skip
    return out


def by_stages(batch: Batch) -> Any:
    """The same by two functions, as AITER's own ``mla_decode_fwd`` calls them."""
    call, made = batch.call, batch.lists()
    most, rows = max(call.queries), made["reduce_partial_map"].shape[0] * max(call.queries)
    out, lse = batch.empty("bf16", *batch.q.shape[:2], 512), batch.empty("f32", *batch.q.shape[:2])
    parts, sums = batch.empty("f32", rows, 1, call.heads, 512), batch.empty("f32", rows, 1, call.heads, 1)
    stage1(
        batch.q, batch.kv, batch.q_starts, batch.kv_starts, batch.pages, batch.lasts, None, made["work_meta_data"],
        made["work_indptr"], made["work_info_set"], most, 1, 1, 576**-0.5, parts, sums, out, None, batch.scale, batch.scale,
    )  # fmt: skip
    reduce(
        parts, sums, made["reduce_indptr"], made["reduce_final_map"], made["reduce_partial_map"], most, 0, out, lse
    )  # fmt: skip
    return out


def check(batch: Batch, found: Any, whole: bool) -> None:
    """Against attention in float64; of tokens without a key a kernel of ours writes 0, the assembly's lists have no work."""
    call = batch.call
    asked, stored = (
        batch.read(array) * (0.5 if kind == "fp8" else 1)
        for array, kind in ((batch.q, call.q), (batch.kv, call.kv))
    )
    unwritten = np.isnan(batch.read(batch.empty("bf16", 1))).all()
    queries, pages = batch.borders
    for place, (first, end) in enumerate(pairwise(queries)):
        own = stored[batch.listed[pages[place] : pages[place + 1]]].reshape(-1, 576)[: call.lengths[place]]
        for token in range(first, end):
            seen = own[: max(len(own) - (end - 1 - token), 0)]
            if not len(seen):
                assert (
                    (found[token] == 0).all() if whole else not unwritten or np.isnan(found[token]).all()
                ), (
                    call,
                    token,
                )
                continue
            scores = asked[token] @ seen.T * 576**-0.5
            powers = np.exp(scores - scores.max(-1, keepdims=True))
            shares = powers / powers.sum(-1, keepdims=True)
            values = seen[:, :512]
            want = shares @ values
            allowed = (LOST[call.q] + 2.0**-8) * shares @ np.abs(values) + 2.0**-8 * np.abs(want) + 1e-6
            if call.q == "fp8":  # it has no number below 2^-10
                allowed += 2.0**-10 * np.abs(values).sum(0) / powers.sum(-1, keepdims=True)
            assert (np.abs(found[token] - want) <= allowed).all(), (call, token)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
