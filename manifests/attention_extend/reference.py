"""Attention of new tokens behind a prefix in a cache, and of prompts, forward."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import numpy as np

from build_tools.cases.attention import (
    NEAREST,
    Scores,
    attend,
    draw_query_starts,
    lengths,
    packed,
    starts,
)
from build_tools.cases.near import Near, Values

__all__ = ["draw_query_starts"]


class _Masked(Scores):
    """Scores that a mask hides, [queries, keys], and nothing else does."""

    hidden: Values

    def hides(self, queries: int, keys: int) -> Values:
        """[queries, keys]: which scores do not count."""
        del queries, keys
        return self.hidden


def extend_attention_fwd(
    q_extend: Values,
    k_extend: Values,
    v_extend: Values,
    k_buffer: Values,
    v_buffer: Values,
    qo_indptr: Values,
    kv_indptr: Values,
    kv_indices: Values,
    custom_mask: Values | None,
    is_causal: bool,
    mask_indptr: Values | None,
    max_len_extend: int,
    sm_scale: float | None,
    logit_cap: float,
    skip_prefix_custom_mask: bool,
    kinds: dict[str, str],
) -> Near:
    """:func:`attend` of each sequence: its keys are the rows kv_indices[kv_indptr[i] : kv_indptr[i + 1]] of the cache, then those
    of its new tokens, the rows from qo_indptr[i] to qo_indptr[i + 1] of q_extend and k_extend.

    q_extend [sq, hq, d], k_extend [sq, hk, d], v_extend [sq, hk, dv], the cache [nb, hk, d] and [nb, hk, dv]. A mask of the
    sequence is [tokens, keys], from mask_indptr[i] on; a key counts where it is not 0.
    """
    scale = sm_scale or q_extend.shape[2] ** -0.5
    found = {}
    spans = zip(_spans(qo_indptr), _spans(kv_indptr), strict=True)
    for place, ((first, end), (begin, final)) in enumerate(spans):
        rows = kv_indices[begin:final]
        keys = np.concatenate([k_buffer[rows], k_extend[first:end]])
        values = np.concatenate([v_buffer[rows], v_extend[first:end]])
        how = Scores(scale, -1, 0 if is_causal else -1, logit_cap)
        if custom_mask is not None and mask_indptr is not None:
            shape = (end - first, len(keys))
            mask = custom_mask[int(mask_indptr[place]) :][: shape[0] * shape[1]].reshape(shape)
            how = _Masked(scale, cap=logit_cap)
            how.hidden = mask == 0
            how.hidden[:, : len(rows)] &= not skip_prefix_custom_mask
        tokens = (0, first, min(end, first + max_len_extend))
        found[tokens] = attend(q_extend[first:end], keys, values, how, None, NEAREST[kinds["o_extend"]])
    return packed(found, (*q_extend.shape[:2], v_extend.shape[2]))[0]


def context_attention_fwd(
    q: Values,
    k: Values,
    v: Values,
    b_start_loc: Values,
    b_seq_len: Values,
    max_input_len: int,
    is_causal: bool,
    kinds: dict[str, str],
) -> Near:
    """:func:`attend` of each prompt: b_seq_len[i] rows from b_start_loc[i] on. q [sq, hq, d], k [sq, hk, d], v [sq, hk, dv]."""
    how = Scores(q.shape[2] ** -0.5, -1, 0 if is_causal else -1)
    found = {}
    for first, count in zip(b_start_loc.tolist(), b_seq_len.tolist(), strict=True):
        rows = slice(first, first + count)
        found[0, first, first + min(count, max_input_len)] = attend(
            q[rows], k[rows], v[rows], how, None, NEAREST[kinds["o"]]
        )
    return packed(found, (*q.shape[:2], v.shape[2]))[0]


def _spans(edges: Values) -> Iterable[tuple[int, int]]:
    return itertools.pairwise(edges.tolist())


def draw_prefix_starts(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1
) -> Values:
    """Where the prefix of each sequence starts in the list of rows, and where the last ends; number ``empty`` has none."""
    del rng
    return starts(lengths(sizes["KI"], shape[0] - 1, int(empty), 1))


def draw_rows(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Any rows of the cache."""
    return rng.integers(0, sizes["NB"], shape)


def draw_bytes(rng: np.random.Generator, shape: tuple[int, ...], sizes: object) -> Values:
    """Of three numbers one is 0."""
    del sizes
    return rng.integers(0, 3, shape)


def draw_masks(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Where the mask of each sequence starts: a few bytes behind the one before it, where no sequence is empty; more numbers are
    of none.
    """
    del rng
    tokens = lengths(sizes["SQ"], sizes["S1"] - 1, -1, 0)
    keys = tokens + lengths(sizes["KI"], sizes["S1"] - 1, -1, 1)
    found = starts(tokens * keys + 3)
    return np.resize(found, shape)


def draw_prompts(rng: object, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Where prompts start: a row lies between two of them."""
    del rng
    return starts(_prompts(sizes, shape[0]) + 1)[:-1]


def draw_prompt_lengths(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1
) -> Values:
    """How many tokens they have; number ``empty`` has none."""
    del rng
    found = _prompts(sizes, shape[0])
    found[int(empty) :][: int(empty >= 0)] = 0
    return found


def _prompts(sizes: Mapping[str, int], count: int) -> Values:
    return lengths(sizes["SQ"] - count, count, -1, 0)
