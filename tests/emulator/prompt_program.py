"""A child of ``test_latent_lists.py``: attention of prompts in 8 bits by lists of works, whose parts ``mla_reduce_v1`` makes one.

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
from build_tools.cases import numbers

#: They take tensors without a framework, too, which their types do not say.
lists: Any = aiter_prebuilt.get_ps_metadata_v1
prefill: Any = aiter_prebuilt.mla_prefill_ps_asm_fwd
reduce: Any = aiter_prebuilt.mla_reduce_v1
#: Queries of a tile, as the lists are asked for, and keys that are not taken apart.
TILE, UNIT = 64, 16


class Call(NamedTuple):
    """``queries`` and ``keys`` of each sequence; ``heads`` of queries, all with keys of their own."""

    heads: int
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    units: int
    causal: bool = True


CALLS = [
    Call(1, (70,), (700,), 7), Call(2, (33, 1, 90), (200, 40, 90), 8), Call(3, (20, 5), (60, 333), 9, causal=False),
    Call(1, (40, 8, 3), (500, 0, 2), 5), Call(2, (5, 6), (5, 6), 2),
]  # fmt: skip


def one(memory: DeviceMemory, fp8: str, call: Call) -> int:
    """Lists, parts, and one of them; how many tiles had parts."""
    rng = np.random.default_rng(sum(call.keys))
    tokens, stored = sum(call.queries), sum(call.keys) + 3

    def made(kind: str, values: Any) -> Any:
        return DeviceArray(memory, kind, values.shape, numbers.encode(values, kind).tobytes())

    def read(array: DeviceArray) -> Any:
        kind = numbers.stored(array.dtype)
        return numbers.decode(np.frombuffer(array.read(), kind).reshape(array.shape), array.dtype)

    def empty(kind: str, *shape: int) -> Any:
        return DeviceArray(memory, kind, shape)

    q, k, v = (
        made(fp8, rng.normal(size=shape))
        for shape in ((tokens, call.heads, 192), (stored, call.heads, 192), (stored, call.heads, 128))
    )
    borders, starts = np.cumsum([0, *call.queries]), np.cumsum([0, *call.keys])
    pages, scale = rng.integers(0, stored, sum(call.keys)), made("f32", np.array([0.5]))
    q_starts, kv_starts, lengths = (made("i32", np.array(each)) for each in (borders, starts, call.keys))
    # As get_ps_metadata_info_v1 says it.
    own = call.units // int(np.gcd(call.heads, call.units))
    batches, tiles = len(call.keys), -(-max(call.queries) // TILE)
    room = (batches + own - 1) * tiles
    units, works = empty("i32", call.units + 1), empty("i32", room * call.heads, 8)
    sums, targets = empty("i32", batches * tiles + 1), empty("i32", batches * tiles, 2)
    sources = empty("i32", max(1, min(batches + own - 1, (own - 1) * 2) * tiles))
    lists(
        q_starts, kv_starts, lengths, 1, call.heads, None, units, works, sums, targets, sources, qhead_granularity=1,
        qlen_granularity=TILE, kvlen_granularity=UNIT, block_size=1, is_causal=call.causal,
    )  # fmt: skip
    rows = sources.shape[0] * TILE
    parts, logs = empty("f32", rows, call.heads, 128), empty("f32", rows, call.heads)
    out, lse = empty("bf16", tokens, call.heads, 128), empty("f32", tokens, call.heads)
    prefill(
        q, k, v, q_starts, kv_starts, made("i32", pages), units, works, max(call.queries), 0.08, call.causal, parts, logs, out,
        scale, scale, scale,
    )  # fmt: skip
    reduce(parts, logs, sums, targets, sources, TILE, 0, out, lse)
    given = [read(each) / 2 for each in (q, k, v)]
    listed = [pages[start:stop] for start, stop in pairwise(starts)]
    check(call, [*given, borders, listed], read(out))
    return int(read(sums)[-1])


def check(call: Call, given: list[Any], found: Any) -> None:
    """Against attention in float64."""
    q, k, v, borders, listed = given
    for place, (first, end) in enumerate(pairwise(borders)):
        for token in range(first, end):
            hidden = end - 1 - token if call.causal else 0
            own = listed[place][: max(len(listed[place]) - hidden, 0)]
            for head in range(call.heads):
                if not len(own):
                    assert (found[token, head] == 0).all(), (call, token)
                    continue
                scores = k[own, head] @ q[token, head] * 0.08
                shares = np.exp(scores - scores.max())
                shares /= shares.sum()
                want = shares @ v[own, head]
                allowed = 2.0**-6 * shares @ np.abs(v[own, head]) + 2.0**-8 * np.abs(want) + 1e-6
                assert (np.abs(found[token, head] - want) <= allowed).all(), (call, token, head)


def main(fp8: str) -> int:
    """All calls, some of which have parts."""
    memory = DeviceMemory(device.facts("amd", 0), os.environ["AITER_PREBUILT_HIP"])
    assert sum(one(memory, fp8, call) > 1 for call in CALLS) >= 3
    print("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[2]))
