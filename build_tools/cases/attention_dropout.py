"""Shared code of references of attention with dropout.

The mask, the formulas with their bounds, and draws of states.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from build_tools.cases.attention import Found, Lost, Scores, attend
from build_tools.cases.attention_backward import ROUNDING, Gradients, Heads, grouped
from build_tools.cases.near import Values

_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)
_WORD: Final = 1 << 64
#: Lanes of a wave, which count each for itself.
_LANES: Final = 64


class Dropout(NamedTuple):
    """A state, the largest byte that is kept, and what kept probabilities are multiplied with."""

    seed: int
    offset: int
    keep: int
    share: float

    def kept(self, batch: int, heads: int, queries: int, keys: int) -> Values:
        """Factors of the probabilities of a batch, [heads, queries, keys]: 0 or ``share``."""
        return np.where(self.numbers(batch, heads, queries, keys) <= self.keep, self.share, 0.0)

    def numbers(self, batch: int, heads: int, queries: int, keys: int) -> Values:
        """Random bytes of a batch, [heads, queries, keys].

        They are those of Composable Kernel: of 32 rows and columns lane 32 h + c has those of column c and of rows 8 h to 8 h + 7
        and 16 + 8 h to 16 + 8 h + 7, in 16 bytes.
        """
        row, column = np.ogrid[:queries, :keys]
        lane = row // 8 % 2 * 32 + column % 32
        place = row % 32 // 16 * 8 + row % 8
        found = [
            self._words(batch * heads + head, lane, row // 32, column // 32, place // 4)
            for head in range(heads)
        ]
        numbers: Values = (
            np.stack(found) >> (place % 4 * 8).astype(np.uint64) & np.uint64(255) if heads else np.empty(0)
        )
        return numbers.astype(np.int64).reshape(heads, queries, keys)

    def _words(self, number: int, lane: Values, row: Values, column: Values, word: Values) -> Values:
        """Return the word of each place; ``number`` is that of the head among those of all batches."""
        first = np.uint64((self.offset + number * _LANES) % _WORD)
        low = first + lane.astype(np.uint64)
        counter = np.broadcast_arrays(
            low & _LOW, low >> _HALF, row.astype(np.uint64), column.astype(np.uint64)
        )
        words = _philox7(counter, self.seed % _WORD)
        return np.choose(np.broadcast_to(word, counter[0].shape), words)


def _philox7(counter: list[Values] | tuple[Values, ...], seed: int) -> list[Values]:
    """Philox4x32 of seven rounds: four words of 32 bits for each counter."""
    a, b, c, d = counter
    for turn in range(7):
        keys = (seed & 0xFFFFFFFF, seed >> 32)
        first, second = (
            np.uint64(key + turn * step & 0xFFFFFFFF) for key, step in zip(keys, _WEYL, strict=True)
        )
        low, high = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = high >> _HALF ^ b ^ first, high & _LOW, low >> _HALF ^ d ^ second, low & _LOW
    return [a, b, c, d]


def state_of(rng_state: Values, keep: int, dropout_p: float) -> Dropout:
    """Dropout of seed and offset as tensors have them."""
    return Dropout(int(rng_state[0]), int(rng_state[1]), keep, 1 / (1 - dropout_p))


def attend_dropped(
    q: Values, k: Values, v: Values, how: Scores, sinks: Values | None, lost: Lost, factors: Values
) -> Found:
    """:func:`attend` of one sequence whose probabilities are multiplied with ``factors``, [hq, sq, sk]."""
    # The result for values that are a unit matrix is the probabilities.
    unit = np.repeat(np.eye(k.shape[0])[:, None], k.shape[1], axis=1)
    found = attend(q, k, unit, how, sinks, lost)
    weights, error = found.out.transpose(1, 0, 2), found.error.transpose(1, 0, 2)
    values = np.repeat(v.transpose(1, 0, 2), q.shape[1] // k.shape[1], axis=0)
    off = (error * factors) @ np.abs(values)
    return Found(
        ((weights * factors) @ values).transpose(1, 0, 2),
        _finite(off).transpose(1, 0, 2) + 2.0**-125,
        found.lse,
        found.off,
    )


def gradients_dropped(
    x: Heads, scale: float, unseen: Values, group: int, unit: float, factors: Values
) -> Gradients:
    """Compute the gradients of attention whose probabilities are multiplied with ``factors``, [b, h, sq, sk].

    P = exp(q k^T * scale - lse), 0 where unseen; delta = rowsum(out * dout); dS = P * (factors * dout v^T - delta);
    dv = (P * factors)^T dout; dq = dS k * scale; dk = dS^T q * scale. P and dS are rounded once, by ``unit`` of their size; all
    else is f32. ``group`` heads share keys.
    """
    width, magnitude = x.q.shape[-1] + x.v.shape[-1], abs(scale)
    scores = x.q @ x.k.swapaxes(-1, -2) * scale - x.lse[..., None]
    weights = np.where(unseen, 0.0, np.exp(np.where(unseen, -np.inf, scores)))
    delta = (x.out * x.dout).sum(axis=-1)
    passed = np.where(factors > 0, x.dout @ x.v.swapaxes(-1, -2) * factors, 0.0)
    slopes = np.where(unseen, 0.0, weights * (passed - delta[..., None]))
    sizes = np.abs(x.q) @ np.abs(x.k).swapaxes(-1, -2) * magnitude + np.abs(x.lse)[..., None]
    products = (np.abs(x.out) * np.abs(x.dout)).sum(-1)
    spread = np.abs(x.dout) @ np.abs(x.v).swapaxes(-1, -2) * factors + products[..., None]
    sums = ROUNDING * (width / 4 + 16)
    # A sum of so many numbers in f32, relative to their sizes.
    added = ROUNDING * (weights.shape[-1] + group * weights.shape[-2] + 64)
    lost = unit * 1.01 + sums * (sizes + 1) + added
    left = np.where(unseen | (factors == 0), 0.0, weights * factors)
    off = _finite(left * lost)
    off_slopes = _finite(np.where(unseen, 0.0, np.abs(slopes) * lost + weights * spread * sums))
    dq = slopes @ x.k * scale, off_slopes @ np.abs(x.k) * magnitude
    dk = slopes.swapaxes(-1, -2) @ x.q * scale, off_slopes.swapaxes(-1, -2) @ np.abs(x.q) * magnitude
    dv = left.swapaxes(-1, -2) @ x.dout, off.swapaxes(-1, -2) @ np.abs(x.dout)
    return Gradients(
        (dq[0].transpose(0, 2, 1, 3), _finite(dq[1].transpose(0, 2, 1, 3))),
        (grouped(dk[0], group), _finite(grouped(dk[1], group))),
        (grouped(dv[0], group), _finite(grouped(dv[1], group))),
        (delta, _finite(sums * products)),
    )


def _finite(error: Values) -> Values:
    return np.where(np.isfinite(error), error, 0.0)


def draw_states(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], offset: float = 0
) -> Values:
    """Draw a seed and an offset of 64 bits; with ``offset`` that many below 2^32, where a counter carries."""
    del sizes
    found: Values = rng.integers(-(1 << 63), 1 << 63, shape)
    if offset:
        found[1] = (1 << 32) - int(offset)
    return found
