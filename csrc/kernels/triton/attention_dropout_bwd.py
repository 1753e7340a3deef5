"""Attention with dropout, backward; dense, or sequences of different lengths one behind the other.

    P[i, j]  = exp(S[i, j] - lse[i])                                    0 where query i does not see key j
    D[i, j]  = keeps(i, j) / (1 - p), the mask of the forward pass (attention_dropout.py), made again from its state
    dS[i, j] = P[i, j] * (D[i, j] * dout[i, h] . v[j, h / (HQ / HK)] - delta[i])
    dv[j]    = sum_i P[i, j] * D[i, j] * dout[i]        dk[j] = softmax_scale * sum_i dS[i, j] * q[i]   over heads that share j
    dq[i]    = softmax_scale * sum_j dS[i, j] * k[j]

delta is that of attention_bwd.py, whose kernels for it and for the gradient of sinks are launched before these:
  `dropout_bwd_dkdv_kernel`  dk and dv, a workgroup a tile of BN_K keys, by BM_K queries: grid cdiv(most, BN_K) * HK * batches
  `dropout_bwd_dq_kernel`    dq, a workgroup a tile of BM_Q queries, by BN_Q keys: grid cdiv(most, BM_Q) * HQ * batches
No atomics and no workspace: each gradient is added up in one order. attention_bwd.py and attention_dropout.py say what an
argument is, the former what a query sees. All sums are fp32; P and dS are rounded to T before the next product, dq, dk and dv
once. The sum of dv is multiplied with 1 / (1 - p) at its end.

constexprs  HEAD (padded D), VHEAD (padded DV), tiles (multiples of 32), AWAY, XCDS, EVEN as in attention_bwd.py

guarantee   0 <= strides of rows <= STRIDE_LIMIT; lengths, left and right stay below 2^30
"""

import triton
import triton.language as tl
from attention import STRIDE_LIMIT, _renumber
from attention_bwd import _between, _bounds, _origin, _ranges, _rounded, _span, _store, _tile
from attention_dropout import _bytes, _counter
from attention_ragged import LOG2E


@triton.jit
def dropout_bwd_dkdv_kernel(
    dk,
    dv,
    q,
    k,
    v,
    dout,
    lse,
    delta,
    state,
    starts_q,
    starts_k,
    batches,
    HQ,
    HK,
    SQ,
    SK,
    D,
    DV,
    most,
    ragged,
    left,
    right,
    keep,
    rows_b,
    dk_stride_b,
    dk_stride_s,
    dk_stride_h,
    dv_stride_b,
    dv_stride_s,
    dv_stride_h,
    q_stride_b,
    q_stride_s,
    q_stride_h,
    k_stride_b,
    k_stride_s,
    k_stride_h,
    v_stride_b,
    v_stride_s,
    v_stride_h,
    dout_stride_b,
    dout_stride_s,
    dout_stride_h,
    softmax_scale,
    share,
    HEAD: tl.constexpr,
    VHEAD: tl.constexpr,
    BM_K: tl.constexpr,
    BN_K: tl.constexpr,
    AWAY: tl.constexpr,
    XCDS: tl.constexpr,
    EVEN: tl.constexpr,
):
    tiles = tl.cdiv(most, BN_K)
    pid = _renumber(tl.program_id(0), tiles * HK * batches, XCDS)
    n0 = pid % tiles * BN_K
    head_k = pid // tiles % HK
    batch = pid // tiles // HK
    first_q, queries = _span(starts_q, batch, SQ, ragged)
    first_k, keys = _span(starts_k, batch, SK, ragged)
    if n0 >= keys:
        return
    tl.assume(q_stride_s >= 0)
    tl.assume(k_stride_s >= 0)
    tl.assume(v_stride_s >= 0)
    tl.assume(dout_stride_s >= 0)
    tl.assume(q_stride_s <= STRIDE_LIMIT)
    tl.assume(k_stride_s <= STRIDE_LIMIT)
    tl.assume(v_stride_s <= STRIDE_LIMIT)
    tl.assume(dout_stride_s <= STRIDE_LIMIT)
    rn = tl.arange(0, BN_K)
    inside = rn < keys - n0
    # A key behind the last repeats it, and its sums are not stored.
    tl.assume(keys - n0 - 1 >= 0)
    near_k = tl.minimum(rn, keys - n0 - 1)
    k = _origin(k, batch, k_stride_b, first_k + n0, k_stride_s, head_k, k_stride_h, EVEN)
    v = _origin(v, batch, v_stride_b, first_k + n0, v_stride_s, head_k, v_stride_h, EVEN)
    kt = _tile(k, near_k, k_stride_s, inside, D, 0, HEAD, False, EVEN)
    vt = _tile(v, near_k, v_stride_s, inside, DV, 0, VHEAD, False, EVEN)

    # Key j is seen by queries j - ahead - right to j - ahead + left.
    ahead = keys - queries
    far, near = _bounds(left, right)
    low = tl.maximum(rn + (n0 - ahead - near), 0)
    count = tl.maximum(tl.minimum(rn + (n0 - ahead + far), queries - 1) - low + 1, 0)
    last = tl.minimum(n0 + BN_K, keys) - 1
    begin, _, _, end = _ranges(n0, last, -ahead, near, far, queries, BM_K)
    scale = softmax_scale * LOG2E
    dk_t = tl.zeros([BN_K, HEAD], tl.float32)
    dv_t = tl.zeros([BN_K, VHEAD], tl.float32)
    rm = tl.arange(0, BM_K)
    group = HQ // HK
    for head in range(head_k * group, head_k * group + group):
        qp = _origin(q, batch, q_stride_b, first_q, q_stride_s, head, q_stride_h, EVEN)
        dp = _origin(dout, batch, dout_stride_b, first_q, dout_stride_s, head, dout_stride_h, EVEN)
        base = batch.to(tl.int64) * rows_b + head.to(tl.int64) * SQ + first_q
        seed_low, seed_high, count_low, count_high = _counter(state, batch, head, HQ)
        for start in range(begin, end, BM_K):
            # No key is seen from behind the last query, whatever its sum.
            tl.assume(queries - start - 1 >= 0)
            valid = rm < queries - start
            close = tl.minimum(rm, queries - start - 1)
            qt = _tile(qp + start.to(tl.int64) * q_stride_s, rm, q_stride_s, valid, D, 0, HEAD, True, EVEN)
            dt = _tile(
                dp + start.to(tl.int64) * dout_stride_s, rm, dout_stride_s, valid, DV, 0, VHEAD, True, EVEN
            )
            row = tl.load(lse + base + start + close)
            less = tl.load(delta + base + start + close)
            # Scores lie with keys as rows: P and dS are the first operand of the next product as they are.
            s = tl.dot(kt, tl.trans(qt))
            p = tl.math.exp2(s * scale - (row * LOG2E)[None, :])
            seen = _between(start + rm, low, count)
            drawn = tl.trans(_bytes(seed_low, seed_high, count_low, count_high, start, n0, BM_K, BN_K))
            kept = drawn <= keep
            dv_t = tl.dot(_rounded(tl.where(seen & kept, p, 0.0), dt, AWAY), dt, dv_t)
            slope = p * (tl.where(kept, tl.dot(vt, tl.trans(dt)) * share, 0.0) - less[None, :])
            dk_t = tl.dot(_rounded(tl.where(seen, slope, 0.0), qt, AWAY), qt, dk_t)

    dk = _origin(dk, batch, dk_stride_b, first_k + n0, dk_stride_s, head_k, dk_stride_h, EVEN)
    dv = _origin(dv, batch, dv_stride_b, first_k + n0, dv_stride_s, head_k, dv_stride_h, EVEN)
    at = rn.to(tl.int64)
    _store(dk, at, dk_stride_s, inside, D, dk_t * softmax_scale, 0, HEAD, EVEN)
    _store(dv, at, dv_stride_s, inside, DV, dv_t * share, 0, VHEAD, EVEN)


@triton.jit
def dropout_bwd_dq_kernel(
    dq,
    q,
    k,
    v,
    dout,
    lse,
    delta,
    state,
    starts_q,
    starts_k,
    batches,
    HQ,
    HK,
    SQ,
    SK,
    D,
    DV,
    most,
    ragged,
    left,
    right,
    keep,
    rows_b,
    dq_stride_b,
    dq_stride_s,
    dq_stride_h,
    q_stride_b,
    q_stride_s,
    q_stride_h,
    k_stride_b,
    k_stride_s,
    k_stride_h,
    v_stride_b,
    v_stride_s,
    v_stride_h,
    dout_stride_b,
    dout_stride_s,
    dout_stride_h,
    softmax_scale,
    share,
    HEAD: tl.constexpr,
    VHEAD: tl.constexpr,
    BM_Q: tl.constexpr,
    BN_Q: tl.constexpr,
    AWAY: tl.constexpr,
    XCDS: tl.constexpr,
    EVEN: tl.constexpr,
):
    tiles = tl.cdiv(most, BM_Q)
    pid = _renumber(tl.program_id(0), tiles * HQ * batches, XCDS)
    # Causal tiles with the most keys start first, so that short ones fill the end of the run.
    m0 = (tiles - 1 - pid % tiles) * BM_Q
    head = pid // tiles % HQ
    batch = pid // tiles // HQ
    head_k = head // (HQ // HK)
    first_q, queries = _span(starts_q, batch, SQ, ragged)
    first_k, keys = _span(starts_k, batch, SK, ragged)
    if m0 >= queries:
        return
    tl.assume(q_stride_s >= 0)
    tl.assume(k_stride_s >= 0)
    tl.assume(v_stride_s >= 0)
    tl.assume(dout_stride_s >= 0)
    tl.assume(q_stride_s <= STRIDE_LIMIT)
    tl.assume(k_stride_s <= STRIDE_LIMIT)
    tl.assume(v_stride_s <= STRIDE_LIMIT)
    tl.assume(dout_stride_s <= STRIDE_LIMIT)
    rm = tl.arange(0, BM_Q)
    inside = rm < queries - m0
    # A query behind the last repeats it, and its sums are not stored.
    tl.assume(queries - m0 - 1 >= 0)
    near_q = tl.minimum(rm, queries - m0 - 1)
    q = _origin(q, batch, q_stride_b, first_q + m0, q_stride_s, head, q_stride_h, EVEN)
    dout = _origin(dout, batch, dout_stride_b, first_q + m0, dout_stride_s, head, dout_stride_h, EVEN)
    qt = _tile(q, near_q, q_stride_s, inside, D, 0, HEAD, False, EVEN)
    dt = _tile(dout, near_q, dout_stride_s, inside, DV, 0, VHEAD, False, EVEN)
    at = batch.to(tl.int64) * rows_b + head.to(tl.int64) * SQ + (first_q + m0) + near_q
    row = tl.load(lse + at) * LOG2E
    less = tl.load(delta + at)
    k = _origin(k, batch, k_stride_b, first_k, k_stride_s, head_k, k_stride_h, EVEN)
    v = _origin(v, batch, v_stride_b, first_k, v_stride_s, head_k, v_stride_h, EVEN)

    ahead = keys - queries
    far, near = _bounds(left, right)
    low = tl.maximum(rm + (m0 + ahead - far), 0)
    count = tl.maximum(tl.minimum(rm + (m0 + ahead + near), keys - 1) - low + 1, 0)
    last = tl.minimum(m0 + BM_Q, queries) - 1
    begin, _, _, end = _ranges(m0, last, ahead, far, near, keys, BN_Q)
    scale = softmax_scale * LOG2E
    dq_t = tl.zeros([BM_Q, HEAD], tl.float32)
    seed_low, seed_high, count_low, count_high = _counter(state, batch, head, HQ)
    rn = tl.arange(0, BN_Q)
    for start in range(begin, end, BN_Q):
        valid = rn < keys - start
        kt = _tile(k + start.to(tl.int64) * k_stride_s, rn, k_stride_s, valid, D, 0, HEAD, True, EVEN)
        vt = _tile(v + start.to(tl.int64) * v_stride_s, rn, v_stride_s, valid, DV, 0, VHEAD, True, EVEN)
        p = tl.math.exp2(tl.dot(qt, tl.trans(kt)) * scale - row[:, None])
        kept = _bytes(seed_low, seed_high, count_low, count_high, m0, start, BM_Q, BN_Q) <= keep
        slope = p * (tl.where(kept, tl.dot(dt, tl.trans(vt)) * share, 0.0) - less[:, None])
        slope = tl.where(_between(start + rn, low, count), slope, 0.0)
        dq_t = tl.dot(_rounded(slope, kt, AWAY), kt, dq_t)

    dq = _origin(dq, batch, dq_stride_b, first_q + m0, dq_stride_s, head, dq_stride_h, EVEN)
    _store(dq, rm.to(tl.int64), dq_stride_s, inside, D, dq_t * softmax_scale, 0, HEAD, EVEN)
