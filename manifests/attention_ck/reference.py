"""Attention by Composable Kernel, forward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from build_tools.cases.near import Near, Values, near

#: What a probability may lose when it becomes 16 bits: half a unit of bf16 to nearest, a unit of f16 towards zero.
_LOST = {"bf16": 2.0**-8, "f16": 2.0**-10}
#: And where it is too small for the type.
_SMALLEST = {"bf16": 0.0, "f16": 2.0**-24}
_ROUNDING = 2.0**-24


class _Window(NamedTuple):
    """Keys that query i of n sees of m: from i + m - n - left to i + m - n + right; below 0: no bound."""

    left: int
    right: int

    def hides(self, queries: int, keys: int) -> Values:
        place = np.arange(keys)[None, :] - (np.arange(queries)[:, None] + keys - queries)
        hidden = np.zeros(place.shape, bool)
        if self.left >= 0:
            hidden |= place < -self.left
        if self.right >= 0:
            hidden |= place > self.right
        return hidden


class _Found(NamedTuple):
    """Of one sequence: out [sq, hq, dv] and lse [hq, sq], each with how far a kernel may be off."""

    out: Values
    error: Values
    lse: Values
    off: Values


def _attention(q: Values, k: Values, v: Values, scale: float, window: _Window, kind: str) -> _Found:
    """softmax(q @ k^T * scale) @ v for each head; lse is the natural logarithm of the sum of the exponentials.

    q [sq, hq, d], k [sk, hk, d], v [sk, hk, dv], hq a multiple of hk. Of a query that sees no key out is 0, lse -inf.

    Scores are sums in fp32 and the argument of exp2: they are off by about d / 4 + 8 roundings of their size. A kernel adds the
    probabilities before it rounds them to 16 bits for the second product, so out is off by that rounding of them times |v|.
    """
    group = q.shape[1] // k.shape[1]
    queries, keys, values = (x.transpose(1, 0, 2) for x in (q, k, v))
    keys, values = (np.repeat(x, group, axis=0) for x in (keys, values))
    if not k.shape[0]:
        none = np.zeros((*q.shape[:2], v.shape[2]))
        return _Found(none, none, np.full(queries.shape[:2], -np.inf), np.zeros(queries.shape[:2]))
    hidden = window.hides(q.shape[0], k.shape[0])
    scores = np.where(hidden, -np.inf, queries @ keys.swapaxes(-1, -2) * scale)
    peak = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isinf(peak), 0.0, peak))
    total = powers.sum(axis=-1, keepdims=True)
    weights = powers / np.where(total == 0, 1.0, total)
    sizes = np.sqrt((queries**2) @ (keys**2).swapaxes(-1, -2)) * abs(scale)
    off = _ROUNDING * ((q.shape[-1] / 4 + 8) * 2 * sizes.max(axis=-1, keepdims=True) + 32)
    lost = (_LOST[kind] * 1.01 + 2 * off) * weights + _SMALLEST[kind] * ~hidden
    with np.errstate(divide="ignore"):
        lse = (peak + np.log(total))[..., 0]
    return _Found(
        (weights @ values).transpose(1, 0, 2),
        (lost @ np.abs(values)).transpose(1, 0, 2) + 2.0**-125,
        lse,
        off[..., 0] + 2 * _ROUNDING * (1 + np.abs(np.where(np.isinf(lse), 0.0, lse))),
    )


def _results(
    found: Mapping[tuple[int, int, int], _Found], out: tuple[int, ...], lse: tuple[int, ...], asked: bool
) -> dict[str, Near | None]:
    """What is known of rows (sequence, first, last) in tensors [b, s, h, dv] and [b, h, s]; other rows stay as they were."""
    exact, error, kept = np.zeros(out), np.zeros(out), np.ones(out, bool)
    sums, off, quiet = np.zeros(lse), np.zeros(lse), np.ones(lse, bool)
    for (place, first, last), part in found.items():
        rows = slice(first, last)
        exact[place, rows], error[place, rows], kept[place, rows] = part.out, part.error, False
        sums[place, :, rows], off[place, :, rows], quiet[place, :, rows] = part.lse, part.off, False
    return {
        "out": near(np.ma.masked_array(exact, kept), absolute=error),
        "softmax_lse": near(np.ma.masked_array(sums, quiet), absolute=off) if asked else None,
    }


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
    """``_attention`` of each sequence of a batch: its first queries and keys, as many as the differences of cu_seqlens say.

    q [b, sq, hq, d], k [b, sk, hk, d], v [b, sk, hk, dv].
    """
    found = {}
    window = _Window(window_size_left, 0 if is_causal else window_size_right)
    for place in range(q.shape[0]):
        queries, keys = (
            longest if lengths is None else int(lengths[place + 1] - lengths[place])
            for longest, lengths in ((q.shape[1], cu_seqlens_q), (k.shape[1], cu_seqlens_kv))
        )
        part = (q[place, :queries], k[place, :keys], v[place, :keys])
        found[place, 0, queries] = _attention(*part, softmax_scale, window, kinds["q"])
    shape = (*q.shape[:3], v.shape[3])
    return _results(found, shape, (shape[0], shape[2], shape[1]), return_softmax_lse)


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
    """``_attention`` of each sequence of more than min_seqlen_q queries, which lie from cu_seqlens_q[i] (or where
    cu_seqlens_q_padded says) on, cu_seqlens_q[i + 1] - cu_seqlens_q[i] of them.

    q [sq, hq, d], k [sk, hk, d], v [sk, hk, dv].
    """
    found = {}
    window = _Window(window_size_left, 0 if is_causal else window_size_right)
    for place, (queries, keys) in enumerate(zip(np.diff(cu_seqlens_q), np.diff(cu_seqlens_k), strict=True)):
        if queries <= min_seqlen_q:
            continue
        first, begin = (
            int((lengths if starts is None else starts)[place])
            for lengths, starts in ((cu_seqlens_q, cu_seqlens_q_padded), (cu_seqlens_k, cu_seqlens_k_padded))
        )
        seen = slice(begin, begin + int(keys))
        part = (q[first : first + int(queries)], k[seen], v[seen])
        found[0, first, first + int(queries)] = _attention(*part, softmax_scale, window, kinds["q"])
    made = _results(found, (1, *q.shape[:2], v.shape[2]), (1, q.shape[1], q.shape[0]), return_softmax_lse)
    return {name: _of_one(result) for name, result in made.items()}


def _of_one(result: Near | None) -> Near | None:
    """Without the dim of a batch of one."""
    if result is None:
        return None
    kept = None if result.kept is None else result.kept[0]
    return Near(result.values[0], result.error[0], kept)


def _parts(total: int, count: int) -> Values:
    """``total`` in ``count`` parts of different sizes, none of them 0 where there is enough."""
    weights = np.array([5, 2, 9, 1, 4, 7])[np.arange(count) % 6]
    cuts = np.cumsum(weights)[:-1] * max(total - count, 0) // weights.sum()
    return np.diff(np.concatenate([[0], cuts, [max(total - count, 0)]])) + (total >= count)


def _starts(lengths: Values) -> Values:
    return np.concatenate([[0], np.cumsum(lengths)])


def draw_query_starts(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1
) -> Values:
    """Where each of packed sequences starts, and where the last ends; sequence number ``empty`` has no query."""
    del rng
    lengths = _parts(sizes["SQ"], shape[0] - 1)
    if empty >= 0:
        lengths[(int(empty) + 1) % lengths.size] += lengths[int(empty)]
        lengths[int(empty)] = 0
    return _starts(lengths)


def draw_key_starts(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1
) -> Values:
    """The same for keys, with other lengths."""
    del rng
    lengths = _parts(sizes["SK"], shape[0] - 1)[::-1].copy()
    if empty >= 0:
        lengths[int(empty) - 1] += lengths[int(empty)]
        lengths[int(empty)] = 0
    return _starts(lengths)


def draw_query_lengths(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], less: float = 3
) -> Values:
    """Cumulative lengths of sequences that have up to ``less`` rows fewer than lie between their starts."""
    del rng
    lengths = _parts(sizes["SQ"], shape[0] - 1)
    return _starts(np.maximum(lengths - 1 - np.arange(lengths.size) % int(less), 0))


def draw_key_lengths(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], less: float = 3
) -> Values:
    """The same for keys."""
    del rng
    lengths = _parts(sizes["SK"], shape[0] - 1)[::-1]
    return _starts(np.maximum(lengths - np.arange(lengths.size) % int(less), 0))


def draw_shorter_queries(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], step: float = 9
) -> Values:
    """Cumulative lengths of a batch's sequences: each has ``step`` queries fewer than the one before, the first all of them."""
    del rng
    return _starts(np.maximum(sizes["SQ"] - int(step) * np.arange(shape[0] - 1), 0))


def draw_shorter_keys(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], step: float = 11
) -> Values:
    """The same for keys, of which the last sequence has all."""
    del rng
    return _starts(np.maximum(sizes["SK"] - int(step) * np.arange(shape[0] - 1), 0)[::-1])
