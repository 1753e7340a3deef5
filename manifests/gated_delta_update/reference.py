"""The gated delta rule behind states in a pool, and how far a kernel in fp32 may be from it.

An error of the state goes through exp(g) * (I - beta * k k^T), which makes no column of it longer than it makes the state itself:
so its length is carried along for each column, and what the roundings of a token add to it. Where a kernel makes the gates, too,
what they are off by is part of that.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from build_tools.cases.near import Near, Values, near

_ROUNDING = 2.0**-24
#: Roundings of a product of rows: at most 32 terms in a lane, by twos, and the sum over eight lanes.
_SUM = 24 * _ROUNDING
_LOST = 2.0**-120


class _Gates(NamedTuple):
    """Logarithms of decays and factors, [batch, tokens, value heads], and how far each is off."""

    g: Values
    g_off: Values
    beta: Values
    beta_off: Values


class _Head(NamedTuple):
    """A state h [K, V] behind a token, the length of each column's error, the token's result and its error."""

    h: Values
    off: Values
    out: Values
    wrong: Values


def _normed(x: Values) -> Values:
    normed: Values = x / np.sqrt((x * x).sum(axis=-1, keepdims=True) + 1e-6)
    return normed


def _length(x: Values) -> Values:
    found: Values = np.sqrt((x * x).sum(axis=0))
    return found


def _token(q: Values, k: Values, v: Values, gates: tuple[float, float, float, float], past: _Head) -> _Head:
    """One token, behind ``past``; q has its scale."""
    g, g_off, beta, beta_off = gates
    decay, of_decay = np.exp(g), (4 + 3 * abs(g)) * _ROUNDING + np.expm1(g_off)
    sums = np.abs(k) @ np.abs(past.h) * decay
    left = v - decay * (k @ past.h)
    u = beta * left
    u_off = abs(beta) * (
        sums * (2 * _SUM + of_decay) + 4 * _ROUNDING * (np.abs(v) + sums)
    ) + beta_off * np.abs(left)
    h = decay * past.h + np.outer(k, u)
    grown = decay * max(1.0, abs(1 - beta * (k @ k))) * past.off
    of_k, of_q = np.sqrt(k @ k), np.sqrt(q @ q)
    wrong = (
        of_q * grown
        + np.abs(q) @ np.abs(past.h) * decay * (2 * _SUM + of_decay)
        + np.abs(q) @ np.abs(k) * (np.abs(u) * 3 * _SUM + u_off)
    )
    off = grown + decay * _length(past.h) * (of_decay + 2 * _ROUNDING) + of_k * (u_off + np.abs(u) * 2 * _SUM)
    return _Head(h, off, q @ h, wrong)


def _steps(
    q: Values, k: Values, v: Values, gates: _Gates, scale: float | None, pool: Values, slots: Values,
    accepted: Values | None, cu_seqlens: Values | None, norm: bool, turned: bool, dropped: bool,
) -> tuple[Near, Near]:  # fmt: skip
    """(The pool, out). ``slots`` [sequences, places]; ``turned``: states are [V, K]; ``dropped``: a sequence without a slot has
    results, too.
    """
    batch, tokens, heads, depth = q.shape
    value_heads, width = v.shape[2:]
    if norm:
        q, k = _normed(q), _normed(k)
    q = q * (depth**-0.5 if scale is None else float(np.float32(scale)))
    parts = [(b, 0, tokens) for b in range(batch)]
    if cu_seqlens is not None:
        parts = [(0, int(a), int(b)) for a, b in itertools.pairwise(cu_seqlens)]
    kept = np.ma.array(pool.copy(), mask=np.ones(pool.shape, bool))
    kept_off = np.zeros(pool.shape)
    out, wrong = np.ma.array(np.zeros(v.shape), mask=np.ones(v.shape, bool)), np.zeros(v.shape)
    last = slots.shape[1] - 1
    for n, (b, begin, end) in enumerate(parts):
        start = 0 if accepted is None else min(max(int(accepted[n]) - 1, 0), last)
        slot = int(slots[n, start])
        there = 0 <= slot < len(pool)
        if begin == end or not (there or dropped):
            continue
        for head in range(value_heads):
            first = pool[slot, head] if there else np.zeros(pool.shape[2:])
            now = _Head(first.T if turned else first, np.zeros(width), np.zeros(width), np.zeros(width))
            for t in range(begin, end):
                group, gate = head // (value_heads // heads), (b, t, head)
                asked = tuple(float(each[gate]) for each in gates)
                now = _token(
                    q[b, t, group], k[b, t, group], v[gate], (asked[0], asked[1], asked[2], asked[3]), now
                )
                out[gate], wrong[gate] = now.out, now.wrong
                into = int(slots[n, min(t - begin, last)])
                if (t - begin < last or t + 1 == end) and 0 <= into < len(pool):
                    off = np.broadcast_to(now.off, now.h.shape)
                    kept[into, head], kept_off[into, head] = (now.h.T, off.T) if turned else (now.h, off)
    safe = [np.where(np.isfinite(each), each, 0.0) for each in (kept_off, wrong)]
    return near(kept, absolute=safe[0] + _LOST), near(out, absolute=safe[1] + _LOST)


def fused_recurrent_gated_delta_rule_update(
    q: Values,
    k: Values,
    v: Values,
    g: Values,
    beta: Values | None,
    scale: float | None,
    initial_state: Values,
    cu_seqlens: Values | None,
    ssm_state_indices: Values,
    num_accepted_tokens: Values | None,
    use_qk_l2norm_in_kernel: bool,
    state_layout: str,
) -> dict[str, Near]:
    """q, k [batch, tokens, heads, K], v [batch, tokens, value heads, V]; gates are given."""
    shape = v.shape[:3]
    given = np.ones(shape) if beta is None else beta.reshape(shape)
    gates = _Gates(g.reshape(shape), np.zeros(shape), given, np.zeros(shape))
    norm, turned = use_qk_l2norm_in_kernel, state_layout == "hvk"
    where = (initial_state, ssm_state_indices, num_accepted_tokens, cu_seqlens)
    pool, out = _steps(q, k, v, gates, scale, *where, norm=norm, turned=turned, dropped=False)
    return {"initial_state": pool, "out": out}


def fused_sigmoid_gating_delta_rule_update(
    A_log: Values,  # the name is AITER's
    a: Values,
    dt_bias: Values,
    softplus_beta: float,
    softplus_threshold: float,
    q: Values,
    k: Values,
    v: Values,
    b: Values,
    initial_state_source: Values,
    initial_state_indices: Values,
    scale: float | None,
    use_qk_l2norm_in_kernel: bool,
    cu_seqlens: Values | None,
    state_layout: str,
) -> dict[str, Near]:
    """The gates are made of a and b. Where the product with softplus_beta may round to the other side of the threshold, either
    form of softplus is right.
    """
    shape = v.shape[:3]
    a, b = a.reshape(shape), b.reshape(shape)
    slope, threshold = (float(np.float32(each)) for each in (softplus_beta, softplus_threshold))
    x = a + dt_bias
    curve = np.log1p(np.exp(slope * x)) / slope
    g = -np.exp(A_log) * np.where(slope * x <= threshold, curve, x)
    size = np.abs(a) + np.abs(dt_bias)
    g_off = np.exp(A_log) * 8 * _ROUNDING * (size + (1 + slope * size) / slope)
    g_off += np.abs(g) * _ROUNDING * (12 + 3 * np.abs(A_log))
    either = np.abs(slope * x - threshold) <= 8 * _ROUNDING * (slope * size + threshold)
    g_off += np.where(either, np.exp(A_log) * np.abs(curve - x), 0.0)
    beta = 1 / (1 + np.exp(-b))
    gates = _Gates(g, g_off, beta, beta * _ROUNDING * (8 + 3 * np.abs(b)))
    norm, turned = use_qk_l2norm_in_kernel, state_layout == "hvk"
    where = (initial_state_source, initial_state_indices[:, None], None, cu_seqlens)
    pool, out = _steps(q, k, v, gates, scale, *where, norm=norm, turned=turned, dropped=True)
    return {"initial_state_source": pool, "out": out}


def draw_unit(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Rows of about the length 1."""
    del sizes
    rows: Values = rng.standard_normal(shape) * shape[-1] ** -0.5
    return rows


def draw_decays(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Logarithms of decays: mostly near 0, every seventh 0, some that leave nothing."""
    del sizes
    found = -rng.exponential(0.3, shape)
    flat = found.reshape(-1)
    flat[::7] = 0.0
    flat[5::31] = -200.0
    return found


def draw_starts(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Where sequences begin: their lengths are 1, 2, 0, 3, ..., and what is left, less one row of none."""
    del rng
    count = shape[0] - 1
    lengths = [(1, 2, 0, 3)[place % 4] for place in range(count - 1)]
    lengths = [*lengths, max(sizes["L"] - 1 - sum(lengths), 0)] if count > 0 else []
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def draw_slots(
    rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int], missing: float = 0
) -> Values:
    """A slot of its own for each place; of each ``missing`` places the last has -1, or one behind the last slot."""
    count = int(np.prod(shape))
    slots = rng.permutation(max(sizes["S"], count))[:count]
    if missing:
        slots[int(missing) - 1 :: int(missing)] = -1
        slots[2 * int(missing) - 1 :: 2 * int(missing)] = sizes["S"]
    return slots.reshape(shape)


def draw_not_a_number(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Normal, with NaN at one place of the second token of each head."""
    del sizes
    found = rng.standard_normal(shape)
    found[:, 1, :, 1] = np.nan
    return found
