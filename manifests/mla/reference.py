"""Attention over a latent cache by AITER's assembly: all heads share keys of 576 numbers, whose first 512 are the values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

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
from build_tools.cases.latent_works import Workload, contexts, folds, shared_out
from build_tools.cases.near import Near, Values, near

__all__ = ["draw_contexts", "draw_factor", "draw_pages", "draw_queries", "draw_ragged"]

#: What a kernel may lose of a probability when it rounds it: bf16, not always to nearest, fp16, and the target's own fp8.
_UNIT = {"bf16": 2.0**-7, "f16": 2.0**-10, "fp8": 2.0**-4}
_ROUNDING = 2.0**-24
_DEPTH = 512
#: Keys of a block, which go to the parts of a context in turn: 16, but where fp8 or one query for each of 16 heads comes in.
_FEW, _WIDE, _BLOCK = 64, 32, 16

Row: TypeAlias = tuple[Values, Values, Values, Values]


class _Latent(NamedTuple):
    """Queries [tokens, heads, 576] and keys [pages, 576], with their scales; ``rounded``: what probabilities become."""

    queries: Values
    keys: Values
    scale: float
    rounded: str
    cap: float = 0.0

    @property
    def quantised(self) -> bool:
        return self.rounded == "fp8"

    def row(self, token: int, pages: Values) -> Row:
        """Of one token over the keys on ``pages``: result [heads, 512] and its error, log of the sum [heads] and its error.

        Scores are sums in fp32 and the argument of exp2. Probabilities are rounded for the second product after their sum was
        taken; fp8 has no number below 2^-10, fp16 none below 2^-24.
        """
        queries, keys = self.queries[token], self.keys[pages]
        scores = queries @ keys.T * self.scale
        if self.cap > 0:
            scores = self.cap * np.tanh(scores / self.cap)
        peak = scores.max(axis=-1, keepdims=True)
        powers = np.exp(scores - peak)
        total = powers.sum(axis=-1, keepdims=True)
        values = keys[:, :_DEPTH]
        sizes = np.sqrt((queries**2).sum(-1) * (keys**2).sum(-1).max()) * abs(self.scale)
        off = _ROUNDING * ((keys.shape[1] / 4 + 8) * 2 * sizes + 32 + 16 * self.cap)
        lost = _UNIT[self.rounded] * 1.01 + 2 * off[:, None]
        error = lost * (powers / total) @ np.abs(values) + 2.0**-125
        if self.rounded != "bf16":
            least = 2.0**-10 if self.quantised else 2.0**-24
            error = error + least * np.abs(values).sum(axis=0) / total
        return powers / total @ values, error, (peak + np.log(total))[:, 0], off + 4 * _ROUNDING


def _latent(
    Q: Values,
    KV: Values,
    scale: float,
    kinds: Mapping[str, str],
    q_scale: Values | None,
    kv_scale: Values | None,
) -> _Latent:
    fp8_q, fp8_k = (kinds[name].startswith("e4m3") for name in ("Q", "KV"))
    factor = float(q_scale[0]) if fp8_q and q_scale is not None else 1.0
    keys = KV.reshape(KV.shape[0], -1) * (float(kv_scale[0]) if fp8_k and kv_scale is not None else 1.0)
    return _Latent(Q * factor, keys, scale, "fp8" if fp8_q else "bf16")


class _Ranks(NamedTuple):
    """Keys that are dealt out to ``count`` ranks in turn, of which number ``rank`` has its own.

    ``wholes``: where the keys of each whole sequence would begin.
    """

    wholes: Values | None = None
    count: int = 1  # type: ignore[assignment]  # nobody asks a tuple how often it has an element
    rank: int = 0

    def hidden(self, batch: int, later: int, own: int) -> int:
        """How many of this rank's ``own`` keys a token does not see that has ``later`` tokens of its sequence behind it."""
        if self.count == 1:
            return later
        assert self.wholes is not None
        whole = int(self.wholes[batch + 1]) - int(self.wholes[batch])
        places = np.arange(own) * self.count + self.rank
        return int(np.count_nonzero(places >= whole - later))


_ALONE = _Ranks()


def _tokens(
    queries: Values, contexts: Values, causal: bool = True, ranks: _Ranks = _ALONE
) -> Iterator[tuple[int, int, int, int]]:
    """Each token of each batch, the first of its keys, the end of what it sees, and that of all; the last token sees all."""
    for batch in range(len(queries) - 1):
        first, end = int(queries[batch]), int(queries[batch + 1])
        start, stop = int(contexts[batch]), int(contexts[batch + 1])
        for token in range(first, end):
            hidden = ranks.hidden(batch, end - 1 - token, stop - start) if causal else 0
            yield token, start, stop - hidden, stop


class _Parts:
    """Rows of partial results, those that nobody writes masked."""

    def __init__(self, *shape: int, depth: int = _DEPTH) -> None:
        self.values = untouched(*shape, depth)
        self.errors = np.zeros((*shape, depth))
        self.sums = untouched(*shape)
        self.offs = np.zeros(shape)

    def put(self, place: Any, row: Row) -> None:
        self.values[place], self.errors[place], self.sums[place], self.offs[place] = row

    def nothing(self, place: Any) -> None:
        """A part without a key for a token that stands in a block which has some."""
        self.values[place], self.sums[place] = 0.0, -np.inf

    def both(self) -> tuple[Near, Near]:
        """Results, and logarithms with a last dim of one."""
        return near(self.values, absolute=self.errors), near(
            self.sums[..., None], absolute=self.offs[..., None]
        )


def _block(heads: int, fp8: bool, most: int) -> int:
    if heads == 16 and most == 1:
        return _FEW
    return _WIDE if fp8 else _BLOCK


def _split(
    latent: _Latent,
    queries: Values,
    contexts: Values,
    pages: Values,
    parts: int,
    block: int,
    causal: bool = True,
    ranks: _Ranks = _ALONE,
) -> _Parts:
    """Blocks of ``block`` keys go to the parts in turn."""
    made = _Parts(latent.queries.shape[0], parts, latent.queries.shape[1])
    for token, first, end, last in _tokens(queries, contexts, causal, ranks):
        for part in range(parts):
            owned = np.arange(first, last)
            owned = owned[(owned - first) // block % parts == part]
            seen = owned[owned < end]
            if seen.size:
                made.put((token, part), latent.row(token, pages[seen]))
            elif owned.size:
                made.nothing((token, part))
    return made


def _listed(latent: _Latent, pages: Values, works: Values, made: _Parts, whole: _Parts) -> None:
    """Each work: to its rows of ``made``, or to ``whole`` where it has no row."""
    for _, row, first, end, start, stop, behind, _ in works.astype(int):
        for token in range(first, end):
            seen = min(stop, stop + behind - (end - 1 - token))
            result = latent.row(token, pages[start:seen])
            if row < 0:
                whole.put((token,), result)
            else:
                made.put((row + token - first, 0), result)


class _Places(NamedTuple):
    """Where queries, pages and keys of each sequence begin, the place of each key in the cache, keys of a page."""

    queries: Values
    pages: Values
    keys: Values
    places: Values
    size: int
    causal: bool
    ranks: _Ranks


def _listed_pages(latent: _Latent, own: _Places, works: Values, made: _Parts) -> None:
    """The parts of each work with a row; ``latent`` has a query for each 16 heads where heads are contexts."""
    fold = len(latent.queries) // int(own.queries[-1])
    for context, row, first, end, start, stop, *_ in works.astype(int):
        if row < 0:
            continue
        batch = context // fold
        begin = int(own.keys[batch]) + (start - int(own.pages[batch])) * own.size
        last, count = int(own.keys[batch + 1]), int(own.keys[batch + 1] - own.keys[batch])
        for token in range(first, end):
            later = int(own.queries[batch + 1]) - 1 - token // fold
            hidden = own.ranks.hidden(batch, later, count) if own.causal else 0
            seen = own.places[begin : min(begin + (stop - start) * own.size, last - hidden)]
            place = (row + token - first, 0)
            if len(seen):
                made.put(place, latent.row(token, seen))
            else:
                made.nothing(place)


def mla_decode_stage1_asm_fwd(
    Q: Values,
    KV: Values,
    qo_indptr: Values,
    kv_indptr: Values,
    kv_page_indices: Values,
    num_kv_splits_indptr: Values | None,
    work_indptr: Values | None,
    work_info_set: Values | None,
    max_seqlen_q: int,
    softmax_scale: float,
    q_scale: Values | None,
    kv_scale: Values | None,
    kinds: dict[str, str],
    sizes: dict[str, int],
) -> dict[str, Near]:
    """Softmax(q @ k^T * scale) @ v of the keys of a part alone, and the logarithm of the sum of its exponentials.

    One part alone is the result, and has no logarithm, unless 16 heads have one query each in bf16.
    """
    latent = _latent(Q, KV, softmax_scale, kinds, q_scale, kv_scale)
    heads, fp8 = Q.shape[1], latent.quantised
    whole = _Parts(Q.shape[0], heads)
    if num_kv_splits_indptr is None:
        assert work_indptr is not None
        assert work_info_set is not None
        made = _Parts(sizes["RT"], 1, heads)
        _listed(latent, kv_page_indices, work_info_set[: int(work_indptr[-1])], made, whole)
    else:
        block = _block(heads, fp8, max_seqlen_q)
        made = _split(latent, qo_indptr, kv_indptr, kv_page_indices, sizes["S"], block)
        if sizes["S"] == 1 and (fp8 or heads != 16 or max_seqlen_q > 1):
            made.sums[...] = np.ma.masked
    values, sums = made.both()
    return {"splitData": values, "splitLse": sums, "output": whole.both()[0]}


def mla_prefill_asm_fwd(
    Q: Values,
    KV: Values,
    qo_indptr: Values,
    kv_indptr: Values,
    kv_page_indices: Values,
    softmax_scale: float,
    kinds: dict[str, str],
) -> dict[str, Near]:
    """Softmax(q @ k^T * scale) @ v, the queries of a batch being the last of its context."""
    latent = _latent(Q, KV, softmax_scale, kinds, None, None)
    made = _split(latent, qo_indptr, kv_indptr, kv_page_indices, 1, _BLOCK)
    return {"splitData": made.both()[0]}


def mla_prefill_fwd(
    q: Values,
    kv_buffer: Values,
    qo_indptr: Values,
    kv_indptr: Values,
    kv_indices: Values,
    sm_scale: float | None,
) -> dict[str, Near]:
    """mla_prefill_asm_fwd; the logarithms that come with it are not written."""
    scale = q.shape[2] ** -0.5 if sm_scale is None else sm_scale
    latent = _latent(q, kv_buffer, scale, {"Q": "bf16", "KV": "bf16"}, None, None)
    made = _split(latent, qo_indptr, kv_indptr, kv_indices, 1, _BLOCK)
    whole, logs = _Parts(q.shape[0], q.shape[1]), _Parts(q.shape[0], 1, q.shape[1])
    whole.values, whole.errors = made.values[:, 0], made.errors[:, 0]
    return {"o": whole.both()[0], "attn_lse": logs.both()[1]}


def _by_key(indptr: Values, pages: Values, lasts: Values, size: int) -> tuple[Values, Values]:
    """Lists of pages as lists of keys: where those of each batch begin, and the place of each in the cache."""
    places: list[Values] = []
    for batch in range(len(indptr) - 1):
        own = pages[int(indptr[batch]) : int(indptr[batch + 1])].astype(int)
        keys = (own[:, None] * size + np.arange(size)).ravel()
        places.append(keys[: max(len(own) - 1, 0) * size + (int(lasts[batch]) if len(own) else 0)])
    borders = np.cumsum([0, *(len(own) for own in places)])
    return borders, np.concatenate(places).astype(int)


def _assembly_lists(kinds: Mapping[str, str], heads: int, queries: int, plain: bool) -> bool:
    """Does AITER's assembly take lists of works of such a call?"""
    fp8_q, fp8_k = (kinds[name].startswith("e4m3") for name in ("q", "kv_buffer"))
    if kinds["q"] == "f16" or not plain:
        return False
    if heads == 128 or fp8_q:
        return fp8_q and fp8_k and (heads == 128 or (heads % 16 == 0 and queries == 1))
    return heads % 16 == 0 and (heads == 16 or queries == 1) and queries <= 4


def mla_decode_fwd(
    q: Values,
    kv_buffer: Values,
    qo_indptr: Values,
    kv_indptr: Values,
    kv_indices: Values,
    kv_last_page_lens: Values,
    max_seqlen_q: int,
    sm_scale: float | None,
    logit_cap: float,
    return_lse: bool,
    g_kv_indptr: Values | None,
    cp_world_size: int,
    cp_rank: int,
    causal: bool,
    work_indptr: Values | None,
    work_info_set: Values | None,
    reduce_indptr: Values | None,
    reduce_final_map: Values | None,
    q_scale: Values | None,
    kv_scale: Values | None,
    kinds: dict[str, str],
    sizes: dict[str, int],
) -> dict[str, Near | None]:
    """Softmax(q @ k^T * scale) @ v; the parts that it was made of, and the logarithms of the sums where they are asked for or
    contexts were split. A token that sees no key has 0.
    """
    tokens, heads = q.shape[:2]
    scale = q.shape[2] ** -0.5 if sm_scale is None else sm_scale
    types = {"Q": kinds["q"], "KV": kinds["kv_buffer"]}
    cache = kv_buffer.reshape(-1, q.shape[2])
    latent = _latent(q, cache, scale, types, q_scale, kv_scale)._replace(cap=max(logit_cap, 0.0))
    contexts, places = _by_key(kv_indptr, kv_indices, kv_last_page_lens, sizes["PS"])
    ranks = _Ranks(g_kv_indptr, cp_world_size, cp_rank)
    few = heads in (16, 128) and latent.quantised and cp_world_size == 1
    latent = latent._replace(rounded="fp8" if few else "f16" if kinds["q"] == "f16" else "bf16")
    narrow = kinds["q"].startswith("e4m3")
    whole = _Parts(tokens, heads)
    for token, first, end, _ in _tokens(qo_indptr, contexts, causal, ranks):
        if end > first:
            whole.put((token,), latent.row(token, places[first:end]))
        else:
            whole.nothing((token,))
    plain = sizes["PS"] == 1 and logit_cap <= 0 and (causal or max_seqlen_q == 1) and not return_lse
    plain = plain and cp_world_size == 1
    if work_info_set is not None and _assembly_lists(kinds, heads, max_seqlen_q, plain):
        assert work_indptr is not None
        assert reduce_indptr is not None
        assert reduce_final_map is not None
        own = heads if heads == 128 else 16
        folded = latent._replace(queries=latent.queries.reshape(-1, own, q.shape[2]))
        made, alone = _Parts(sizes["RT"] * sizes["LH"] // own, 1, own), _Parts(tokens * heads // own, own)
        _listed(folded, kv_indices, work_info_set[: int(work_indptr[-1])], made, alone)
        logs = near(_only(whole, own, reduce_indptr, reduce_final_map), absolute=whole.offs.reshape(-1, own))
        shape = (sizes["RT"], 1, sizes["LH"], _DEPTH)
        parts = near(made.values.reshape(shape), absolute=made.errors.reshape(shape))
        return {"o": whole.both()[0], "logits": parts, "final_lse": logs}
    if work_info_set is not None and work_indptr is not None:
        own = 16 if folds(heads, sizes["PS"]) and max_seqlen_q == 1 else heads
        works = work_info_set[: int(work_indptr[-1])]
        plain_rows = latent._replace(
            queries=latent.queries.reshape(-1, own, q.shape[2]),
            rounded="f16" if kinds["q"] == "f16" else "bf16",
        )
        made = _Parts(sizes["RT"] * heads // own, 1, own)
        lists = _Places(qo_indptr, kv_indptr, contexts, places, sizes["PS"], causal, ranks)
        _listed_pages(plain_rows, lists, works, made)
        offs = whole.offs + 2 * _ROUNDING * _size(whole.sums)
        shape = (sizes["RT"], 1, heads, _DEPTH)
        return {
            "o": whole.both()[0],
            "logits": near(made.values.reshape(shape), absolute=made.errors.reshape(shape)),
            "final_lse": near(whole.sums.reshape(-1, own), absolute=offs.reshape(-1, own)),
        }
    count = sizes.get("S", 1)
    result, logs = (
        near(whole.values, absolute=whole.errors),
        near(whole.sums, absolute=whole.offs + 2 * _ROUNDING * _size(whole.sums)),
    )
    if count == 1 and (narrow or heads != 16 or max_seqlen_q > 1):
        return {
            "o": result,
            "logits": None,
            "final_lse": logs if return_lse else near(untouched(tokens, heads)),
        }
    block = _block(heads, narrow, max_seqlen_q)
    made = _split(latent, qo_indptr, contexts, places, count, block, causal, ranks)
    return {"o": result, "logits": made.both()[0], "final_lse": logs}


def _size(logs: Values) -> Values:
    """Of logarithms, 0 of a sum of nothing."""
    found: Values = np.abs(np.where(np.isfinite(logs), logs, 0.0))
    return found


def _only(whole: _Parts, heads: int, indptr: Values, places: Values) -> Values:
    """The logarithms of the tokens that a tile of two parts and more makes."""
    made: Values = untouched(whole.sums.size // heads, heads)
    for tile in range(len(indptr) - 1):
        if indptr[tile + 1] - indptr[tile] > 1:
            first, end = (int(place) for place in places[tile])
            made[first:end] = whole.sums.reshape(-1, heads)[first:end]
    return made


def _merged(rows: Values, sums: Values) -> tuple[Values, Values, Values, Values]:
    """Rows [n, heads, columns] and the logarithms of their sums [n, heads] made one, with errors of fp32 arithmetic."""
    peak = sums.max(axis=0)
    powers = np.exp(sums - np.where(np.isinf(peak), 0.0, peak))
    total = powers.sum(axis=0)
    shares = powers / np.where(total == 0, 1.0, total)
    apart = np.abs(np.where(np.isinf(sums), 0.0, sums) - np.where(np.isinf(peak), 0.0, peak)).max(axis=0)
    off = _ROUNDING * (8 * apart + 4 * len(rows) + 16)
    with np.errstate(divide="ignore"):
        whole = peak + np.log(total)
    result = np.einsum("nh,nhd->hd", shares, rows)
    error = off[:, None] * np.einsum("nh,nhd->hd", shares, np.abs(rows)) + 2.0**-125
    return result, error, whole, off + 2 * _ROUNDING * np.abs(whole)


def mla_reduce_v1(
    partial_output: Values,
    partial_lse: Values,
    reduce_indptr: Values,
    reduce_final_map: Values | None,
    reduce_partial_map: Values,
    kinds: dict[str, str],
    sizes: dict[str, int],
) -> dict[str, Near | None]:
    """Tile t makes one of the rows map[indptr[t]] to map[indptr[t + 1] - 1] and those behind each; of fewer than two nothing."""
    rows, sums = partial_output.reshape(-1, *partial_output.shape[-2:]), partial_lse.reshape(-1, sizes["H"])
    made = _Parts(sizes["N"], sizes["H"], depth=sizes["D"])
    for tile in range(len(reduce_indptr) - 1):
        places = reduce_partial_map[int(reduce_indptr[tile]) : int(reduce_indptr[tile + 1])].astype(int)
        if len(places) < 2:
            continue
        length = int(places[1] - places[0])
        first, end = tile * length, (tile + 1) * length
        if reduce_final_map is not None:
            first, end = (int(value) for value in reduce_final_map[tile])
        for token in range(first, end):
            made.put((token,), _merged(rows[places + token - first], sums[places + token - first]))
    return {
        "final_output": near(made.values, absolute=made.errors),
        "final_lse": near(made.sums, absolute=made.offs) if "final_lse" in kinds else None,
    }


def get_mla_metadata_v1(
    seqlens_qo_indptr: Values,
    seqlens_kv_indptr: Values,
    kv_last_page_lens: Values,
    num_heads_per_head_k: int,
    is_causal: bool,
    page_size: int,
    kv_granularity: int,
    max_seqlen_qo: int,
    uni_seqlen_qo: int,
    topk: int,
    max_split_per_batch: int,
    is_cp_round_robin: bool,
    sizes: dict[str, int],
) -> dict[str, Near]:
    """The lists of ``latent_works``; what they do not need stays as it is. The two addresses are any: a test looks at them.
    The keys of one rank of several are masked by who reads them.

    With ``topk`` each batch has as many queries as the first. A work names its batch, and counts the queries behind its own as
    keys where neither heads are contexts nor pages have several keys.
    """
    heads, uniform = num_heads_per_head_k, max(uni_seqlen_qo, 0)
    fold = heads // 16 if uniform == 1 and folds(heads, page_size) else 1
    starts, firsts, lasts = (
        [int(place) for place in places]
        for places in (seqlens_qo_indptr, seqlens_kv_indptr, kv_last_page_lens)
    )
    own = topk if topk < 0 else -(-topk // page_size)
    each = uniform if topk < 0 else max(starts[1] - starts[0], 0)
    queries, pages, ends = contexts(starts, firsts, lasts, page_size, fold, each, own)
    stated = (len(starts) - 1) * fold * (uniform if topk >= 0 else 1)
    most = uniform or max(1, max_seqlen_qo)
    tiles = 1 if topk >= 0 or fold > 1 else min(most, -(-most * heads // 128))
    units = sizes["W1"] - 1
    parts = units if max_split_per_batch < 0 else min(units, max_split_per_batch * stated)
    sources = sizes["M"] // tiles
    parts = min(
        parts,
        sizes["NW"] // tiles - len(pages) + 1,  # works, and sources of tiles that are cut
        max(sources // 2, sources - len(pages)) + 1,
    )
    causal = is_causal and not is_cp_round_robin
    made = shared_out(
        Workload(queries, pages, ends, heads, page_size, kv_granularity, units, max(parts, 1), causal)
    )
    if topk >= 0:
        single = fold == 1 and page_size == 1
        made.works = [
            (
                context // each // fold,
                *places,
                behind + (each - 1 - context % each if single else 0),
                0,
            )
            for context, *places, behind, _ in made.works
        ]
    sums = made.sums + [made.sums[-1]] * (sizes["G1"] - len(made.sums))
    targets = untouched(sizes["G1"] - 1, 2)
    for place, tile in enumerate(made.targets):
        if tile is not None:
            targets[place] = tile
    return {
        "work_metadata_ptrs": near(np.zeros(2), absolute=2.0**63),
        "work_indptr": near(np.array(made.units)),
        "work_info_set": near(first_rows(made.works, sizes["NW"], 8)),
        "reduce_indptr": near(np.array(sums)),
        "reduce_final_map": near(targets.astype(np.int64)),
        "reduce_partial_map": near(first_rows(made.sources, sizes["M"])),
    }


# ---- lists ------------------------------------------------------------------------------------------------------------


def draw_last(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """How many keys the last page of each batch has."""
    return rng.integers(1, sizes["PS"] + 1, shape)


def draw_wholes(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    count: float,
    rank: float,
    empty: float = -1.0,
) -> Values:
    """Where the keys of whole sequences begin of which rank ``rank`` of ``count`` has those of ``contexts``."""
    own = np.diff(draw_contexts(rng, shape, sizes, empty)).astype(int)
    least = np.where(own > 0, (own - 1) * int(count) + int(rank) + 1, 0)
    most = own * int(count) + int(rank)
    return np.concatenate([[0], rng.integers(least, most + 1).cumsum()])


def draw_borders(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Of the parts: as many for each batch."""
    del rng
    return np.arange(shape[0]) * sizes["S"]


Listed: TypeAlias = tuple[list[Any], list[int], list[tuple[int, int, list[int]]]]


def _ruled(sizes: Mapping[str, int], empty: float, causal: bool) -> Listed:
    """``_works`` as ``get_mla_metadata_v1`` has them; pages are taken to be full. Not ``causal``: of one rank's keys."""
    rng, shape, heads, units = np.random.default_rng(0), (sizes["B"] + 1,), sizes["H"], sizes["W1"] - 1
    size = sizes.get("PS", 1)
    fold = heads // 16 if folds(heads, size) and sizes["T"] == sizes["B"] else 1
    starts = [int(place) for place in draw_queries(rng, shape, sizes)]
    firsts = [int(place) for place in draw_contexts(rng, shape, sizes, empty)]
    queries, pages, ends = contexts(starts, firsts, [size] * sizes["B"], size, fold, 1 if fold > 1 else 0)
    made = shared_out(Workload(queries, pages, ends, heads, size, max(1, 16 // size), units, units, causal))
    rows = [made.sources[a:b] for a, b in itertools.pairwise(made.sums)]
    return (
        made.works,
        made.units,
        [(*(tile or (0, 0)), own) for tile, own in zip(made.targets, rows, strict=True)],
    )


def _works(sizes: Mapping[str, int], rule: float = 0.0, empty: float = -1.0) -> Listed:
    """Works of equal size for each unit, where the works of each unit begin, and the tiles: first token, end, rows of its parts.

    16 heads take all queries of a batch at once, 128 heads one. Other numbers of heads are as many tokens of 16 heads each.
    All keys of a context behind a work are counted, as AITER does (``kv_offset``, v1_2_device.cuh).
    ``rule``: not those, but works as ``get_mla_metadata_v1`` has them, 2: with ``is_cp_round_robin``; batch ``empty`` has no page
    then.
    """
    if rule:
        return _ruled(sizes, empty, rule < 2)
    batches, units, heads = sizes["B"], sizes["W1"] - 1, sizes["H"]
    fold = 1 if heads in (16, 128) else heads // 16
    queries = draw_queries(np.random.default_rng(0), (batches + 1,), sizes) * fold
    contexts = draw_contexts(np.random.default_rng(0), (batches + 1,), sizes)
    portion = math.ceil(math.ceil(contexts[-1] / units) / 16) * 16
    works: list[list[int]] = []
    tiles, row = [], 0
    for batch in range(batches):
        first, end, start, stop = (
            int(x) for x in (*queries[batch : batch + 2], *contexts[batch : batch + 2])
        )
        step = 1 if heads != 16 else end - first
        for token in range(first, end, step):
            hidden = 0 if fold > 1 else end - token - step
            borders = [*range(start, stop - hidden, portion), stop - hidden]
            rows = []
            for begin, close in itertools.pairwise(borders):
                own = row if len(borders) > 2 else -1
                works.append([batch * fold, own, token, token + step, begin, close, stop - close, 0])
                rows += [own] if len(borders) > 2 else []
                row += step if len(borders) > 2 else 0
            tiles.append((token, token + step, rows))
    each = math.ceil(len(works) / units)
    return works, [min(unit * each, len(works)) for unit in range(units + 1)], tiles


def draw_units(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    rule: float = 0.0,
    empty: float = -1.0,
) -> Values:
    """Where the works of each unit begin."""
    del rng, shape
    return np.array(_works(sizes, rule, empty)[1])


def draw_works(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    rule: float = 0.0,
    empty: float = -1.0,
) -> Values:
    """The works, and behind them rubbish."""
    made = rng.integers(1 << 20, 1 << 30, shape)
    works = _works(sizes, rule, empty)[0]
    made[: len(works)] = works
    return made


def draw_sums(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    rule: float = 0.0,
    empty: float = -1.0,
) -> Values:
    """Where the parts of each tile of the works begin."""
    del rng
    counts = [len(rows) for _, _, rows in _works(sizes, rule, empty)[2]]
    return np.pad(np.concatenate([[0], np.cumsum(counts)]), (0, shape[0] - 1 - len(counts)), mode="edge")


def draw_targets(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    rule: float = 0.0,
    empty: float = -1.0,
) -> Values:
    """The tokens of each tile of the works, and rubbish where a tile has no parts."""
    made = rng.integers(1 << 20, 1 << 30, shape)
    for place, (first, end, rows) in enumerate(_works(sizes, rule, empty)[2]):
        if rows:
            made[place] = first, end
    return made


def draw_sources(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    rule: float = 0.0,
    empty: float = -1.0,
) -> Values:
    """The rows of the parts of each tile of the works, and behind them rubbish."""
    made: Values = rng.integers(1 << 20, 1 << 30, shape)
    rows = [row for _, _, rows in _works(sizes, rule, empty)[2] for row in rows]
    made[: len(rows)] = rows
    return made


def draw_tiles(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Where the parts of each tile begin: in turn 2, 1, 3, 0, 5 parts."""
    del rng
    counts = np.resize([2, 1, 3, 0, 5], shape[0] - 1)
    starts: Values = np.minimum(np.concatenate([[0], counts.cumsum()]), sizes["M"])
    return starts


def draw_rows(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], length: float
) -> Values:
    """The rows of parts, each ``length`` long; those of one tile in the order that they lie in."""
    del rng, sizes
    return np.arange(shape[0]) * int(length)


def draw_logs(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Logarithms of sums, one in four of a part that saw no key; all of head 0."""
    del sizes
    made = np.where(rng.uniform(size=shape) < 0.25, -np.inf, rng.normal(0.0, 4.0, shape))
    made[..., 0] = -np.inf
    return made


def draw_places(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], length: float
) -> Values:
    """The tokens of each tile, the last tile first."""
    del rng, sizes
    first = np.arange(shape[0])[::-1] * int(length)
    return np.stack([first, first + int(length)], axis=1)


def draw_gaps(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], least: float, most: float
) -> Values:
    """``ragged``, two of three of them nothing."""
    lengths = np.diff(draw_ragged(rng, shape, sizes, least, most))
    lengths[np.arange(len(lengths)) % 3 != 1] = 0
    return np.concatenate([[0], lengths.cumsum()])


def draw_ends(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], size: float
) -> Values:
    """How many keys the last page of each batch has, of ``size`` at most."""
    del sizes
    return rng.integers(1, int(size) + 1, shape)


def draw_short(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    block: float,
    most: float,
    blocks: float,
) -> Values:
    """``ragged`` of up to ``blocks`` blocks, and fewer than ``most`` in the last block."""
    del sizes
    lengths = rng.integers(1, int(blocks) + 1, shape[0] - 1) * int(block) + rng.integers(
        1, int(most), shape[0] - 1
    )
    return np.concatenate([[0], lengths.cumsum()])
