"""Attention by AITER's assembly, backward."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from build_tools.cases.near import Near, Values, near

#: What one rounding of a number to its type may lose of it: a unit of bf16 towards zero, half of one to nearest; f16 either way.
_UNIT = {"bf16": 2.0**-8, "f16": 2.0**-10}
_ROUNDING = 2.0**-24


class _Heads(NamedTuple):
    """Inputs with a head of keys for each of queries, [b, h, s, d]."""

    q: Values
    k: Values
    v: Values
    out: Values
    dout: Values
    lse: Values


def _hidden(queries: int, keys: int, left: int, right: int) -> Values:
    """Which keys a query does not see: those outside of i + keys - queries - left ... + right; -1: no bound."""
    place = np.arange(keys)[None, :] - (np.arange(queries)[:, None] + keys - queries)
    hidden = np.zeros(place.shape, bool)
    if left >= 0:
        hidden |= place < -left
    if right >= 0:
        hidden |= place > right
    return hidden


def _window(keys: int, is_causal: bool, left: int, right: int) -> tuple[int, int]:
    return -1 if left >= keys else left, 0 if is_causal else -1 if right >= keys else right


def _grouped(x: Values, group: int) -> Values:
    """[b, h, s, d] of the heads that share keys -> their sum, [b, s, h / group, d]."""
    batch, heads, length, width = x.shape
    found: Values = x.reshape(batch, heads // group, group, length, width).sum(axis=2).transpose(0, 2, 1, 3)
    return found


def _gradients(
    x: _Heads, scale: float, hidden: Values, group: int, unit: float, tiles: int
) -> dict[str, tuple[Values, Values]]:
    """The gradients, each with how far a kernel may be off before its last rounding.

    P = exp(q k^T * scale - lse); dv = P^T dout; dS = P * (dout v^T - delta), delta = rowsum(out * dout); dq = dS k * scale;
    dk = dS^T q * scale. P and dS are rounded once, dk and dv once for each head that shares keys; with ``tiles`` dq is added up
    in its own type, once for each.
    """
    width = x.q.shape[-1]
    scores = x.q @ x.k.swapaxes(-1, -2) * scale - x.lse[..., None]
    weights = np.where(hidden, 0.0, np.exp(np.where(hidden, -np.inf, scores)))
    delta = (x.out * x.dout).sum(axis=-1)
    slopes = weights * (x.dout @ x.v.swapaxes(-1, -2) - delta[..., None])
    sizes = np.abs(x.q) @ np.abs(x.k).swapaxes(-1, -2) * scale + np.abs(x.lse)[..., None]
    spread = (
        np.abs(x.dout) @ np.abs(x.v).swapaxes(-1, -2) + (np.abs(x.out) * np.abs(x.dout)).sum(-1)[..., None]
    )
    lost = unit + _ROUNDING * (width / 2 + 16) * (sizes + 1)
    rough_weights = weights * lost
    rough_slopes = np.abs(slopes) * lost + weights * spread * _ROUNDING * (width / 2 + 16)
    lengths = _ROUNDING * (weights.shape[-1] + weights.shape[-2] + 64)
    rough_slopes, rough_weights = rough_slopes + np.abs(slopes) * lengths, rough_weights + weights * lengths
    dq, off_dq = slopes @ x.k * scale, rough_slopes @ np.abs(x.k) * scale
    if tiles:
        off_dq = off_dq + (tiles + 1) * unit * (np.abs(slopes) @ np.abs(x.k)) * scale
    found = {
        "dq": (dq.transpose(0, 2, 1, 3), off_dq.transpose(0, 2, 1, 3)),
        "delta": (delta, _ROUNDING * (width / 2 + 8) * (np.abs(x.out) * np.abs(x.dout)).sum(axis=-1)),
    }
    for name, exact, off in (
        ("dk", slopes.swapaxes(-1, -2) @ x.q * scale, rough_slopes.swapaxes(-1, -2) @ np.abs(x.q) * scale),
        ("dv", weights.swapaxes(-1, -2) @ x.dout, rough_weights.swapaxes(-1, -2) @ np.abs(x.dout)),
    ):
        once = off + (unit * np.abs(exact) if group > 1 else 0.0)
        found[name] = (_grouped(exact, group), _grouped(once, group))
    return found


def _heads(q: Values, k: Values, v: Values, out: Values, dout: Values, lse: Values) -> _Heads:
    group = q.shape[2] // k.shape[2]
    many = (x.transpose(0, 2, 1, 3) for x in (q, k, v, out, dout))
    queries, keys, values, given, slope = many
    return _Heads(
        queries, np.repeat(keys, group, axis=1), np.repeat(values, group, axis=1), given, slope, lse
    )  # fmt: skip


def _lost(kind: str, how: int) -> float:
    return _UNIT[kind] * (2 if kind == "bf16" and how == 2 else 1) * 1.02


def fmha_v3_bwd(
    dout: Values,
    q: Values,
    k: Values,
    v: Values,
    out: Values,
    softmax_lse: Values,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    is_v3_atomic_fp32: bool,
    how_v3_bf16_cvt: int,
    kinds: dict[str, str],
) -> dict[str, Near]:
    """Gradients of softmax(q @ k^T * softmax_scale) @ v for each head, from its result and the log-sum-exp of its scores.

    q, dq [b, sq, hq, d], k, dk [b, sk, hk, d], v, dv [b, sk, hk, dv], out, dout [b, sq, hq, dv], hq a multiple of hk.
    softmax_d is rowsum(out * dout), [b, hq, sq]. See ``_gradients`` for what is rounded.
    """
    unit = _lost(kinds["q"], how_v3_bf16_cvt)
    left, right = _window(k.shape[1], is_causal, window_size_left, window_size_right)
    hidden = _hidden(q.shape[1], k.shape[1], left, right)
    tiles = 0 if is_v3_atomic_fp32 else -(-k.shape[1] // 64)
    heads = _heads(q, k, v, out, dout, softmax_lse)
    found = _gradients(heads, softmax_scale, hidden, q.shape[2] // k.shape[2], unit, tiles)
    turned = (
        0.0 if kinds["q"] == "bf16" and how_v3_bf16_cvt != 2 else unit
    )  # results that are not rounded to nearest
    return {
        **{
            name: near(found[name][0], relative=turned, absolute=found[name][1] + 2.0**-24)
            for name in ("dq", "dk", "dv")
        },
        "softmax_d": near(found["delta"][0], absolute=found["delta"][1] + 2.0**-125),
    }


def fmha_v3_varlen_bwd(
    dout: Values,
    q: Values,
    k: Values,
    v: Values,
    out: Values,
    softmax_lse: Values,
    cu_seqlens_q: Values,
    cu_seqlens_k: Values,
    softmax_scale: float,
    is_causal: bool,
    is_v3_atomic_fp32: bool,
    how_v3_bf16_cvt: int,
    kinds: dict[str, str],
) -> dict[str, Near]:
    """:func:`fmha_v3_bwd` of each sequence: its queries are the rows from cu_seqlens_q[i] to cu_seqlens_q[i + 1] of q.

    q [sq, hq, d], k [sk, hk, d]; softmax_lse and softmax_d are [hq, sq]. What meets nothing has a gradient of 0.
    """
    made: dict[str, tuple[Values, Values]] = {
        name: (np.zeros(like.shape), np.zeros(like.shape)) for name, like in (("dq", q), ("dk", k), ("dv", v))
    }
    spans = (list(itertools.pairwise(edges.tolist())) for edges in (cu_seqlens_q, cu_seqlens_k))
    for (first, last), (begin, end) in zip(*spans, strict=True):
        if last <= first or end <= begin:
            continue
        rows, keys = slice(first, last), slice(begin, end)
        found = fmha_v3_bwd(
            dout[None, rows], q[None, rows], k[None, keys], v[None, keys], out[None, rows], softmax_lse[None, :, rows],
            softmax_scale, is_causal, -1, -1, is_v3_atomic_fp32, how_v3_bf16_cvt, kinds,
        )  # fmt: skip
        for name, part in (("dq", rows), ("dk", keys), ("dv", keys)):
            made[name][0][part], made[name][1][part] = found[name].values[0], found[name].error[0]
    delta = (out * dout).sum(axis=-1).T
    off = _ROUNDING * (out.shape[-1] / 2 + 8) * (np.abs(out) * np.abs(dout)).sum(axis=-1).T
    gradients = {name: near(values, absolute=error) for name, (values, error) in made.items()}
    return {**gradients, "softmax_d": near(delta, absolute=off + 2.0**-125)}


def draw_sums(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Log-sum-exps about as scores near 0 give them for so many keys."""
    found: Values = np.log(max(sizes["SK"], 1)) + rng.uniform(-0.5, 1.0, shape)
    return found


def _parts(total: int, count: int) -> Values:
    """``total`` in ``count`` parts of different sizes, none of them 0 where there is enough."""
    weights = np.array([5, 2, 9, 1, 4, 7])[np.arange(count) % 6]
    cuts = np.cumsum(weights)[:-1] * max(total - count, 0) // weights.sum()
    return np.diff(np.concatenate([[0], cuts, [max(total - count, 0)]])) + (total >= count)


def draw_query_starts(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1
) -> Values:
    """Where each sequence starts, and where the last ends; sequence number ``empty`` has nothing."""
    del rng
    return _starts(sizes["SQ"], shape[0] - 1, int(empty))


def draw_key_starts(
    rng: object, shape: tuple[int, ...], sizes: Mapping[str, int], empty: float = -1
) -> Values:
    """The same for keys."""
    del rng
    return _starts(sizes["SK"], shape[0] - 1, int(empty))


def _starts(total: int, count: int, empty: int) -> Values:
    lengths = _parts(total, count)
    if empty >= 0:
        lengths[(empty + 1) % count] += lengths[empty]
        lengths[empty] = 0
    return np.concatenate([[0], np.cumsum(lengths)])
