"""Attention of sequences of different lengths, and of 8-bit queries, forward."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import numpy as np

from build_tools.cases.attention import (
    NEAREST,
    Scores,
    attend,
    batched,
    draw_key_starts,
    draw_query_starts,
    lengths,
    packed,
    paged,
    starts,
)
from build_tools.cases.near import Near, Values
from build_tools.cases.windows import seen

__all__ = ["draw_key_starts", "draw_query_starts"]

#: First row, end, keys, values of one sequence.
_Part = tuple[int, int, Values, Values]


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
    block_table: Values | None,
    sink_ptr: Values | None,
    kinds: dict[str, str],
) -> dict[str, Near | None]:
    """:func:`attend` of each sequence: its queries are the rows from cu_seqlens_q[i] to cu_seqlens_q[i + 1] of q, keys so, too;
    or with a block_table so many of the pages that block_table[i] names.

    q [sq, hq, d], k [1, sk, hk, d] or [nb, ps, hk, d], v so, too, hq a multiple of hk. Rows of no sequence stay as they were,
    those behind the first max_seqlen_q of a sequence, and those of sequences with at most min_seqlen_q queries where AITER's
    Composable Kernel would serve the call (its assembly takes them). A left window of max_seqlen_k keys is none, a right one of
    all there are.
    """
    left, right, first = seen(window_size, max_seqlen_q, max_seqlen_k, causal)
    sizes = (q.shape[2], v.shape[3])
    assembly = (
        kinds["q"] == "bf16" and sizes in ((128, 128), (192, 128)) and max(left, right, logits_soft_cap) <= 0
    )
    least = 0 if assembly else max(min_seqlen_q, 0)
    spans = zip(_spans(cu_seqlens_q), _spans(cu_seqlens_k), strict=True)
    sequences: list[_Part] = []
    for place, (rows, (begin, end)) in enumerate(spans):
        if rows[1] - rows[0] > least and block_table is None:
            sequences.append((*rows, k[0, begin:end], v[0, begin:end]))
        elif rows[1] - rows[0] > least and block_table is not None:
            sequences.append((*rows, *_pages(k, v, block_table[place], end - begin)))
    scale = q.shape[2] ** -0.5 if softmax_scale is None else softmax_scale
    how = Scores(scale, left, right, logits_soft_cap, first)
    out, lse = _joined(q, v.shape[-1], sequences, max_seqlen_q, how, sink_ptr, kinds["out"])
    return {"out": out, "lse": lse if return_lse else None}


def flash_attn_varlen_fp8_pertensor_func(
    q: Values,
    k: Values,
    v: Values,
    q_descale: Values,
    k_descale: Values,
    v_descale: Values,
    cu_seqlens_q: Values,
    cu_seqlens_k: Values,
    max_seqlen_q: int,
    max_seqlen_k: int,
    min_seqlen_q: int,
    logits_soft_cap: float,
    causal: bool,
    window_size: tuple[int, ...],
    softmax_scale: float | None,
    sink_ptr: Values | None,
    kinds: dict[str, str],
) -> Near:
    """:func:`attend` of each sequence of more than min_seqlen_q queries; all are multiplied with their scales.

    q [sq, hq, d], k [sk, hk, d], v [sk, hk, dv].
    """
    q, k, v = (x * scale.flat[0] for x, scale in ((q, q_descale), (k, k_descale), (v, v_descale)))
    left, right, first = seen(window_size, max_seqlen_q, max_seqlen_k, causal)
    how = Scores(
        q.shape[2] ** -0.5 if softmax_scale is None else softmax_scale,
        left,
        right,
        logits_soft_cap,
        first,
    )
    spans = zip(_spans(cu_seqlens_q), _spans(cu_seqlens_k), strict=True)
    sequences = [
        (*rows, k[begin:end], v[begin:end])
        for rows, (begin, end) in spans
        if rows[1] - rows[0] > max(min_seqlen_q, 0)
    ]
    return _joined(q, v.shape[-1], sequences, max_seqlen_q, how, sink_ptr, kinds["out"])[0]


def flash_attn_fp8_pertensor_func(
    q: Values,
    k: Values,
    v: Values,
    q_descale: Values,
    k_descale: Values,
    v_descale: Values,
    causal: bool,
    window_size: tuple[int, ...],
    softmax_scale: float | None,
    sink_ptr: Values | None,
    kinds: dict[str, str],
) -> Near:
    """:func:`attend` of each batch; all are multiplied with their scales. q [b, sq, hq, d], k [b, sk, hk, d], v [b, sk, hk,
    dv].
    """
    q, k, v = (x * scale.flat[0] for x, scale in ((q, q_descale), (k, k_descale), (v, v_descale)))
    left, right, first = seen(window_size, q.shape[1], k.shape[1], causal)
    how = Scores(q.shape[3] ** -0.5 if softmax_scale is None else softmax_scale, left, right, 0.0, first)
    found = {
        (place, 0, q.shape[1]): attend(q[place], k[place], v[place], how, sink_ptr, NEAREST[kinds["out"]])
        for place in range(q.shape[0])
    }
    return batched(found, (*q.shape[:3], v.shape[3]))[0]


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
    spans = zip(_spans(cu_seqlens_q), seqused_k.tolist(), strict=True)
    sequences = [
        (*rows, *_pages(k, v, block_table[place], count)) for place, (rows, count) in enumerate(spans)
    ]
    how = Scores(softmax_scale, window_size[0], 0, softcap)
    return _joined(q, v.shape[-1], sequences, max_seqlen_q, how, sinks, kinds["out"])[0]


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
    q_descale: Values | None,
    k_descale: Values | None,
    v_descale: Values | None,
    sink_ptr: Values | None,
    sink_size: int,
    kinds: dict[str, str],
) -> dict[str, Near | None]:
    """:func:`attend` of each sequence, whose pages are kv_page_indices[kv_indptr[i] : kv_indptr[i + 1]]; of the last one
    kv_last_page_lens[i] keys count, all without it.

    q [sq, hq, d], k [nb, ps, hk, d], v [nb, ps, hk, dv]. What has 8 bits is multiplied with its scale.
    """
    q = _times(q, q_descale, kinds["q"])
    k, v = _scaled(k, v, k_descale, v_descale, kinds)
    left, right, _ = seen(window_size, max_seqlen_q, max_seqlen_k, causal)
    scale = q.shape[2] ** -0.5 if softmax_scale is None else softmax_scale
    how = Scores(scale, left, right, logits_soft_cap, max(sink_size, 0))
    lists = (cu_seqlens_q, kv_indptr, kv_page_indices, kv_last_page_lens)
    out, lse = _prefilled(q, k, v, lists, max_seqlen_q, how, sink_ptr, kinds["out"])
    return {"out": out, "lse": lse if return_lse else None}


def mha_batch_prefill(
    q: Values,
    k: Values,
    v: Values,
    cu_seqlens_q: Values,
    kv_indptr: Values,
    kv_page_indices: Values,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float,
    logits_soft_cap: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    sink_size: int,
    return_softmax_lse: bool,
    q_descale: Values | None,
    k_descale: Values | None,
    v_descale: Values | None,
    kv_last_page_lens: Values | None,
    sink_ptr: Values | None,
    kinds: dict[str, str],
) -> dict[str, Near | None]:
    """:func:`mha_batch_prefill_func` of pages of groups: k [nb, hk, d / x, ps, x], v [nb, hk, ps / x, dv, x]."""
    q = _times(q, q_descale, kinds["q"])
    keys = k.transpose(0, 3, 1, 2, 4)
    values = v.transpose(0, 2, 4, 1, 3)
    rows = (
        keys.reshape(*keys.shape[:3], -1),
        values.reshape(values.shape[0], values.shape[1] * values.shape[2], *values.shape[3:]),
    )
    left, right, _ = seen((window_size_left, window_size_right), max_seqlen_q, max_seqlen_k, is_causal)
    how = Scores(softmax_scale, left, right, logits_soft_cap, max(sink_size, 0))
    lists = (cu_seqlens_q, kv_indptr, kv_page_indices, kv_last_page_lens)
    pages = _scaled(*rows, k_descale, v_descale, kinds)
    out, lse = _prefilled(q, *pages, lists, max_seqlen_q, how, sink_ptr, kinds["out"])
    return {"out": out, "lse": lse if return_softmax_lse else None}


def _prefilled(
    q: Values,
    k: Values,
    v: Values,
    lists: tuple[Values, Values, Values, Values | None],
    most: int,
    how: Scores,
    sinks: Values | None,
    kind: str,
) -> tuple[Near, Near]:
    """:func:`_joined` of sequences whose pages one list names; ``lists``: starts of queries and pages, pages, last keys."""
    spans, found = _spans(lists[0]), _listed(k, v, *lists[1:])
    sequences = [(*rows, *part) for rows, part in zip(spans, found, strict=True)]
    return _joined(q, v.shape[-1], sequences, most, how, sinks, kind)


def paged_attention_v1(
    query: Values,
    key_cache: Values,
    value_cache: Values,
    scale: float,
    block_tables: Values,
    cu_query_lens: Values | None,
    context_lens: Values,
    alibi_slopes: Values | None,
    kv_cache_dtype: str,
    kv_cache_layout: str,
    logits_soft_cap: float,
    k_scale: Values,
    v_scale: Values,
    sliding_window: int,
    kinds: dict[str, str],
) -> Near:
    """:func:`attend` of each sequence of one query, whose keys are the first context_lens[i] of the pages that block_tables[i]
    names; it sees the last ``sliding_window`` of them where that is above 0. Sequence i is row i, or with cu_query_lens the row
    cu_query_lens[i], if it has one query alone. With alibi_slopes the score of key j of m gets slope * (j - m + 1): q has a
    column more, of slopes, and k one of distances.

    query [s, hq, d], caches [nb, ps, hk, d], or [nb, hk, ps, d] where kv_cache_layout is HND.
    """
    k, v = _layout(key_cache, value_cache, k_scale, v_scale, kv_cache_dtype, kv_cache_layout)
    count = block_tables.shape[0]
    rows = [(i, i + 1) for i in range(count)] if cu_query_lens is None else _spans(cu_query_lens)
    sequences = [
        (*span, *_pages(k, v, block_tables[place], int(context_lens[place])))
        for place, span in enumerate(rows)
        if span[1] - span[0] == 1
    ]
    if alibi_slopes is not None:
        query, sequences = _biased(query, sequences, alibi_slopes / scale)
    how = Scores(scale, sliding_window - 1 if sliding_window > 0 else -1, 0, logits_soft_cap)
    return _joined(query, v.shape[-1], sequences, 1, how, None, kinds["out"])[0]


def _biased(query: Values, sequences: list[_Part], slopes: Values) -> tuple[Values, list[_Part]]:
    """Queries with a column of slopes, and keys with one of distances to the last key."""
    column = np.broadcast_to(slopes[None, :, None], (*query.shape[:2], 1))
    parts: list[_Part] = []
    for first, end, keys, values in sequences:
        far = np.arange(len(keys), dtype=float) - (len(keys) - 1)
        far = np.broadcast_to(far[:, None, None], (*keys.shape[:2], 1))
        parts.append((first, end, np.concatenate([keys, far], axis=-1), values))
    return np.concatenate([query, column], axis=-1), parts


def paged_attention_ragged(
    query: Values,
    key_cache: Values,
    value_cache: Values,
    scale: float,
    kv_indptr: Values,
    kv_page_indices: Values,
    kv_last_page_lens: Values | None,
    kv_cache_dtype: str,
    kv_cache_layout: str,
    logits_soft_cap: float,
    k_scale: Values,
    v_scale: Values,
    kinds: dict[str, str],
) -> Near:
    """:func:`attend` of one query a sequence, row i, whose pages are kv_page_indices[kv_indptr[i] : kv_indptr[i + 1]]; of the
    last one kv_last_page_lens[i] keys count, unless a page is one key.

    query [s, hq, d], caches [nb, ps, hk, d], or [nb, hk, ps, d] where kv_cache_layout is HND.
    """
    k, v = _layout(key_cache, value_cache, k_scale, v_scale, kv_cache_dtype, kv_cache_layout)
    last = None if k.shape[1] == 1 else kv_last_page_lens
    sequences = [
        (place, place + 1, *part)
        for place, part in enumerate(_listed(k, v, kv_indptr, kv_page_indices, last))
    ]
    return _joined(
        query, v.shape[-1], sequences, 1, Scores(scale, -1, 0, logits_soft_cap), None, kinds["out"]
    )[0]


def _layout(
    k: Values, v: Values, k_scale: Values, v_scale: Values, kind: str, layout: str
) -> tuple[Values, Values]:
    """Caches as [nb, ps, hk, d], times the first element of their scales where they are of 8 bits."""
    if layout == "HND":
        k, v = k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3)
    return (k, v) if kind == "auto" else (k * k_scale.flat[0], v * v_scale.flat[0])


def _scaled(
    k: Values, v: Values, k_descale: Values | None, v_descale: Values | None, kinds: dict[str, str]
) -> tuple[Values, Values]:
    """Keys and values of 8 bits, times the first element of their scales; others as they are."""
    if kinds["k"] in ("bf16", "f16") or k_descale is None or v_descale is None:
        return k, v
    return k * k_descale.flat[0], v * v_descale.flat[0]


def _times(x: Values, scale: Values | None, kind: str) -> Values:
    """What has 8 bits times the first element of its scale; else as it is."""
    return x if kind in ("bf16", "f16") or scale is None else x * scale.flat[0]


def _spans(edges: Values) -> Iterable[tuple[int, int]]:
    return itertools.pairwise(edges.tolist())


def _pages(k: Values, v: Values, row: Values, count: int) -> tuple[Values, Values]:
    """Keys and values of one sequence, which ``row`` of a table names."""
    pages = row[: -(-count // k.shape[1])]
    return paged(k, pages, count), paged(v, pages, count)


def _listed(
    k: Values, v: Values, first: Values, pages: Values, last: Values | None
) -> Iterable[tuple[Values, Values]]:
    """The same of each sequence, whose pages are a part of one list."""
    size = k.shape[1]
    for place, (begin, end) in enumerate(_spans(first)):
        missing = 0 if last is None or end <= begin else size - int(last[place])
        yield _pages(k, v, pages[begin:end], (end - begin) * size - missing)


def _joined(
    q: Values, width: int, sequences: list[_Part], most: int, how: Scores, sinks: Values | None, kind: str
) -> tuple[Near, Near]:
    """:func:`attend` of each sequence: out [sq, hq, dv] and lse [hq, sq]; of none more than ``most`` rows, others masked."""
    found = {
        (0, first, min(end, first + most)): attend(q[first:end], keys, values, how, sinks, NEAREST[kind])
        for first, end, keys, values in sequences
    }
    return packed(found, (*q.shape[:2], width))


def draw_pages(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Any pages of the cache."""
    return rng.integers(0, sizes["NB"], shape)


def draw_counts(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1) -> Values:
    """Keys of each sequence: a full table first, then fewer; sequence number ``empty`` has none."""
    del rng
    counts = (
        sizes["MB"] * sizes.get("PS", sizes.get("SK", 0))
        - np.array([0, 13, 5, 29, 1, 17])[np.arange(shape[0]) % 6]
    )
    counts[int(empty) :][: int(empty >= 0)] = 0
    found: Values = np.maximum(counts, 0)
    return found


def draw_count_starts(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1
) -> Values:
    """Sums of :func:`draw_counts`: where keys would start if they were packed."""
    return starts(draw_counts(rng, (shape[0] - 1,), sizes, empty))


def draw_one_or_two(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Where queries start: every second sequence from the first on has two of them, the others one; the rows end there or
    later.
    """
    del rng
    found = starts(2 - np.arange(shape[0] - 1) % 2)
    return np.minimum(found, sizes["SQ"])


def draw_page_starts(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1
) -> Values:
    """Where the pages of each sequence start in their list, and where the last end; sequence number ``empty`` has none."""
    del rng
    return starts(lengths(sizes["MB"], shape[0] - 1, int(empty), 1))


def draw_last(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """From one key of a sequence's last page to all of them."""
    return rng.integers(1, sizes["PS"] + 1, shape)


def draw_scale(rng: np.random.Generator, shape: tuple[int, ...], sizes: object) -> Values:
    """One number for all."""
    del sizes
    return np.full(shape, rng.uniform(0.02, 0.05))


def draw_codes(rng: np.random.Generator, shape: tuple[int, ...], sizes: object, *, kind: str) -> Values:
    """Keys or values of ordinary sizes; of 8 bits such that scales of 0.02 to 0.05 make them ordinary."""
    del sizes
    return rng.standard_normal(shape) * (1 if kind in ("bf16", "f16") else 30)


def draw_few(rng: object, shape: tuple[int, ...], sizes: object) -> Values:
    """Three keys in the last page."""
    del rng, sizes
    return np.full(shape, 3)


def draw_last_missing(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], *, kind: str
) -> Values:
    """:func:`draw_codes` of keys [nb, hk, d / x, ps, x] or values [nb, hk, ps / x, dv, x], NaN from key 3 of a page on."""
    found = draw_codes(rng, shape, sizes, kind=kind)
    if shape[3] == sizes["PS"]:
        found[:, :, :, 3:] = np.nan
    else:
        found[:, :, 1:], found[:, :, 0, :, 3:] = np.nan, np.nan
    return found
