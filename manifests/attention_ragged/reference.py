"""Attention of sequences of different lengths, forward."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

#: Half a unit of the last place: a kernel rounds the probabilities to the type of q before the second product.
_PROBABILITY = {"bf16": 2.0**-8, "f16": 2.0**-11}
_ROUNDING = 2.0**-24


def flash_attn_varlen_func(
    q: Values,
    k: Values,
    v: Values,
    cu_seqlens_q: Values,
    cu_seqlens_k: Values,
    max_seqlen_q: int,
    max_seqlen_k: int,
    min_seqlen_q: int,
    softmax_scale: float | None,
    logits_soft_cap: float,
    causal: bool,
    window_size: tuple[int, ...],
    return_lse: bool,
    sink_ptr: Values | None,
    kinds: dict[str, str],
) -> dict[str, Near | None]:
    """:func:`attend` of each sequence: its queries are the rows from cu_seqlens_q[i] to cu_seqlens_q[i + 1] of q, keys so, too.

    q [sq, hq, d], k [sk, hk, d], v [sk, hk, dv], hq a multiple of hk. Rows of no sequence stay as they were, those behind the
    first max_seqlen_q of a sequence, and those of sequences with at most min_seqlen_q queries where AITER's Composable Kernel
    would serve the call (its assembly takes them). A left window of max_seqlen_k keys is none, a right one of all there are.
    """
    left, right = window_size[:2]
    left = -1 if left >= max_seqlen_k else left
    right = 0 if causal else -1 if right >= max(max_seqlen_k, max_seqlen_q - 1) else right
    sizes = (q.shape[2], v.shape[2])
    assembly = (
        kinds["q"] == "bf16" and sizes in ((128, 128), (192, 128)) and max(left, right, logits_soft_cap) <= 0
    )
    least = 0 if assembly else max(min_seqlen_q, 0)
    scale = q.shape[2] ** -0.5 if softmax_scale is None else softmax_scale
    parts = []
    spans = (itertools.pairwise(edges.tolist()) for edges in (cu_seqlens_q, cu_seqlens_k))
    for (first, last), (begin, end) in zip(*spans, strict=True):
        if last - first > least:
            parts.append((first, last, k[begin:end], v[begin:end]))
    lost = _PROBABILITY[kinds["q"]]
    out, lse = joined(
        q, v.shape[2], parts, max_seqlen_q, (scale, logits_soft_cap, left, right), sink_ptr, lost
    )
    return {"out": out, "lse": lse if return_lse else None}


def unified_attention(
    q: Values,
    k: Values,
    v: Values,
    cu_seqlens_q: Values,
    max_seqlen_q: int,
    seqused_k: Values,
    softmax_scale: float,
    window_size: tuple[int, ...],
    block_table: Values,
    softcap: float,
    k_descale: Values | None,
    v_descale: Values | None,
    sinks: Values | None,
    kinds: dict[str, str],
) -> Near:
    """:func:`attend` of each sequence, whose keys are the first seqused_k[i] of the pages that block_table[i] names.

    q [sq, hq, d], k [nb, ps, hk, d], v [nb, ps, hk, dv]. A cache of 8 bits is multiplied with its scales.
    """
    k, v = _scaled(k, v, k_descale, v_descale, kinds)
    parts = []
    for place, ((first, last), count) in enumerate(
        zip(itertools.pairwise(cu_seqlens_q.tolist()), seqused_k.tolist(), strict=True)
    ):
        pages = block_table[place, : -(-count // k.shape[1])]
        parts.append((first, last, *_rows(k, v, pages, count)))
    how = (softmax_scale, softcap, window_size[0], 0)
    return joined(q, v.shape[3], parts, max_seqlen_q, how, sinks, _PROBABILITY[kinds["q"]])[0]


def mha_batch_prefill_func(
    q: Values,
    k: Values,
    v: Values,
    cu_seqlens_q: Values,
    kv_indptr: Values,
    kv_page_indices: Values,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float | None,
    logits_soft_cap: float,
    causal: bool,
    window_size: tuple[int, ...],
    return_lse: bool,
    kv_last_page_lens: Values | None,
    k_descale: Values | None,
    v_descale: Values | None,
    sink_ptr: Values | None,
    kinds: dict[str, str],
) -> dict[str, Near | None]:
    """:func:`attend` of each sequence, whose pages are kv_page_indices[kv_indptr[i] : kv_indptr[i + 1]]; of the last one
    kv_last_page_lens[i] keys count, all without it.

    q [sq, hq, d], k [nb, ps, hk, d], v [nb, ps, hk, dv]. A cache of 8 bits is multiplied with its scales.
    """
    k, v = _scaled(k, v, k_descale, v_descale, kinds)
    left, right = window_size
    left = -1 if left >= max_seqlen_k else left
    right = 0 if causal else -1 if right >= max(max_seqlen_k, max_seqlen_q - 1) else right
    scale = q.shape[2] ** -0.5 if softmax_scale is None else softmax_scale
    size = k.shape[1]
    parts = []
    spans = (itertools.pairwise(edges.tolist()) for edges in (cu_seqlens_q, kv_indptr))
    for place, ((first, last), (begin, end)) in enumerate(zip(*spans, strict=True)):
        missing = 0 if kv_last_page_lens is None or end <= begin else size - int(kv_last_page_lens[place])
        count = (end - begin) * size - missing
        parts.append((first, last, *_rows(k, v, kv_page_indices[begin:end], count)))
    how = (scale, logits_soft_cap, left, right)
    out, lse = joined(q, v.shape[3], parts, max_seqlen_q, how, sink_ptr, _PROBABILITY[kinds["q"]])
    return {"out": out, "lse": lse if return_lse else None}


def _scaled(
    k: Values, v: Values, k_descale: Values | None, v_descale: Values | None, kinds: dict[str, str]
) -> tuple[Values, Values]:
    """Keys and values of 8 bits, times the first element of their scales; others as they are."""
    if kinds["k"] in ("bf16", "f16") or k_descale is None or v_descale is None:
        return k, v
    return k * k_descale.flat[0], v * v_descale.flat[0]


def _rows(k: Values, v: Values, pages: Values, count: int) -> tuple[Values, Values]:
    """The first ``count`` keys and values of ``pages``."""
    keys, values = (x[pages].reshape(-1, *x.shape[2:])[:count] for x in (k, v))
    return keys, values


def joined(
    q: Values,
    width: int,
    parts: list[tuple[int, int, Values, Values]],
    most: int,
    how: tuple[float, float, int, int],
    sinks: Values | None,
    lost: float,
) -> tuple[Near, Near]:
    """:func:`attend` of each part (rows of q from, to, keys, values): out [sq, hq, width] and lse [hq, sq], others masked."""
    count, heads = q.shape[:2]
    out, error = np.zeros((2, count, heads, width))
    lse, off = np.zeros((2, heads, count))
    kept = np.ones(count, bool)
    for first, last, keys, values in parts:
        end = min(last, first + most)
        rows = slice(first, end)
        found = attend(q[first:last], keys, values, how, sinks, lost)
        out[rows], error[rows] = (x[: end - first] for x in found[:2])
        lse[:, rows], off[:, rows] = (x[:, : end - first] for x in found[2:])
        kept[rows] = False
    return (
        near(np.ma.masked_array(out, np.broadcast_to(kept[:, None, None], out.shape)), absolute=error),
        near(
            np.ma.masked_array(lse, np.broadcast_to(kept[None, :], lse.shape)),
            relative=2 * _ROUNDING,
            absolute=off,
        ),
    )


def attend(
    q: Values,
    k: Values,
    v: Values,
    how: tuple[float, float, int, int],
    sinks: Values | None,
    lost: float,
) -> tuple[Values, Values, Values, Values]:
    """softmax(cap(q @ k^T * scale)) @ v for each head, and the natural logarithm of the sum; how far each may be off.

    q [n, hq, d], k [m, hk, d], v [m, hk, dv]; how is scale, cap, left, right: query i sees keys from i + m - n - left to
    i + m - n + right, -1 is no limit; cap(x) is cap * tanh(x / cap), with a cap of 0 it is x. A sink is one more score of its
    head, whose value is 0. A query that sees no key has out 0, and lse -inf or its sink.

    Scores are sums in fp32 and the argument of exp2: they are off by about d / 4 + 8 roundings of their size, and a capped one by
    some of the cap. A kernel adds the probabilities before it rounds them for the second product.

    Limit: a kernel multiplies keys that a query does not see by 0, and those that fill a tile, too: an infinity or NaN in v may
    make NaN of what does not depend on it.
    """
    scale, cap, left, right = how
    group = q.shape[1] // k.shape[1]
    queries = q.transpose(1, 0, 2)
    keys, values = (np.repeat(x.transpose(1, 0, 2), group, axis=0) for x in (k, v))
    scores = queries @ keys.swapaxes(-1, -2) * scale
    if cap > 0:
        scores = cap * np.tanh(scores / cap)
    places = np.arange(q.shape[0])[:, None] + k.shape[0] - q.shape[0]
    far = np.arange(k.shape[0])[None, :] - places
    hidden = ((far < -left) & (left >= 0)) | ((far > right) & (right >= 0))
    scores = np.where(hidden, -np.inf, scores)
    sink = np.full(q.shape[1], -np.inf) if sinks is None else sinks
    sink = np.broadcast_to(sink[:, None, None], (*scores.shape[:2], 1))
    peak = np.maximum(scores.max(axis=-1, keepdims=True, initial=-np.inf), sink)
    base = np.where(peak == -np.inf, 0.0, peak)
    powers = np.exp(scores - base)
    total = powers.sum(axis=-1, keepdims=True) + np.exp(sink - base)
    weights = powers / np.where(total == 0, 1.0, total)
    size = 2 * np.sqrt((queries**2) @ (keys**2).swapaxes(-1, -2)).max(axis=-1, keepdims=True, initial=0.0)
    off = _ROUNDING * ((q.shape[2] / 4 + 8) * size * abs(scale) + 32 + 16 * max(cap, 0.0))
    error = (lost * 1.01 + 2 * off) * (weights @ np.abs(values)) + 2.0**-125
    with np.errstate(divide="ignore"):
        lse = (base + np.log(total))[..., 0]
    back = (1, 0, 2)
    return (weights @ values).transpose(back), _finite(error.transpose(back)), lse, _finite(off[..., 0])


def _finite(error: Values) -> Values:
    return np.where(np.isfinite(error), error, 0.0)


def _parts(total: int, count: int) -> Values:
    """``total`` in ``count`` parts of different sizes."""
    weights = np.array([5, 2, 9, 1, 4, 7])[np.arange(count) % 6]
    ends = np.cumsum(weights) * total // weights.sum()
    return np.diff(np.concatenate([[0], ends]))


def _starts(lengths: Values, first: int) -> Values:
    return np.concatenate([[0], np.cumsum(lengths)]) + first


def draw_query_starts(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1, first: float = 0
) -> Values:
    """Where each sequence's queries start, and the last end; number ``empty`` has none, the ``first`` rows are none's."""
    del rng
    return _starts(_lengths(sizes["SQ"] - int(first), shape[0] - 1, int(empty), 0), int(first))


def draw_key_starts(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1, turn: float = 1
) -> Values:
    """The same for keys, in another order of the lengths (``turn`` sequences on)."""
    del rng
    return _starts(_lengths(sizes["SK"], shape[0] - 1, int(empty), int(turn)), 0)


def _lengths(total: int, count: int, empty: int, turn: int) -> Values:
    lengths = np.roll(_parts(total, count), turn)
    if empty >= 0:
        lengths[(empty + 1) % count] += lengths[empty]
        lengths[empty] = 0
    return lengths


def draw_pages(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Any pages of the cache."""
    return rng.integers(0, sizes["NB"], shape)


def draw_counts(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1) -> Values:
    """Keys of each sequence: a full table first, then fewer; sequence number ``empty`` has none."""
    del rng
    counts = sizes["MB"] * sizes["PS"] - np.array([0, 13, 5, 29, 1, 17])[np.arange(shape[0]) % 6]
    counts[int(empty) :][: int(empty >= 0)] = 0
    found: Values = np.maximum(counts, 0)
    return found


def draw_page_starts(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1
) -> Values:
    """Where the pages of each sequence start in their list, and where the last end; sequence number ``empty`` has none."""
    del rng
    return _starts(_lengths(sizes["MB"], shape[0] - 1, int(empty), 1), 0)


def draw_last(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """From one key of a sequence's last page to all of them."""
    return rng.integers(1, sizes["PS"] + 1, shape)


def draw_scale(rng: np.random.Generator, shape: tuple[int, ...], sizes: object) -> Values:
    """One number for all."""
    del sizes
    return np.full(shape, rng.uniform(0.02, 0.05))


def draw_codes(rng: np.random.Generator, shape: tuple[int, ...], sizes: object, *, kind: str) -> Values:
    """Keys or values of ordinary sizes; in a cache of 8 bits such that scales of 0.02 to 0.05 make them ordinary."""
    del sizes
    return rng.standard_normal(shape) * (1 if kind in ("bf16", "f16") else 30)
