"""Shared code of references of attention.

The formula with its bound, packed sequences, pages, and draws of lengths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from build_tools.cases.near import Near, Values, near

ROUNDING: Final = 2.0**-24


class Lost(NamedTuple):
    """The bound of a probability's rounding to 16 bits.

    It is relative, and absolute where the probability is too small for the type.
    """

    relative: float
    smallest: float = 0.0


#: Half a unit of the last place.
NEAREST: Final = {"bf16": Lost(2.0**-8), "f16": Lost(2.0**-11, 2.0**-25)}


class Scores(NamedTuple):
    """The scale and mask of scores.

    Query i of n sees of m keys those from i + m - n - left to i + m - n + right, and the ``first`` ones up to there; below 0: no
    bound. A score x is cap * tanh(x / cap) where cap is above 0.
    """

    scale: float
    left: int = -1
    right: int = -1
    cap: float = 0.0
    first: int = 0

    def hides(self, queries: int, keys: int) -> Values:
        """Mark the scores that do not count, [queries, keys]."""
        place = np.arange(keys)[None, :] - (np.arange(queries)[:, None] + keys - queries)
        hidden = np.zeros(place.shape, bool)
        if self.left >= 0:
            hidden |= (place < -self.left) & (np.arange(keys) >= self.first)[None, :]
        if self.right >= 0:
            hidden |= place > self.right
        return hidden


class Found(NamedTuple):
    """The results of one sequence with their error bounds.

    out [sq, hq, dv] and lse [hq, sq].
    """

    out: Values
    error: Values
    lse: Values
    off: Values


def attend(q: Values, k: Values, v: Values, how: Scores, sinks: Values | None, lost: Lost) -> Found:
    """softmax(cap(q @ k^T * scale)) @ v for each head; lse is the natural logarithm of the sum of the exponentials.

    q [sq, hq, d], k [sk, hk, d], v [sk, hk, dv], hq a multiple of hk. A sink is one more score of its head, whose value is 0.
    Of a query that sees no key out is 0, lse -inf or its sink.

    Scores are sums in fp32 and the argument of exp2: they are off by about d / 4 + 8 roundings of their size, and a capped one by
    some of the cap. A kernel adds the probabilities before it rounds them to 16 bits for the second product, so out is off by
    that rounding of them times |v|.

    Limit: a kernel multiplies keys that a query does not see by 0, and those that fill a tile, too: an infinity or NaN in v may
    make NaN of what does not depend on it.
    """
    group = q.shape[1] // k.shape[1]
    queries = q.transpose(1, 0, 2)
    keys, values = (np.repeat(x.transpose(1, 0, 2), group, axis=0) for x in (k, v))
    hidden = how.hides(q.shape[0], k.shape[0])
    scores = queries @ keys.swapaxes(-1, -2) * how.scale
    if how.cap > 0:
        scores = how.cap * np.tanh(scores / how.cap)
    scores = np.where(hidden, -np.inf, scores)
    sink = np.full(q.shape[1], -np.inf) if sinks is None else sinks
    sink = np.broadcast_to(sink[:, None, None], (*scores.shape[:2], 1))
    peak = np.maximum(scores.max(axis=-1, keepdims=True, initial=-np.inf), sink)
    base = np.where(peak == -np.inf, 0.0, peak)
    powers = np.exp(scores - base)
    total = powers.sum(axis=-1, keepdims=True) + np.exp(sink - base)
    weights = powers / np.where(total == 0, 1.0, total)
    size = np.sqrt((queries**2) @ (keys**2).swapaxes(-1, -2)).max(axis=-1, keepdims=True, initial=0.0)
    off = ROUNDING * ((q.shape[2] / 4 + 8) * 2 * size * abs(how.scale) + 32 + 16 * max(how.cap, 0.0))
    error = (lost.relative * 1.01 + 2 * off) * weights + lost.smallest * ~hidden
    with np.errstate(divide="ignore"):
        lse = (base + np.log(total))[..., 0]
    sums = off[..., 0] + 2 * ROUNDING * (1 + np.abs(np.where(np.isfinite(lse), lse, 0.0)))
    return Found(
        (weights @ values).transpose(1, 0, 2),
        _finite((error @ np.abs(values)).transpose(1, 0, 2) + 2.0**-125),
        lse,
        _finite(sums),
    )


def _finite(error: Values) -> Values:
    return np.where(np.isfinite(error), error, 0.0)


#: (sequence, first row, end) -> what was found; only so many of its rows count as end - first.
Parts = Mapping[tuple[int, int, int], Found]


def batched(found: Parts, out: tuple[int, ...]) -> tuple[Near, Near]:
    """Rows of tensors out [b, s, h, dv] and lse [b, h, s]; other rows stay as they were."""
    lse = (out[0], out[2], out[1])
    exact, error, kept = np.zeros(out), np.zeros(out), np.ones(out, bool)
    sums, off, quiet = np.zeros(lse), np.zeros(lse), np.ones(lse, bool)
    for (place, first, end), part in found.items():
        rows, count = slice(first, end), max(end - first, 0)
        exact[place, rows], error[place, rows], kept[place, rows] = (
            part.out[:count],
            part.error[:count],
            False,
        )
        sums[place, :, rows], off[place, :, rows] = part.lse[:, :count], part.off[:, :count]
        quiet[place, :, rows] = False
    return (
        near(np.ma.masked_array(exact, kept), absolute=error),
        near(np.ma.masked_array(sums, quiet), absolute=off),
    )


def packed(found: Parts, out: tuple[int, ...]) -> tuple[Near, Near]:
    """Pack the results of sequences: out [s, h, dv], lse [h, s]."""
    made = batched(found, (1, *out))
    one, two = (
        Near(each.values[0], each.error[0], None if each.kept is None else each.kept[0]) for each in made
    )
    return one, two


def paged(cache: Values, pages: Values, count: int) -> Values:
    """Return the first ``count`` keys or values of pages.

    ``cache`` is [nb, ps, hk, d].
    """
    rows: Values = cache[pages].reshape(-1, *cache.shape[2:])[:count]
    return rows


def parts(total: int, count: int) -> Values:
    """``total`` in ``count`` parts of different sizes, none of them 0 where there is enough."""
    weights = np.array([5, 2, 9, 1, 4, 7])[np.arange(count) % 6]
    cuts = np.cumsum(weights)[:-1] * max(total - count, 0) // weights.sum()
    return np.diff(np.concatenate([[0], cuts, [max(total - count, 0)]])) + (total >= count)


def starts(lengths: Values, first: int = 0) -> Values:
    """Return the start of each packed sequence, and the last end."""
    return np.concatenate([[0], np.cumsum(lengths)]) + first


def lengths(total: int, count: int, empty: int, turn: int) -> Values:
    """``total`` rows of ``count`` sequences, in an order that ``turn`` changes; sequence number ``empty`` has none, below 0
    none has.
    """
    found = np.roll(parts(total, count), turn)
    if empty >= 0:
        found[(empty + 1) % count] += found[empty]
        found[empty] = 0
    return found


def draw_query_starts(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1, first: float = 0
) -> Values:
    """Draw the start of each sequence's queries, and the last end.

    Sequence ``empty`` has no queries; the ``first`` rows belong to no sequence.
    """
    del rng
    return starts(lengths(sizes["SQ"] - int(first), shape[0] - 1, int(empty), 0), int(first))


def draw_key_starts(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1, turn: float = 1
) -> Values:
    """Draw the start of each sequence's keys, and the last end.

    The lengths are in another order (``turn`` sequences on).
    """
    del rng
    return starts(lengths(sizes["SK"], shape[0] - 1, int(empty), int(turn)))
