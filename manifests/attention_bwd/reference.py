"""Attention, backward."""

from __future__ import annotations

import itertools

import numpy as np

from build_tools.cases.attention_backward import (
    ROUNDING,
    UNIT,
    draw_key_starts,
    draw_query_starts,
    draw_sums,
    gradients,
    heads,
    hidden,
    sink_slopes,
)
from build_tools.cases.near import Near, Values, near

__all__ = ["draw_key_starts", "draw_query_starts", "draw_sums", "mha_bwd", "mha_varlen_bwd"]


def _window(queries: int, keys: int, is_causal: bool, left: int, right: int) -> tuple[int, int]:
    everything = right >= max(keys, queries - 1)
    return -1 if left >= keys else left, 0 if is_causal else -1 if everything else right


def _floor(kind: str) -> float:
    """What P and dS may lose more, where they are smaller than the type's normal numbers, times inputs of some size."""
    return 2.0**-22 if kind == "f16" else 2.0**-100


def mha_bwd(
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
    sink: Values | None,
    d_sink: Values | None,
    kinds: dict[str, str],
) -> dict[str, Near | None]:
    """Gradients of softmax(q @ k^T * softmax_scale) @ v for each head, from its result and the log-sum-exp of its scores.

    q, dq [b, sq, hq, d], k, dk [b, sk, hk, d], v, dv [b, sk, hk, dv], out, dout [b, sq, hq, dv], hq a multiple of hk.
    softmax_d is rowsum(out * dout), [b, hq, sq]. d_sink [hq] grows by -sum exp(sink - softmax_lse) * softmax_d.

    Limit: a kernel multiplies what a query does not see by 0, in some tiles: an infinity or NaN may make NaN of what does not
    depend on it.
    """
    left, right = _window(q.shape[1], k.shape[1], is_causal, window_size_left, window_size_right)
    unseen = hidden(q.shape[1], k.shape[1], left, right)
    kind = kinds["q"]
    found = gradients(
        heads(q, k, v, out, dout, softmax_lse), softmax_scale, unseen, q.shape[2] // k.shape[2], UNIT[kind]
    )
    delta = near(found.delta[0], absolute=found.delta[1] + 2.0**-125)
    grown = None
    if sink is not None and d_sink is not None:
        slopes, off = sink_slopes(sink, softmax_lse, *found.delta)
        grown = near(d_sink + slopes, absolute=off + ROUNDING * (np.abs(d_sink) + np.abs(slopes)))
    return {
        "dq": near(found.dq[0], absolute=found.dq[1] + _floor(kind)),
        "dk": near(found.dk[0], absolute=found.dk[1] + _floor(kind)),
        "dv": near(found.dv[0], absolute=found.dv[1] + _floor(kind)),
        "softmax_d": delta,
        "d_sink": grown,
    }


def mha_varlen_bwd(
    dout: Values,
    q: Values,
    k: Values,
    v: Values,
    out: Values,
    softmax_lse: Values,
    cu_seqlens_q: Values,
    cu_seqlens_k: Values,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    sink: Values | None,
    d_sink: Values | None,
    kinds: dict[str, str],
) -> dict[str, Near | None]:
    """:func:`mha_bwd` of each sequence: its queries are the rows from cu_seqlens_q[i] to cu_seqlens_q[i + 1] of q.

    q [sq, hq, d], k [sk, hk, d]; softmax_lse and softmax_d are [hq, sq], sink [sequences, hq]. What meets nothing has a gradient
    of 0. A window is of all keys where it is of max_seqlen_k.
    """
    left, right = _window(max_seqlen_q, max_seqlen_k, is_causal, window_size_left, window_size_right)
    made = {
        name: (np.zeros(like.shape), np.zeros(like.shape)) for name, like in (("dq", q), ("dk", k), ("dv", v))
    }
    delta = (out * dout).sum(axis=-1).T
    products = (np.abs(out) * np.abs(dout)).sum(axis=-1).T
    off_delta = ROUNDING * (out.shape[-1] / 2 + 16) * np.where(np.isfinite(products), products, 0.0)
    grown = None if d_sink is None or sink is None else (np.array(d_sink), np.zeros(d_sink.shape))
    kind = kinds["q"]
    spans = (list(itertools.pairwise(edges.tolist())) for edges in (cu_seqlens_q, cu_seqlens_k))
    for place, ((first, last), (begin, end)) in enumerate(zip(*spans, strict=True)):
        rows, keys = slice(first, last), slice(begin, end)
        if grown is not None and sink is not None and last > first:
            parts = (softmax_lse[None, :, rows], delta[None, :, rows], off_delta[None, :, rows])
            slopes, off = sink_slopes(sink[place][None], *parts)
            grown = (grown[0] + slopes, grown[1] + off + ROUNDING * (np.abs(grown[0]) + np.abs(slopes)))
        if last <= first or end <= begin:
            continue
        unseen = hidden(last - first, end - begin, left, right)
        inputs = (q[None, rows], k[None, keys], v[None, keys], out[None, rows], dout[None, rows])
        found = gradients(
            heads(*inputs, softmax_lse[None, :, rows]),
            softmax_scale,
            unseen,
            q.shape[1] // k.shape[1],
            UNIT[kind],
        )
        for name, part, (exact, off) in (
            ("dq", rows, found.dq),
            ("dk", keys, found.dk),
            ("dv", keys, found.dv),
        ):
            made[name][0][part], made[name][1][part] = exact[0], off[0]
    gone = {name: near(values, absolute=error + _floor(kind)) for name, (values, error) in made.items()}
    return {
        **gone,
        "softmax_d": near(delta, absolute=off_delta + 2.0**-125),
        "d_sink": None if grown is None else near(grown[0], absolute=grown[1]),
    }
