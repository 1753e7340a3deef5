"""Attention by AITER's assembly, forward."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near
from build_tools.cases.numbers import rounded

#: A unit of the last place of bf16: what rounding towards zero loses, and twice what rounding to nearest does.
_UNIT = 2.0**-7
_ROUNDING = 2.0**-24
#: The largest code of an 8-bit type, as the objects of paged attention use it, and the keys that they take at once.
_LARGEST = {"e4m3fn": 448.0, "e4m3fnuz": 240.0, "i8": 127.0}
_TILE = 256


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
    Q: Values,
    K: Values,
    V: Values,
    block_tables: Values,
    context_lens: Values,
    K_QScale: Values | None,
    V_QScale: Values | None,
    qo_indptr: Values | None,
    max_qlen: int,
    high_precision: int,
    kernelName: str | None,
    kinds: dict[str, str],
) -> Near:
    """softmax(q @ k^T / sqrt(d)) @ v for each query and head.

    Q [r, hq, d]; K [nb, hk, d / x, bs, x] and V [nb, hk, bs / x, d, x] are blocks of bs keys, x of them 16 bytes: sequence i's
    key j is number j % bs of block block_tables[i, j // bs], for j below context_lens[i], times its own scale in an 8-bit cache.
    Row i of Q is sequence i's query. With qo_indptr and max_qlen > 1 it has the rows from qo_indptr[i] to qo_indptr[i + 1]: the
    last sees all its keys, the one before it one fewer, and so on; of an object that is asked for by name, each sees all.

    16-bit probabilities are not always rounded to nearest: one unit of them at most. For 8-bit caches the objects quantise the
    queries, too, each head by its largest element, and that is part of the result here.
    """
    heads, depth = K.shape[1], Q.shape[2]
    group = Q.shape[1] // heads
    code = kinds["K"] if kinds["K"] in _LARGEST else ""
    starts = np.arange(len(context_lens) + 1) if qo_indptr is None or max_qlen == 1 else qo_indptr
    several = starts is qo_indptr
    fine = 0 if several or code == "i8" or group > 8 or K.shape[3] != 16 else high_precision
    lost = 2.0**-10 if kinds["V"] == "f16" else _UNIT
    out, error, written = np.zeros_like(Q), np.zeros_like(Q), np.zeros(Q.shape, bool)
    for place, count in enumerate(context_lens.tolist()):
        blocks = block_tables[place, : -(-count // K.shape[3])]
        keys = _row(K[blocks].transpose(0, 3, 1, 2, 4), (heads, depth), count, group)
        values = _row(V[blocks].transpose(0, 2, 4, 1, 3), (heads, depth), count, group)
        by_key, by_value = (
            np.ones((1, count))
            if scale is None
            else _row(scale.reshape(-1, heads, K.shape[3])[blocks].swapaxes(1, 2), (heads,), count, group)
            for scale in (K_QScale, V_QScale)
        )
        for row in range(int(starts[place]), int(starts[place + 1])):
            seen = count - (0 if "msk0" in (kernelName or "") else int(starts[place + 1]) - 1 - row)
            query, unsure = _coded(Q[row], 2.0**-21, code) if code else (Q[row], np.zeros_like(Q[row]))
            units = by_key[:, :seen] / np.sqrt(depth)
            scores = np.einsum("hd,hkd->hk", query, keys[:, :seen]) * units
            size = np.sqrt((query**2).sum(-1)[:, None] * (keys[:, :seen] ** 2).sum(-1)) * units
            off = _ROUNDING * ((depth / 4 + 8) * 2 * size.max(axis=-1, keepdims=True) + 32)
            off = off + np.einsum("hd,hkd->hk", unsure, np.abs(keys[:, :seen])) * units
            rest = (by_value[:, :seen], values[:, :seen], lost, code, fine)
            out[row], error[row] = _weighed(scores, off, *rest)
            written[row] = True
    cut = 2.0**-10 if kinds["Q"] == "f16" else 0.0  # results become f16 towards zero
    return near(
        np.ma.masked_array(out, ~written), relative=cut, absolute=error + 2.0**-24 * (cut > 0) + 2.0**-125
    )


def _row(blocks: Values, each: tuple[int, ...], count: int, group: int) -> Values:
    """[blocks, keys of each, hk, ...] as [hk * group, count, ...]; ``each``: hk, and what a head has."""
    found: Values = blocks.reshape(-1, *each)[:count].swapaxes(0, 1).repeat(group, axis=0)
    return found


def _coded(x: Values, off: Values | float, code: str) -> tuple[Values, Values]:
    """(Rows of x, 8 bits each, times a scale a row; how far that is off where each x may be off by a share ``off`` of itself).

    The largest of a row, and 1e-6 at least, becomes the largest code; fp8 is rounded to nearest, int8 towards zero.
    """
    scale = np.maximum(np.abs(x).max(axis=-1, keepdims=True), 1e-6) / _LARGEST[code]
    ends = [x / scale * (1 - off), x / scale * (1 + off)]
    low, high = (np.trunc(end) if code == "i8" else rounded(end, code, saturate=True) for end in ends)
    return (low + high) / 2 * scale, np.abs(high - low) / 2 * scale


def _weighed(
    scores: Values, off: Values, scales: Values, values: Values, lost: float, code: str, fine: int
) -> tuple[Values, Values]:
    """(The values, weighed with the softmax of scores; how far it may be off): [h, d] of [h, k] and [h, k, d].

    An 8-bit cache's probabilities, times the scales of values, are quantised by 256 keys, and are 1 for the largest score so far;
    with ``fine`` 1 those of an incomplete 256 are in bf16, with 2 all are.
    """
    spans = [slice(start, start + _TILE) for start in range(0, scores.shape[1], _TILE)]
    tops = np.maximum.accumulate([scores[:, span].max(axis=-1, keepdims=True) for span in spans])
    total = np.exp(scores - tops[-1]).sum(axis=-1, keepdims=True)
    out, error = np.zeros((2, scores.shape[0], values.shape[2]))
    for span, top in zip(spans, tops, strict=True):
        weights, sizes = np.exp(scores[:, span] - top) * scales[:, span], np.abs(values[:, span])
        share, far = np.exp(top - tops[-1]) / total, off.max(axis=-1, keepdims=True)
        if code and not (fine == 2 or (fine == 1 and span.stop > scores.shape[1])):
            weights, unsure = _coded(weights, off[:, span] + far + 16 * _ROUNDING, code)
        else:
            unsure = np.abs(weights) * lost * 1.01
        out += share * np.einsum("hk,hkd->hd", weights, values[:, span])
        error += share * np.einsum("hk,hkd->hd", unsure + 2 * far * np.abs(weights), sizes)
    return out, error


def draw_blocks(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Any blocks of the cache, one of them for two places now and then."""
    return rng.integers(0, sizes["NB"], shape)


def draw_lengths(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], least: float = 1
) -> Values:
    """From ``least`` keys to a full table; the first sequence has a full one, the last the least, a lone one nearly a full one.

    None has 241 to 255 keys, of which AITER's objects make something else (``hsa/findings.toml``).
    """
    keys = sizes["BS"] * sizes["MB"]
    found = rng.integers(int(least), keys + 1, shape)
    found[:1] = keys - 5 * (found.size == 1)
    found[1:][-1:] = int(least)
    return np.where((found > 240) & (found < 256), 240, found)


def draw_borders(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], least: float = 1) -> Values:
    """As many keys as fill blocks of 16 and of 256, one fewer and one more, none fewer than ``least``; 241 and 255, too, in
    blocks of 1024.
    """
    del rng
    keys = [1, 15, 16, 17, 240, 256, 257, 300, 495, 496, 511, 512, 513]
    if sizes["BS"] > 16:
        keys += [241, 255, 1023, 1024, 1025]
    found: Values = np.clip(np.resize(keys, shape), int(least), sizes["BS"] * sizes["MB"])
    return found


def draw_rows(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], most: float = 4) -> Values:
    """Where the queries of each sequence start, and where the last end: from one to ``most`` each, the last ones more."""
    del rng
    lengths = np.ones(shape[0] - 1, np.int64)
    for place in range(-1, shape[0] - 2):
        lengths[place] += min(int(most) - 1, sizes["R"] - lengths.sum())
    return np.concatenate([[0], np.cumsum(lengths)])


def draw_cache(rng: np.random.Generator, shape: tuple[int, ...], sizes: object, *, kind: str) -> Values:
    """Keys or values of ordinary sizes; whole numbers up to 127 in a cache of 8 bits, which has scales."""
    del sizes
    found = rng.standard_normal(shape)
    return found if kind in ("bf16", "f16") else np.clip(np.rint(found * 32), -127, 127)


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
