"""Attention of prompts by lists of works, and the lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from build_tools.cases.latent import (
    draw_contexts,
    draw_factor,
    draw_pages,
    draw_queries,
    draw_ragged,
    first_rows,
    untouched,
)
from build_tools.cases.near import Near, Values, near
from build_tools.cases.prompt_works import Workload, Works, shared_out

__all__ = ["draw_contexts", "draw_factor", "draw_pages", "draw_queries", "draw_ragged"]

#: A probability becomes bf16, not always to nearest; sums are fp32.
_UNIT = 2.0**-7
_ROUNDING = 2.0**-24


def get_ps_metadata_v1(
    seqlens_qo_indptr: Values,
    pages_kv_indptr: Values,
    context_lens: Values,
    num_heads_k: int,
    qhead_granularity: int,
    qlen_granularity: int,
    kvlen_granularity: int,
    block_size: int,
    is_causal: bool,
    sizes: dict[str, int],
) -> dict[str, Near]:
    """The lists of ``mla_prefill``; what they do not need stays as it is."""
    queries, pages, lengths = (
        [int(place) for place in places] for places in (seqlens_qo_indptr, pages_kv_indptr, context_lens)
    )
    made = shared_out(
        Workload(
            queries,
            pages,
            lengths,
            num_heads_k,
            qhead_granularity,
            qlen_granularity,
            kvlen_granularity,
            block_size,
            is_causal,
            sizes["W1"] - 1,
        )
    )
    sums = np.cumsum([0, *(len(rows) for *_, rows in made.tiles)])
    rows = [row for *_, rows in made.tiles for row in rows]
    return {
        "work_indptr": near(np.array(made.borders)),
        "work_info": near(first_rows(made.works, sizes["NW"], 8)),
        "reduce_indptr": near(np.pad(sums, (0, sizes["G1"] - len(sums)), mode="edge")),
        "reduce_final_map": near(
            first_rows([(first, end) for first, end, _ in made.tiles], sizes["G1"] - 1, 2)
        ),
        "reduce_partial_map": near(first_rows(rows, sizes["M"])),
    }


def mla_prefill_ps_asm_fwd(
    Q: Values,
    K: Values,
    V: Values,
    qo_indptr: Values,
    kv_indptr: Values,
    kv_page_indices: Values,
    work_indptr: Values,
    work_info_set: Values,
    softmax_scale: float,
    is_causal: bool,
    q_scale: Values | None,
    k_scale: Values | None,
    v_scale: Values | None,
    sizes: dict[str, int],
) -> dict[str, Near]:
    """Of each work softmax(q @ k^T * scale) @ v over its keys alone, and the logarithm of the sum of its exponentials."""
    factors = [1.0 if scale is None else float(scale[0]) for scale in (q_scale, k_scale, v_scale)]
    group, depth = Q.shape[1] // K.shape[1], V.shape[2]
    out, parts, sums = (
        untouched(*shape)
        for shape in ((*Q.shape[:2], depth), (sizes["R"], Q.shape[1], depth), (sizes["R"], Q.shape[1]))
    )
    off_out, off_parts, off_sums = (np.zeros(each.shape) for each in (out, parts, sums))
    for work in work_info_set[: int(work_indptr[-1])].astype(int):
        batch, part, first, end, start, stop, _, heads = (int(value) for value in work)
        last_q, last_k = int(qo_indptr[batch + 1]), int(kv_indptr[batch + 1])
        for head in range(heads & 0xFFFF, heads >> 16):
            for token in range(first, end):
                seen = min(stop, last_k - (last_q - 1 - token) if is_causal else last_k)
                pages = kv_page_indices[start : max(seen, start)].astype(int)
                keys, values = K[pages, head // group] * factors[1], V[pages, head // group] * factors[2]
                found = _row(Q[token, head] * factors[0], keys, values, softmax_scale)
                if part < 0:
                    out[token, head], off_out[token, head] = found[:2]
                else:
                    row = part + token - first
                    parts[row, head], off_parts[row, head], sums[row, head], off_sums[row, head] = found
    return {
        "splitData": near(parts, absolute=off_parts),
        "splitLse": near(sums, absolute=off_sums),
        "output": near(out, absolute=off_out),
    }


def _row(query: Values, keys: Values, values: Values, scale: float) -> tuple[Any, Any, Any, Any]:
    """Result and its error, logarithm of the sum and its error; of no key 0 and minus infinity."""
    if not len(keys):
        return 0.0, 0.0, -np.inf, 0.0
    scores = keys @ query * scale
    peak = scores.max()
    powers = np.exp(scores - peak)
    total = powers.sum()
    size = np.sqrt((query**2).sum() * (keys**2).sum(-1).max()) * abs(scale)
    off = _ROUNDING * ((keys.shape[1] / 4 + 8) * 2 * size + 32)
    error = (_UNIT * 1.01 + 2 * off) * (powers / total) @ np.abs(values) + 2.0**-125
    logarithm = peak + np.log(total)
    return powers / total @ values, error, logarithm, off + 4 * _ROUNDING * (1 + abs(logarithm))


# ---- lists ------------------------------------------------------------------------------------------------------------


def draw_lengths(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], least: float, most: float
) -> Values:
    """The keys of each batch."""
    del rng, sizes
    return np.random.default_rng(0).integers(int(least), int(most) + 1, shape)


def draw_blocks(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    least: float,
    most: float,
    size: float,
) -> Values:
    """Where the pages of each batch begin, of ``size`` keys each."""
    lengths = draw_lengths(rng, (shape[0] - 1,), sizes, least, most)
    return np.concatenate([[0], np.ceil(lengths / size).cumsum()]).astype(int)


def _works(sizes: Mapping[str, int], step: float, causal: float, empty: float) -> Works:
    """Of tiles of ``step`` queries, and of 16 keys that are not taken apart."""
    rng, shape = np.random.default_rng(0), (sizes["B1"],)
    queries = [int(place) for place in draw_queries(rng, shape, sizes)]
    pages = [int(place) for place in draw_contexts(rng, shape, sizes, empty)]
    lengths = [int(length) for length in np.diff(pages)]
    each = sizes["HQ"] // sizes["HK"]
    asked = Workload(
        queries, pages, lengths, sizes["HK"], each, int(step), 16, 1, causal > 0, sizes["W1"] - 1
    )
    return shared_out(asked)


def draw_units(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    step: float,
    causal: float = 1.0,
    empty: float = -1.0,
) -> Values:
    """Where the works of each workgroup begin."""
    del rng, shape
    return np.array(_works(sizes, step, causal, empty).borders)


def draw_works(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    step: float,
    causal: float = 1.0,
    empty: float = -1.0,
) -> Values:
    """The works, and behind them rubbish."""
    made: Values = rng.integers(1 << 20, 1 << 30, shape)
    works = _works(sizes, step, causal, empty).works
    made[: len(works)] = works
    return made
