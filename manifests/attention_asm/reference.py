"""Attention by AITER's assembly, forward."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

#: A unit of the last place of bf16: what rounding towards zero loses, and twice what rounding to nearest does.
_UNIT = 2.0**-7
_ROUNDING = 2.0**-24


def fmha_v3_fwd(
    q: Values,
    k: Values,
    v: Values,
    softmax_scale: float,
    is_causal: bool,
    return_softmax_lse: bool,
    how_v3_bf16_cvt: int,
) -> dict[str, Near | None]:
    """softmax(q @ k^T * softmax_scale) @ v for each head; lse is the natural logarithm of the sum of the exponentials.

    q [b, sq, hq, d], k [b, sk, hk, d], v [b, sk, hk, dv], hq a multiple of hk. is_causal is aligned bottom-right: query i sees
    key j when j <= i + sk - sq; where it sees none, out is 0.

    Scores are sums in fp32 and the argument of exp2: they are off by about d / 4 + 8 roundings of their size. A kernel adds the
    probabilities before it rounds them to bf16 for the second product, so out is off by one rounding of them times sum p * |v|;
    rounding towards zero (2) loses twice as much there, and up to a unit of the result.
    """
    group = q.shape[2] // k.shape[2]
    queries, keys, values = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    keys, values = (np.repeat(x, group, axis=1) for x in (keys, values))
    scores = queries @ keys.swapaxes(-1, -2) * softmax_scale
    if is_causal:
        hidden = np.arange(k.shape[1])[None, :] > np.arange(q.shape[1])[:, None] + (k.shape[1] - q.shape[1])
        scores = np.where(hidden, -np.inf, scores)
    peak = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isinf(peak), 0.0, peak))
    total = powers.sum(axis=-1, keepdims=True)
    weights = powers / np.where(total == 0, 1.0, total)
    out = weights @ values
    sizes = np.sqrt((queries**2) @ (keys**2).swapaxes(-1, -2)) * abs(softmax_scale)
    off = _ROUNDING * ((q.shape[-1] / 4 + 8) * 2 * sizes.max(axis=-1, keepdims=True) + 32)
    lost = _UNIT if how_v3_bf16_cvt == 2 else _UNIT / 2
    error = (lost * 1.01 + 2 * off) * (weights @ np.abs(values)) + 2.0**-125
    turned = _UNIT if how_v3_bf16_cvt == 2 else 0.0
    with np.errstate(divide="ignore"):
        lse = (peak + np.log(total))[..., 0]
    return {
        "out": near(out.transpose(0, 2, 1, 3), relative=turned, absolute=error.transpose(0, 2, 1, 3)),
        "softmax_lse": near(lse, relative=2 * _ROUNDING, absolute=off[..., 0] + 2 * _ROUNDING)
        if return_softmax_lse
        else None,
    }


def fmha_v3_varlen_fwd(
    q: Values,
    k: Values,
    v: Values,
    cu_seqlens_q: Values,
    cu_seqlens_k: Values,
    softmax_scale: float,
    is_causal: bool,
    return_softmax_lse: bool,
    how_v3_bf16_cvt: int,
) -> dict[str, Near | None]:
    """:func:`fmha_v3_fwd` of each sequence: its queries are the rows from cu_seqlens_q[i] to cu_seqlens_q[i + 1] of q.

    q [sq, hq, d], k [sk, hk, d], v [sk, hk, dv]; rows of no sequence stay as they were.
    """
    count, heads = q.shape[:2]
    shape = (count, heads, v.shape[2])
    out, error, kept = np.zeros(shape), np.zeros(shape), np.ones(shape, bool)
    lse, off, quiet = np.zeros((heads, count)), np.zeros((heads, count)), np.ones((heads, count), bool)
    spans = (list(itertools.pairwise(edges.tolist())) for edges in (cu_seqlens_q, cu_seqlens_k))
    for (first, last), (begin, end) in zip(*spans, strict=True):
        if last <= first:
            continue
        if end <= begin:
            kept[first:last] = quiet[:, first:last] = False
            lse[:, first:last] = -np.inf
            continue
        part = (q[None, first:last], k[None, begin:end], v[None, begin:end])
        found = fmha_v3_fwd(*part, softmax_scale, is_causal, True, how_v3_bf16_cvt)
        result, sums = found["out"], found["softmax_lse"]
        assert result is not None and sums is not None  # the sums were asked for
        rows = slice(first, last)
        out[rows], error[rows], kept[rows] = result.values[0], result.error[0], False
        lse[:, rows], off[:, rows], quiet[:, rows] = sums.values[0], sums.error[0], False
    return {
        "out": near(np.ma.masked_array(out, kept), absolute=error),
        "softmax_lse": near(np.ma.masked_array(lse, quiet), absolute=off) if return_softmax_lse else None,
    }


def pa_fwd_asm(
    Q: Values, K: Values, V: Values, block_tables: Values, context_lens: Values, kinds: dict[str, str]
) -> Near:
    """softmax(q @ k^T / sqrt(d)) @ v for each sequence and head.

    Q [s, hq, d]; K [nb, hk, d / 8, 16, 8] and V [nb, hk, 2, d, 8] are blocks of 16 keys: sequence i's key j is number j % 16
    of block block_tables[i, j // 16], for j below context_lens[i].

    The probabilities are rounded to the type of V, not always to nearest: one unit of them at most.
    """
    sequences, heads, depth = Q.shape
    group = heads // K.shape[1]
    lost = {"bf16": _UNIT, "f16": 2.0**-10}[kinds["V"]]
    out, error = np.zeros_like(Q), np.zeros_like(Q)
    for place in range(sequences):
        count = int(context_lens[place])
        blocks = block_tables[place, : -(-count // 16)]
        # [blocks, hk, d / 8, 16, 8] -> [hk, blocks * 16, d], and [blocks, hk, 2, d, 8] -> [hk, blocks * 16, d]
        keys = (
            K[blocks].transpose(1, 0, 3, 2, 4).reshape(K.shape[1], -1, depth)[:, :count].repeat(group, axis=0)
        )
        values = (
            V[blocks].transpose(1, 0, 2, 4, 3).reshape(V.shape[1], -1, depth)[:, :count].repeat(group, axis=0)
        )
        scores = np.einsum("hd,hkd->hk", Q[place], keys) / np.sqrt(depth)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = powers / powers.sum(axis=-1, keepdims=True)
        out[place] = np.einsum("hk,hkd->hd", weights, values)
        size = np.sqrt((Q[place] ** 2).sum(-1) * (keys**2).sum(-1).max(axis=-1)) / np.sqrt(depth)
        off = _ROUNDING * ((depth / 4 + 8) * 2 * size + 32)
        error[place] = (lost * 1.01 + 2 * off)[:, None] * np.einsum("hk,hkd->hd", weights, np.abs(values))
    return near(out, absolute=error + 2.0**-125)


def draw_blocks(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Any blocks of the cache, one of them for two places now and then."""
    return rng.integers(0, sizes["NB"], shape)


def draw_lengths(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """From one key to a full table; the first sequence has a full one, the last one key, a lone one a table that is not full."""
    found = rng.integers(1, 16 * sizes["MB"] + 1, shape)
    found[:1] = 16 * sizes["MB"] - 5 * (found.size == 1)
    found[1:][-1:] = 1
    return found


def _parts(total: int, count: int) -> Values:
    """``total`` in ``count`` parts of different sizes, none of them 0 where there is enough."""
    weights = np.array([5, 2, 9, 1, 4, 7])[np.arange(count) % 6]
    cuts = np.cumsum(weights)[:-1] * max(total - count, 0) // weights.sum()
    return np.diff(np.concatenate([[0], cuts, [max(total - count, 0)]])) + (total >= count)


def draw_query_starts(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1
) -> Values:
    """Where each sequence starts, and where the last ends; sequence number ``empty`` has no query."""
    del rng
    count = shape[0] - 1
    lengths = _parts(sizes["SQ"], count)
    if empty >= 0:
        lengths[(int(empty) + 1) % count] += lengths[int(empty)]
        lengths[int(empty)] = 0
    return np.concatenate([[0], np.cumsum(lengths)])


def draw_key_starts(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1
) -> Values:
    """The same for keys: no sequence has fewer than queries, where there are as many."""
    if sizes["SK"] < sizes["SQ"]:
        return np.concatenate([[0], np.cumsum(_parts(sizes["SK"], shape[0] - 1))])
    lengths = np.diff(draw_query_starts(rng, shape, sizes, empty))
    return np.concatenate([[0], np.cumsum(lengths + _parts(sizes["SK"] - sizes["SQ"], lengths.size)[::-1])])
