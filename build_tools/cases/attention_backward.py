"""Shared code of references of attention's backward.

The formula, its error bound, draws of sums and of sequences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from build_tools.cases.near import Values

#: Half a unit of the last place: P and dS are rounded once to the type of q.
UNIT: Final = {"bf16": 2.0**-8, "f16": 2.0**-11}
#: Half a unit of the last place of f32.
ROUNDING: Final = 2.0**-24


class Heads(NamedTuple):
    """Inputs with a head of keys for each of queries, [b, h, s, d]; lse [b, h, s]."""

    q: Values
    k: Values
    v: Values
    out: Values
    dout: Values
    lse: Values


class Gradients(NamedTuple):
    """Each exact, [b, s, h, d], and how far a kernel may be off before its last rounding; delta is [b, h, s]."""

    dq: tuple[Values, Values]
    dk: tuple[Values, Values]
    dv: tuple[Values, Values]
    delta: tuple[Values, Values]


def heads(q: Values, k: Values, v: Values, out: Values, dout: Values, lse: Values) -> Heads:
    """From [b, s, h, d], each head of keys for all queries that share it."""
    group = q.shape[2] // k.shape[2]
    many = (x.transpose(0, 2, 1, 3) for x in (q, k, v, out, dout))
    queries, keys, values, given, slope = many
    shared = np.repeat(keys, group, axis=1), np.repeat(values, group, axis=1)
    return Heads(queries, *shared, given, slope, lse)


def hidden(queries: int, keys: int, left: int, right: int) -> Values:
    """Mask the keys that each query does not see.

    It sees keys from i + keys - queries - left to ... + right; -1: no bound.
    """
    place = np.arange(keys)[None, :] - (np.arange(queries)[:, None] + keys - queries)
    found = np.zeros(place.shape, bool)
    if left >= 0:
        found |= place < -left
    if right >= 0:
        found |= place > right
    return found


def gradients(x: Heads, scale: float, unseen: Values, group: int, unit: float) -> Gradients:
    """Compute the gradients of attention from its result.

    softmax(q k^T * scale) v, with the log-sum-exp of its scores; ``group`` heads share keys.

    P = exp(q k^T * scale - lse), 0 where unseen; delta = rowsum(out * dout); dS = P * (dout v^T - delta); dv = P^T dout;
    dq = dS k * scale; dk = dS^T q * scale. P and dS are rounded once, by ``unit`` of their size; all else is f32.
    """
    width, magnitude = x.q.shape[-1] + x.v.shape[-1], abs(scale)
    scores = x.q @ x.k.swapaxes(-1, -2) * scale - x.lse[..., None]
    weights = np.where(unseen, 0.0, np.exp(np.where(unseen, -np.inf, scores)))
    delta = (x.out * x.dout).sum(axis=-1)
    slopes = np.where(unseen, 0.0, weights * (x.dout @ x.v.swapaxes(-1, -2) - delta[..., None]))
    sizes = np.abs(x.q) @ np.abs(x.k).swapaxes(-1, -2) * magnitude + np.abs(x.lse)[..., None]
    products = (np.abs(x.out) * np.abs(x.dout)).sum(-1)
    spread = np.abs(x.dout) @ np.abs(x.v).swapaxes(-1, -2) + products[..., None]
    sums = ROUNDING * (width / 4 + 16)
    # A sum of so many numbers in f32, relative to their sizes.
    added = ROUNDING * (weights.shape[-1] + group * weights.shape[-2] + 64)
    lost = unit * 1.01 + sums * (sizes + 1) + added
    off = _known(np.where(unseen, 0.0, weights * lost))
    off_slopes = _known(np.where(unseen, 0.0, np.abs(slopes) * lost + weights * spread * sums))
    dq = slopes @ x.k * scale, off_slopes @ np.abs(x.k) * magnitude
    dk = slopes.swapaxes(-1, -2) @ x.q * scale, off_slopes.swapaxes(-1, -2) @ np.abs(x.q) * magnitude
    dv = weights.swapaxes(-1, -2) @ x.dout, off.swapaxes(-1, -2) @ np.abs(x.dout)
    return Gradients(
        (dq[0].transpose(0, 2, 1, 3), _known(dq[1].transpose(0, 2, 1, 3))),
        (grouped(dk[0], group), _known(grouped(dk[1], group))),
        (grouped(dv[0], group), _known(grouped(dv[1], group))),
        (delta, _known(sums * products)),
    )


def grouped(x: Values, group: int) -> Values:
    """[b, h, s, d] of the heads that share keys -> their sum, [b, s, h / group, d]."""
    batch, count, length, width = x.shape
    found: Values = x.reshape(batch, count // group, group, length, width).sum(axis=2).transpose(0, 2, 1, 3)
    return found


def sink_slopes(sink: Values, lse: Values, delta: Values, off_delta: Values) -> tuple[Values, Values]:
    """Compute the gradient of each head's sink, with its error bound.

    It is -exp(sink - lse) * delta summed over b and s; sink [b, h], lse and delta [b, h, s].
    """
    shares = np.exp(sink[..., None] - lse)
    sizes = np.abs(sink)[..., None] + np.abs(lse) + 8
    count = lse.shape[0] * lse.shape[2] + 64
    off = shares * np.abs(delta) * ROUNDING * (4 * sizes + count) + shares * off_delta
    return -(shares * delta).sum(axis=(0, 2)), _known(off.sum(axis=(0, 2)))


def _known(error: Values) -> Values:
    """Replace errors that are not finite by 0.

    The result beside them is not finite either.
    """
    return np.where(np.isfinite(error), error, 0.0)


def draw_sums(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Log-sum-exps about as scores near 0 give them for so many keys."""
    found: Values = np.log(max(sizes["SK"], 1)) + rng.uniform(-0.5, 1.0, shape)
    return found


def draw_query_starts(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1
) -> Values:
    """Draw the start of each sequence, and the last end.

    Sequence number ``empty`` is empty.
    """
    del rng
    return _starts(sizes["SQ"], shape[0] - 1, int(empty))


def draw_key_starts(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1
) -> Values:
    """Draw the start of each sequence's keys, and the last end."""
    del rng
    return _starts(sizes["SK"], shape[0] - 1, int(empty))


def _starts(total: int, count: int, empty: int) -> Values:
    weights = np.array([5, 2, 9, 1, 4, 7])[np.arange(count) % 6]
    cuts = np.cumsum(weights)[:-1] * max(total - count, 0) // weights.sum()
    lengths = np.diff(np.concatenate([[0], cuts, [max(total - count, 0)]])) + (total >= count)
    if empty >= 0:
        lengths[(empty + 1) % count] += lengths[empty]
        lengths[empty] = 0
    return np.concatenate([[0], np.cumsum(lengths)])
