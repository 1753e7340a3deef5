"""Attention by Composable Kernel, forward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from build_tools.cases.attention import (
    Lost,
    Scores,
    attend,
    batched,
    draw_key_starts,
    draw_query_starts,
    packed,
    parts,
    starts,
)
from build_tools.cases.near import Near, Values

__all__ = ["draw_key_starts", "draw_query_starts"]

#: bf16 is rounded to nearest, f16 towards zero.
_LOST: Final = {"bf16": Lost(2.0**-8), "f16": Lost(2.0**-10, 2.0**-24)}


def mha_fwd(
    q: Values,
    k: Values,
    v: Values,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    return_softmax_lse: bool,
    cu_seqlens_q: Values | None,
    cu_seqlens_kv: Values | None,
    kinds: dict[str, str],
) -> dict[str, Near | None]:
    """``attend`` of each sequence of a batch: its first queries and keys, as many as the differences of cu_seqlens say.

    q [b, sq, hq, d], k [b, sk, hk, d], v [b, sk, hk, dv].
    """
    found = {}
    how = Scores(softmax_scale, window_size_left, 0 if is_causal else window_size_right)
    for place in range(q.shape[0]):
        queries, keys = (
            longest if lengths is None else int(lengths[place + 1] - lengths[place])
            for longest, lengths in ((q.shape[1], cu_seqlens_q), (k.shape[1], cu_seqlens_kv))
        )
        part = (q[place, :queries], k[place, :keys], v[place, :keys])
        found[place, 0, queries] = attend(*part, how, None, _LOST[kinds["q"]])
    out, lse = batched(found, (*q.shape[:3], v.shape[3]))
    return {"out": out, "softmax_lse": lse if return_softmax_lse else None}


def mha_varlen_fwd(
    q: Values,
    k: Values,
    v: Values,
    cu_seqlens_q: Values,
    cu_seqlens_k: Values,
    min_seqlen_q: int,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    return_softmax_lse: bool,
    cu_seqlens_q_padded: Values | None,
    cu_seqlens_k_padded: Values | None,
    kinds: dict[str, str],
) -> dict[str, Near | None]:
    """``attend`` of each sequence of more than min_seqlen_q queries, which lie from cu_seqlens_q[i] (or where
    cu_seqlens_q_padded says) on, cu_seqlens_q[i + 1] - cu_seqlens_q[i] of them.

    q [sq, hq, d], k [sk, hk, d], v [sk, hk, dv].
    """
    found = {}
    how = Scores(softmax_scale, window_size_left, 0 if is_causal else window_size_right)
    for place, (queries, keys) in enumerate(zip(np.diff(cu_seqlens_q), np.diff(cu_seqlens_k), strict=True)):
        if queries <= min_seqlen_q:
            continue
        first, begin = (
            int((lengths if starts is None else starts)[place])
            for lengths, starts in ((cu_seqlens_q, cu_seqlens_q_padded), (cu_seqlens_k, cu_seqlens_k_padded))
        )
        seen = slice(begin, begin + int(keys))
        part = (q[first : first + int(queries)], k[seen], v[seen])
        found[0, first, first + int(queries)] = attend(*part, how, None, _LOST[kinds["q"]])
    out, lse = packed(found, (*q.shape[:2], v.shape[2]))
    return {"out": out, "softmax_lse": lse if return_softmax_lse else None}


def draw_query_lengths(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], less: float = 3
) -> Values:
    """Cumulative lengths of sequences that have up to ``less`` rows fewer than lie between their starts."""
    del rng
    found = parts(sizes["SQ"], shape[0] - 1)
    return starts(np.maximum(found - 1 - np.arange(found.size) % int(less), 0))


def draw_key_lengths(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], less: float = 3
) -> Values:
    """The same for keys."""
    del rng
    found = np.roll(parts(sizes["SK"], shape[0] - 1), 1)
    return starts(np.maximum(found - np.arange(found.size) % int(less), 0))


def draw_shorter_queries(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], step: float = 9
) -> Values:
    """Cumulative lengths of a batch's sequences: each has ``step`` queries fewer than the one before, the first all of them."""
    del rng
    return starts(np.maximum(sizes["SQ"] - int(step) * np.arange(shape[0] - 1), 0))


def draw_shorter_keys(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], step: float = 11
) -> Values:
    """The same for keys, of which the last sequence has all."""
    del rng
    return starts(np.maximum(sizes["SK"] - int(step) * np.arange(shape[0] - 1), 0)[::-1])
