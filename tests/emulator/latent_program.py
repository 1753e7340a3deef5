"""A child of ``test_latent_lists.py``: lists from ``get_mla_metadata_v1``, attention from ``mla_decode_fwd`` with them.

Arguments: the target, its own fp8.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from typing import Any

import numpy as np

import aiter_prebuilt
from aiter_prebuilt import device
from aiter_prebuilt.device_memory import DeviceMemory
from aiter_prebuilt.execute.array import DeviceArray
from aiter_prebuilt.execute.record import Recorder, instead
from build_tools.cases import numbers

#: They take tensors without a framework, too, which their types do not say.
lists: Any = aiter_prebuilt.get_mla_metadata_v1
decode: Any = aiter_prebuilt.mla_decode_fwd
UNITS = 9
#: Heads, queries of a batch, types of queries and keys, lengths of contexts.
CALLS = [
    (16, 1, "bf16", "bf16", (1, 0, 2900, 17, 640)), (16, 1, "bf16", "bf16", (16,)), (16, 4, "bf16", "bf16", (4, 1155, 0, 963)),
    (16, 2, "bf16", "fp8", (700, 2, 1601)), (48, 1, "bf16", "bf16", (333, 900)), (128, 1, "fp8", "fp8", (1, 0, 1200, 31)),
    (128, 3, "fp8", "fp8", (3, 977)),
]  # fmt: skip
#: Of a probability that becomes bf16 or fp8, and of a result that becomes bf16.
LOST = {"bf16": 2.0**-7, "fp8": 2.0**-4}


def main(target: str, fp8: str) -> int:
    """All calls, and one that gfx950 alone has."""
    facts, path = device.facts("amd", 0), os.environ["AITER_PREBUILT_HIP"]
    memory, recorder = DeviceMemory(facts, path), Recorder(facts, facts.compute_units, None)
    with (
        instead(lists, recorder),
        instead(decode, recorder),
    ):
        for call in [*CALLS, *([(16, 1, "fp8", "fp8", (450, 2000))] if target == "gfx950" else [])]:
            one(memory, fp8, *call)
    print("done")
    return 0


def one(
    memory: DeviceMemory,
    fp8: str,
    heads: int,
    queries: int,
    q_kind: str,
    kv_kind: str,
    lengths: tuple[int, ...],
) -> None:
    """One batch."""
    rng = np.random.default_rng(sum(lengths))
    tokens, keys, batches = queries * len(lengths), sum(lengths), len(lengths)

    def made(kind: str, values: Any) -> Any:
        name = fp8 if kind == "fp8" else kind
        return DeviceArray(memory, name, values.shape, numbers.encode(values, name).tobytes())

    def read(array: DeviceArray) -> Any:
        kind = numbers.stored(array.dtype)
        return numbers.decode(np.frombuffer(array.read(), kind).reshape(array.shape), array.dtype)

    q, kv = (
        made(q_kind, rng.normal(size=(tokens, heads, 576))),
        made(kv_kind, rng.normal(size=(keys + 3, 1, 1, 576))),
    )
    pages = rng.integers(0, keys + 3, keys)
    q_starts = made("i32", np.arange(batches + 1) * queries)
    kv_starts = made("i32", np.concatenate([[0], np.cumsum(lengths)]))
    fold, tiles = (1 if heads in (16, 128) else heads // 16), (queries if heads == 128 else 1)
    cut, all_tiles = (batches * fold + UNITS - 1) * tiles, batches * fold * tiles
    pointers = DeviceArray(memory, "i64", (2,))
    units, works = DeviceArray(memory, "i32", (UNITS + 1,)), DeviceArray(memory, "i32", (cut, 8))
    sums, targets = DeviceArray(memory, "i32", (all_tiles + 1,)), DeviceArray(memory, "i32", (all_tiles, 2))
    sources = DeviceArray(memory, "i32", (cut,))
    lists(
        q_starts, kv_starts, heads, 1, True, pointers, works, units, sums, targets, sources,
        max_seqlen_qo=queries, uni_seqlen_qo=queries,
    )  # fmt: skip
    # works and units stood in the order of AITER's kernel, not in that of its Python function
    assert read(pointers).astype(int).tolist() == [units[0], works[0]]
    out, scale = DeviceArray(memory, "bf16", (tokens, heads, 512)), made("f32", np.array([0.5]))
    decode(
        q, kv, out, q_starts, kv_starts, made("i32", pages), made("i32", np.ones(batches)), queries,
        work_meta_data=pointers, work_indptr=units, work_info_set=works, reduce_indptr=sums, reduce_final_map=targets,
        reduce_partial_map=sources, q_scale=scale, kv_scale=scale,
    )  # fmt: skip
    found, asked, stored = read(out), read(q), read(kv).reshape(keys + 3, 576)
    untouched = np.isnan(found) if np.isnan(read(DeviceArray(memory, "bf16", (1,)))).all() else None
    asked, stored = (
        values * (0.5 if kind == "fp8" else 1) for values, kind in ((asked, q_kind), (stored, kv_kind))
    )
    for batch, (start, stop) in enumerate(pairwise(np.concatenate([[0], np.cumsum(lengths)]))):
        for place in range(queries):
            token, end = batch * queries + place, stop - (queries - 1 - place)
            if stop == start:
                assert untouched is None or untouched[token].all()
                continue
            own = stored[pages[start:end]]
            scores = asked[token] @ own.T * 576**-0.5
            powers = np.exp(scores - scores.max(-1, keepdims=True))
            shares = powers / powers.sum(-1, keepdims=True)
            want = shares @ own[:, :512]
            allowed = (LOST[q_kind] + 2.0**-8) * shares @ np.abs(own[:, :512]) + 2.0**-8 * np.abs(want) + 1e-6
            if q_kind == "fp8":  # it has no number below 2^-10
                allowed += 2.0**-10 * np.abs(own[:, :512]).sum(0) / powers.sum(-1, keepdims=True)
            assert (np.abs(found[token] - want) <= allowed).all(), (heads, queries, lengths, token)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
