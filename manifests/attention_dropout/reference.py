"""Attention with dropout."""

from __future__ import annotations

import itertools

import numpy as np

from build_tools.cases.attention import NEAREST, Scores, batched, draw_key_starts, draw_query_starts
from build_tools.cases.attention_backward import ROUNDING, UNIT, draw_sums, heads, hidden, sink_slopes
from build_tools.cases.attention_dropout import attend_dropped, draw_states, gradients_dropped, state_of
from build_tools.cases.near import Near, Values, near

__all__ = [
    "attention_dropout_bwd",
    "attention_dropout_fwd",
    "draw_key_starts",
    "draw_query_starts",
    "draw_states",
    "draw_sums",
]


def attention_dropout_fwd(
    q: Values,
    k: Values,
    v: Values,
    rng_state: Values,
    dropout_p: float,
    keep: int,
    softmax_scale: float,
    left: int,
    right: int,
    first: int,
    logits_soft_cap: float,
    cu_seqlens_q: Values | None,
    cu_seqlens_k: Values | None,
    max_seqlen_q: int,
    skip: int,
    sink_ptr: Values | None,
    kinds: dict[str, str],
    sizes: dict[str, int],
) -> dict[str, Near | Values | None]:
    """:func:`attend` of each batch, of whose probabilities some are 0 and the others divided by 1 - dropout_p.

    q [b, sq, hq, d], k [b, sk, hk, d], v [b, sk, hk, dv], hq a multiple of hk. With cu_seqlens_q and cu_seqlens_k b is 1, and a
    sequence has the rows from cu_seqlens_q[i] to cu_seqlens_q[i + 1]; those behind its first max_seqlen_q stay as they were. A
    probability is kept whose byte (:class:`Dropout`) is at most keep; lse is that of all scores.
    """
    dropout = state_of(rng_state, keep, dropout_p)
    how = Scores(softmax_scale, left, right, logits_soft_cap, first)
    heads, columns = q.shape[2], sizes["SR"] if "bytes" in kinds else 0
    numbers = np.ma.masked_all((q.shape[0], heads, q.shape[1], columns), np.int64)
    found = {}
    for number, place, (begin, end), (start, stop) in _sequences(q, k, cu_seqlens_q, cu_seqlens_k):
        count = end - begin if cu_seqlens_q is None else max(min(end - begin, max_seqlen_q), 0)
        drawn = dropout.numbers(number, heads, end - begin, columns)
        numbers[place, :, begin : begin + count] = drawn[:, :count]
        if cu_seqlens_q is not None and end - begin <= skip:
            continue
        keys = stop - start
        factors = dropout.kept(number, heads, end - begin, keys)
        rows = (q[place, begin:end], k[place, start:stop], v[place, start:stop])
        part = attend_dropped(*rows, how, sink_ptr, NEAREST[kinds["v"]], factors)
        found[place, begin, begin + count] = part
    out, sums = batched(found, (*q.shape[:3], v.shape[3]))
    return {
        "out": out,
        "lse": sums if "lse" in kinds else None,
        "bytes": numbers if "bytes" in kinds else None,
    }


def attention_dropout_bwd(
    dout: Values,
    q: Values,
    k: Values,
    v: Values,
    out: Values,
    softmax_lse: Values,
    rng_state: Values,
    dropout_p: float,
    keep: int,
    softmax_scale: float,
    window_size_left: int,
    window_size_right: int,
    cu_seqlens_q: Values | None,
    cu_seqlens_k: Values | None,
    max_seqlen_q: int,
    max_seqlen_k: int,
    sink: Values | None,
    d_sink: Values | None,
    kinds: dict[str, str],
) -> dict[str, Near | None]:
    """Gradients of :func:`attention_dropout_fwd` from its result and the log-sum-exp of its scores.

    softmax_d is rowsum(out * dout), [b, hq, sq]. d_sink [hq] grows by -sum exp(sink - softmax_lse) * softmax_d. What meets
    nothing has a gradient of 0; rows of no sequence stay as they were. No sequence has more than max_seqlen_q queries or
    max_seqlen_k keys.
    """
    del max_seqlen_q, max_seqlen_k
    dropout, unit = state_of(rng_state, keep, dropout_p), UNIT[kinds["q"]]
    # What P and dS may lose more, where they are smaller than the type's normal numbers, times inputs of some size.
    floor = 2.0**-22 if kinds["q"] == "f16" else 2.0**-100
    made = {name: (np.ma.masked_all(like.shape), np.zeros(like.shape)) for name, like in _gradients(q, k, v)}
    delta = (out * dout).sum(axis=-1).transpose(0, 2, 1)
    sizes = (np.abs(out) * np.abs(dout)).sum(axis=-1).transpose(0, 2, 1)
    off_delta = ROUNDING * (out.shape[-1] / 2 + 16) * np.where(np.isfinite(sizes), sizes, 0.0)
    grown = None if d_sink is None else (np.array(d_sink), np.zeros(d_sink.shape))
    for number, place, (begin, end), (start, stop) in _sequences(q, k, cu_seqlens_q, cu_seqlens_k):
        one, rows, keys = slice(place, place + 1), slice(begin, end), slice(start, stop)
        if grown is not None and sink is not None and end > begin:
            sums = (each[one, :, rows] for each in (softmax_lse, delta, off_delta))
            slopes, off = sink_slopes(sink[number][None], *sums)
            grown = (grown[0] + slopes, grown[1] + off + ROUNDING * (np.abs(grown[0]) + np.abs(slopes)))
        inputs = (q[one, rows], k[one, keys], v[one, keys], out[one, rows], dout[one, rows])
        unseen = hidden(end - begin, stop - start, max(window_size_left, -1), max(window_size_right, -1))
        factors = dropout.kept(number, q.shape[2], end - begin, stop - start)[None]
        found = gradients_dropped(
            heads(*inputs, softmax_lse[one, :, rows]),
            softmax_scale,
            unseen,
            q.shape[2] // k.shape[2],
            unit,
            factors,
        )
        for name, part, (exact, lost) in (
            ("dq", rows, found.dq),
            ("dk", keys, found.dk),
            ("dv", keys, found.dv),
        ):
            made[name][0][one, part], made[name][1][one, part] = exact, lost
    gone = {name: near(values, absolute=error + floor) for name, (values, error) in made.items()}
    return {
        **gone,
        "softmax_d": near(delta, absolute=off_delta + 2.0**-125),
        "d_sink": None if grown is None else near(grown[0], absolute=grown[1]),
    }


def _gradients(q: Values, k: Values, v: Values) -> tuple[tuple[str, Values], ...]:
    return (("dq", q), ("dk", k), ("dv", v))


def _sequences(
    q: Values, k: Values, starts_q: Values | None, starts_k: Values | None
) -> list[tuple[int, int, tuple[int, int], tuple[int, int]]]:
    """List number, batch, rows of queries and rows of keys of each batch or sequence."""
    if starts_q is None or starts_k is None:
        return [(place, place, (0, q.shape[1]), (0, k.shape[1])) for place in range(q.shape[0])]
    spans = zip(itertools.pairwise(starts_q.tolist()), itertools.pairwise(starts_k.tolist()), strict=True)
    return [(number, 0, rows, keys) for number, (rows, keys) in enumerate(spans)]
