"""The gated delta rule, token by token, and how far a kernel in fp32 may be from it.

An error of the state goes through exp(g) * (I - beta * k k^T), which makes no column of it longer than it makes the state itself:
so its length is carried along for each column, and what the roundings of a token add to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from build_tools.cases.near import Near, Values, near

_ROUNDING = 2.0**-24
#: Roundings of a product of rows: at most 32 terms in a lane, by twos, and the sum over eight lanes.
_SUM = 24 * _ROUNDING
_LOST = 2.0**-120


def _normed(x: Values) -> Values:
    normed: Values = x / np.sqrt((x * x).sum(axis=-1, keepdims=True) + 1e-6)
    return normed


def _length(x: Values) -> Values:
    found: Values = np.sqrt((x * x).sum(axis=0))
    return found


def _head(
    q: Values, k: Values, v: Values, g: Values, beta: Values, h: Values
) -> tuple[Values, Values, Values, Values]:
    """(out, its errors, the last state, its errors) of one head: q, k [tokens, K], v [tokens, V], h [K, V]; q has its scale."""
    out, wrong = np.zeros(v.shape), np.zeros(v.shape)
    off = np.zeros(v.shape[1])  # the length of each column's error
    for t in range(len(v)):
        decay, past = np.exp(g[t]), h
        of_decay = (4 + 3 * abs(g[t])) * _ROUNDING
        sums = np.abs(k[t]) @ np.abs(past) * decay
        u = beta[t] * (v[t] - decay * (k[t] @ past))
        u_off = abs(beta[t]) * (sums * (2 * _SUM + of_decay) + 4 * _ROUNDING * (np.abs(v[t]) + sums))
        h = decay * past + np.outer(k[t], u)
        out[t] = q[t] @ h
        grown = decay * max(1.0, abs(1 - beta[t] * (k[t] @ k[t]))) * off
        of_k, of_q = np.sqrt(k[t] @ k[t]), np.sqrt(q[t] @ q[t])
        along = np.abs(q[t]) @ np.abs(k[t])
        wrong[t] = (
            of_q * grown
            + np.abs(q[t]) @ np.abs(past) * decay * (2 * _SUM + of_decay)
            + along * (np.abs(u) * 3 * _SUM + u_off)
        )
        off = (
            grown + decay * _length(past) * (of_decay + 2 * _ROUNDING) + of_k * (u_off + np.abs(u) * 2 * _SUM)
        )
    return out, wrong, h, np.broadcast_to(off, h.shape)


def _rule(
    q: Values, k: Values, v: Values, g: Values | None, beta: Values, scale: float | None,
    initial_state: Values | None, use_qk_l2norm_in_kernel: bool, cu_seqlens: Values | None,
) -> tuple[Near, Near]:  # fmt: skip
    """(out, the last states): a sequence for each of the batch, or those that ``cu_seqlens`` cuts the only one into."""
    batch, tokens, heads, depth = q.shape
    value_heads, width = v.shape[2:]
    if use_qk_l2norm_in_kernel:
        q, k = _normed(q), _normed(k)
    q = q * (depth**-0.5 if scale is None else float(np.float32(scale)))
    places = [(b, slice(0, tokens)) for b in range(batch)]
    if cu_seqlens is not None:
        places = [(0, slice(int(a), int(b))) for a, b in itertools.pairwise(cu_seqlens)]
    out = np.ma.array(np.zeros(v.shape), mask=np.ones(v.shape, bool))
    wrong = np.zeros(v.shape)
    last = np.zeros((len(places), value_heads, depth, width))
    off = np.zeros(last.shape)
    for n, (b, own) in enumerate(places):
        for head in range(value_heads):
            group, gate = head // (value_heads // heads), (b, own, head)
            start = last[n, head] if initial_state is None else initial_state[n, head]
            decays = np.zeros(out[gate].shape[0]) if g is None else g[gate]
            found = _head(q[b, own, group], k[b, own, group], v[gate], decays, beta[gate], start)
            out[gate], wrong[gate], last[n, head], off[n, head] = found
    safe = [np.where(np.isfinite(each), each, 0.0) for each in (wrong, off)]
    return near(out, absolute=safe[0] + _LOST), near(last, absolute=safe[1] + _LOST)


def _token_of_vectors(
    qk: tuple[Values, Values], v: Values, decays: Values, beta: float, h: Values, off: Values
) -> tuple[Values, Values, Values, Values]:
    """(out, its errors, the state, the length of each column's error) of one token: ``decays`` are logarithms, of each number of
    the state three that are added.
    """
    q, k = qk
    decay = np.exp(decays.sum(axis=0))
    of_decay = (12 + 3 * np.abs(decays).sum(axis=0)) * _ROUNDING
    kept = decay * h
    sums, lost = np.abs(k) @ np.abs(kept), np.abs(k) @ (np.abs(kept) * of_decay)
    u = beta * (v - k @ kept)
    u_off = abs(beta) * (sums * 2 * _SUM + lost + 4 * _ROUNDING * (np.abs(v) + sums))
    found = kept + np.outer(k, u)
    grown = decay.max(axis=0) * max(1.0, abs(1 - beta * (k @ k))) * off
    of_q = np.sqrt(q @ q)
    along = np.abs(q) @ np.abs(k)
    wrong = (
        of_q * grown
        + np.abs(q) @ (np.abs(kept) * (2 * _SUM + of_decay))
        + along * (np.abs(u) * 3 * _SUM + u_off)
    )
    more = _length(kept * (of_decay + 2 * _ROUNDING)) + np.sqrt(k @ k) * (u_off + np.abs(u) * 2 * _SUM)
    return q @ found, wrong, found, grown + more


def _rule_of_vectors(
    q: Values, k: Values, v: Values, gates: tuple[Values | None, Values | None, Values | None], beta: Values,
    initial_state: Values | None, cu_seqlens: Values | None,
) -> tuple[Near, Near]:  # fmt: skip
    """:func:`_rule` with decays of heads, rows and columns; q has its scale, and both are normed."""
    batch, tokens, heads, depth = q.shape
    value_heads, width = v.shape[2:]
    shape = (batch, tokens, value_heads, depth, width)
    g, gk, gv = (np.zeros(1) if each is None else each for each in gates)
    lifted = (
        g.reshape(*g.shape, 1, 1) if g.ndim > 1 else g,
        gk[..., None] if gk.ndim > 1 else gk,
        gv[..., None, :] if gv.ndim > 1 else gv,
    )
    decays = np.stack([np.broadcast_to(each, shape) for each in lifted])
    places = [(b, range(tokens)) for b in range(batch)]
    if cu_seqlens is not None:
        places = [(0, range(int(a), int(b))) for a, b in itertools.pairwise(cu_seqlens)]
    out = np.ma.array(np.zeros(v.shape), mask=np.ones(v.shape, bool))
    wrong = np.zeros(v.shape)
    last = np.zeros((len(places), value_heads, depth, width))
    off = np.zeros(last.shape)
    for n, (b, own) in enumerate(places):
        for head in range(value_heads):
            group, column = head // (value_heads // heads), np.zeros(width)
            h = last[n, head] if initial_state is None else initial_state[n, head]
            for t in own:
                at = (b, t, head)
                rows = (q[b, t, group], k[b, t, group])
                out[at], wrong[at], h, column = _token_of_vectors(
                    rows, v[at], decays[:, b, t, head], float(beta[at]), h, column
                )
            last[n, head], off[n, head] = h, np.broadcast_to(column, h.shape)
    safe = [np.where(np.isfinite(each), each, 0.0) for each in (wrong, off)]
    return near(out, absolute=safe[0] + _LOST), near(last, absolute=safe[1] + _LOST)


def fused_recurrent_gated_delta_rule(
    q: Values,
    k: Values,
    v: Values,
    g: Values | None,
    gk: Values | None,
    gv: Values | None,
    beta: Values | None,
    scale: float | None,
    initial_state: Values | None,
    output_final_state: bool,
    use_qk_l2norm_in_kernel: bool,
    cu_seqlens: Values | None,
) -> dict[str, Near | None]:
    """q, k [batch, tokens, heads, K], v [batch, tokens, value heads, V], states [sequences, value heads, K, V]."""
    norm = use_qk_l2norm_in_kernel
    each = np.ones(v.shape[:3]) if beta is None else beta
    if gk is None and gv is None:
        out, last = _rule(q, k, v, g, each, scale, initial_state, norm, cu_seqlens)
    else:
        if norm:
            q, k = _normed(q), _normed(k)
        q = q * (q.shape[-1] ** -0.5 if scale is None else float(np.float32(scale)))
        out, last = _rule_of_vectors(q, k, v, (g, gk, gv), each, initial_state, cu_seqlens)
    return {"out": out, "final_state": last if output_final_state else None}


def chunk_gated_delta_rule(
    q: Values,
    k: Values,
    v: Values,
    g: Values,
    beta: Values,
    scale: float | None,
    initial_state: Values | None,
    output_final_state: bool,
    use_qk_l2norm_in_kernel: bool,
    cu_seqlens: Values | None,
) -> dict[str, Near | None]:
    """As :func:`fused_recurrent_gated_delta_rule`."""
    norm = use_qk_l2norm_in_kernel
    out, last = _rule(q, k, v, g, beta, scale, initial_state, norm, cu_seqlens)
    return {"out": out, "final_state": last if output_final_state else None}


def fused_gdn_gating_and_sigmoid(
    A_log: Values,  # the name is AITER's
    a: Values,
    b: Values,
    dt_bias: Values,
    softplus_beta: float,
    softplus_threshold: float,
) -> tuple[Near, Near]:
    """(The logarithm of the decay, the sigmoid of b). Above the threshold softplus is its argument.

    Exponentials see an argument that is off by a rounding for each unit of it. Where the product with softplus_beta may round to
    the other side of the threshold, either form is right.
    """
    slope, threshold = (float(np.float32(each)) for each in (softplus_beta, softplus_threshold))
    x = a + dt_bias
    curve = np.log1p(np.exp(slope * x)) / slope
    soft = np.where(slope * x <= threshold, curve, x)
    exact = -np.exp(A_log) * soft
    size = np.where(np.isfinite(x), np.abs(a) + np.abs(dt_bias), 0.0)
    tail = np.where(np.isfinite(A_log), np.abs(A_log), 0.0)
    wrong = np.exp(A_log) * 8 * _ROUNDING * (size + (1 + slope * size) / slope)
    either = np.abs(slope * x - threshold) <= 8 * _ROUNDING * (slope * size + threshold)
    wrong += np.where(either, np.exp(A_log) * np.abs(curve - x), 0.0)
    gates = near(
        exact,
        relative=_ROUNDING * (12 + 3 * tail),
        absolute=np.where(np.isfinite(wrong), wrong, 0.0) + _LOST,
    )
    sigmoid = 1 / (1 + np.exp(-b))
    steep = np.where(np.isfinite(b), np.abs(b), 0.0)
    return gates, near(sigmoid, relative=_ROUNDING * (8 + 3 * steep), absolute=_LOST)


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
    """Where sequences begin: their lengths are 2, 0, 1, 5, 3, ..., and what is left, less one row of none."""
    del rng
    count = shape[0] - 1
    lengths = [(2, 0, 1, 5, 3)[place % 5] for place in range(count - 1)]
    lengths = [*lengths, max(sizes["L"] - 1 - sum(lengths), 0)] if count > 0 else []
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def draw_not_a_number(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Values:
    """Normal, with NaN at one place of the fourth token of each head."""
    del sizes
    found = rng.standard_normal(shape)
    found[:, 3, :, 1] = np.nan
    return found
