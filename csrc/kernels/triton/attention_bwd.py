"""Attention, backward; dense, or sequences of different lengths one behind the other.

    S[i, j]  = softmax_scale * q[i, h] . k[j, h / (HQ / HK)]            for visible keys j of query i's sequence
    P[i, j]  = exp(S[i, j] - lse[i])                                    0 where query i does not see key j
    delta[i] = dout[i, h] . out[i, h]
    dS[i, j] = P[i, j] * (dout[i, h] . v[j, h / (HQ / HK)] - delta[i])
    dv[j]    = sum_i P[i, j] * dout[i]          dk[j] = softmax_scale * sum_i dS[i, j] * q[i]       over all heads that share j
    dq[i]    = softmax_scale * sum_j dS[i, j] * k[j]

Query number i of n, of a sequence with m keys, stands at key p = i + m - n and sees key j when p - left <= j <= p + right; a
negative left or right is no limit on that side.  What meets nothing has a gradient of 0.  T is bf16 or fp16; all sums are
fp32, P and dS are rounded to T before the next product, dq, dk and dv once.

Launches, in order; no atomics and no workspace: a tile of keys adds up all queries of all heads that share it, a tile of
queries all keys, each in one order.
  `attn_bwd_delta_kernel`   delta, rows of all heads; a workgroup has ROWS of them
  `attn_bwd_sink_kernel`    with sinks: d_sink[h] -= sum_i exp(sink[b, h] - lse[i]) * delta[i], a workgroup a head
  `attn_bwd_dkdv_kernel`    dk and dv, a workgroup a tile of BN_K keys, by BM_K queries: grid cdiv(most, BN_K) * HK * batches
  `attn_bwd_dq_kernel`      dq, a workgroup a tile of BM_Q queries, by BN_Q keys: grid cdiv(most, BM_Q) * HQ * batches
What an argument is, by name:
  out, dout *T [b, SQ, HQ, DV], q, dq *T [b, SQ, HQ, D], k, dk *T [b, SK, HK, D], v, dv *T [b, SK, HK, DV]; strides are in
  elements, of a batch (_b), a row (_s), a head (_h); the last dimension is contiguous
  lse, delta *f32 [b, HQ, SQ] contiguous | rows_b i64: their stride of a batch
  ragged i32: 0 for batches that are alike; 1 for sequences, which have the queries from starts_q[s] to starts_q[s + 1] (i32) of
  the SQ rows and the keys from starts_k[s] to starts_k[s + 1] of SK, all batch strides and rows_b being 0
  most i32: the most keys (dkdv) or queries (dq) of a batch
  sink *f32 [b, HQ], d_sink *f32 [HQ], added to
constexprs  HEAD + TAIL (padded D), VHEAD (padded DV), AWAY (round to bf16 ties away from zero, gfx942), XCDS, EVEN

EVEN = 1 is the aligned specialisation: D = HEAD + TAIL and DV = VHEAD, 16-byte pointers of T, strides of rows and heads that are
multiples of 16 elements (`tt.divisibility` 16), and those of batches too where there are several.  EVEN = 0 takes smaller heads
at any address; it has no loop without masks, for half the code.

guarantee   0 <= strides of rows <= STRIDE_LIMIT (2^23 elements): offsets inside a tile of at most 128 rows stay below 2^31 bytes,
              which makes them buffer loads on AMD; lengths, left and right stay below 2^30

The logits are kept in base 2 (scale * log2 e), since v_exp_f32 and ex2 compute 2^x.
"""

import triton
import triton.language as tl
from attention import STRIDE_LIMIT, _renumber
from attention_ragged import FAR, LOG2E


@triton.jit
def _rounded(x, like, AWAY: tl.constexpr):
    """The numbers x in the type of `like`."""
    if AWAY and like.dtype == tl.bfloat16:
        # gfx942 has no fp32 to bf16 conversion; the general one takes five instructions an element, half a unit added to the
        # magnitude and a shift two. A NaN stays one unless all the upper 17 bits of its fraction and sign are ones.
        bits = (x.to(tl.int32, bitcast=True) + 0x8000) >> 16
        return bits.to(tl.int16).to(tl.bfloat16, bitcast=True)
    return x.to(like.dtype)


@triton.jit
def _tile(
    base,
    rows,
    stride,
    inside,
    width,
    FIRST: tl.constexpr,
    WIDTH: tl.constexpr,
    MASKED: tl.constexpr,
    EVEN: tl.constexpr,
):
    """Columns FIRST to FIRST + WIDTH of rows, 0 behind the last; with MASKED 0 where a row is not inside, too."""
    columns = FIRST + tl.arange(0, WIDTH)
    at = base + (rows[:, None] * stride + columns[None, :])
    if EVEN and MASKED:
        x = tl.load(at, mask=inside[:, None], other=0.0)
    elif EVEN:
        x = tl.load(at)
    elif MASKED:
        x = tl.load(at, mask=inside[:, None] & (columns < width)[None, :], other=0.0)
    else:
        x = tl.load(at, mask=(columns < width)[None, :], other=0.0)
    return x


@triton.jit
def _store(
    base, rows, stride, inside, width, x, FIRST: tl.constexpr, WIDTH: tl.constexpr, EVEN: tl.constexpr
):
    columns = FIRST + tl.arange(0, WIDTH)
    stored = inside[:, None]
    if not EVEN:
        stored = stored & (columns < width)[None, :]
    at = base + (rows[:, None] * stride + columns[None, :])
    tl.store(at, x.to(base.dtype.element_ty), mask=stored)


@triton.jit
def _between(place, low, count):
    """Is place[j] one of `count[i]` from low[i] on? One comparison: without a sign what is before is far behind."""
    return (place[None, :] - low[:, None]).to(tl.uint32, bitcast=True) < count.to(tl.uint32, bitcast=True)[
        :, None
    ]


@triton.jit
def _origin(base, batch, stride_b, first, stride_s, head, stride_h, EVEN: tl.constexpr):
    """Where the first row of a batch's or sequence's head lies."""
    whole = batch.to(tl.int64) * stride_b
    if EVEN:
        whole = tl.multiple_of(whole, 16)
    return base + whole + first.to(tl.int64) * stride_s + head.to(tl.int64) * stride_h


@triton.jit
def _span(starts, batch, length, ragged):
    """Where a batch's or sequence's rows start, and how many there are."""
    # A null pointer, where there are no sequences, has no type.
    table = starts.to(tl.pointer_type(tl.int32), bitcast=True)
    first = batch * 0
    count = length
    if ragged != 0:
        first = tl.load(table + batch)
        count = tl.load(table + batch + 1) - first
    return first, count


@triton.jit
def _bounds(left, right):
    """How far a query sees to its left and right, no limit being further than any length."""
    far = tl.where(left < 0, FAR, tl.minimum(left, FAR))
    near = tl.where(right < 0, FAR, tl.minimum(right, FAR))
    return far, near


@triton.jit
def _ranges(first, last, ahead, below, above, limit, STEP: tl.constexpr):
    """Of rows first to last, of which row r meets those from r + ahead - below to r + ahead + above: multiples of STEP, so that
    none before `begin` or from `end` on meets any of them, and all of [whole, after) meet all.
    """
    begin = tl.maximum(first + ahead - below, 0) // STEP * STEP
    end = tl.maximum(tl.minimum(last + ahead + above, limit - 1) + 1, 0)
    end = tl.maximum(tl.cdiv(end, STEP) * STEP, begin)
    whole = tl.cdiv(tl.maximum(last + ahead - below, 0), STEP) * STEP
    whole = tl.minimum(tl.maximum(whole, begin), end)
    after = tl.maximum(tl.minimum(first + ahead + above, limit - 1) + 1, 0) // STEP * STEP
    after = tl.minimum(tl.maximum(after, whole), end)
    return begin, whole, after, end


@triton.jit
def attn_bwd_delta_kernel(
    delta,
    out,
    dout,
    HQ,
    SQ,
    DV,
    rows,
    out_stride_b,
    out_stride_s,
    out_stride_h,
    dout_stride_b,
    dout_stride_s,
    dout_stride_h,
    VHEAD: tl.constexpr,
    ROWS: tl.constexpr,
    EVEN: tl.constexpr,
):
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    # Rows and columns behind the last repeat it: a mask would be a branch around each load.
    row = tl.minimum(place, rows - 1)
    batch = (row // SQ // HQ).to(tl.int64)
    head = (row // SQ % HQ).to(tl.int64)
    query = (row % SQ).to(tl.int64)
    columns = tl.arange(0, VHEAD)
    at = columns
    whole = batch * out_stride_b
    whole_d = batch * dout_stride_b
    if EVEN:
        whole = tl.multiple_of(whole, 16)
        whole_d = tl.multiple_of(whole_d, 16)
    else:
        at = tl.minimum(columns, DV - 1)
    o_off = whole + query * out_stride_s + head * out_stride_h
    d_off = whole_d + query * dout_stride_s + head * dout_stride_h
    o = tl.load(out + (o_off[:, None] + at[None, :])).to(tl.float32)
    products = o * tl.load(dout + (d_off[:, None] + at[None, :])).to(tl.float32)
    if not EVEN:
        products = tl.where((columns < DV)[None, :], products, 0.0)
    tl.store(delta + place, tl.sum(products, 1), mask=place < rows)


@triton.jit
def attn_bwd_sink_kernel(
    d_sink, sink, lse, delta, starts_q, batches, HQ, SQ, ragged, rows_b, BLOCK: tl.constexpr
):
    head = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for batch in range(batches):
        first, queries = _span(starts_q, batch, SQ, ragged)
        base = batch.to(tl.int64) * rows_b + head.to(tl.int64) * SQ + first
        score = tl.load(sink + batch.to(tl.int64) * HQ + head) * LOG2E
        for start in range(0, queries, BLOCK):
            inside = start + lane < queries
            # Behind the end exp2 is of -inf: 0.
            row = tl.load(lse + base + start + lane, mask=inside, other=float("inf")) * LOG2E
            total -= tl.math.exp2(score - row) * tl.load(delta + base + start + lane, mask=inside, other=0.0)
    tl.store(d_sink + head, tl.load(d_sink + head) + tl.sum(total, 0))


@triton.jit
def _queries(
    dk,
    dk_tail,
    dv,
    kt,
    k_tail,
    vt,
    q,
    dout,
    lse,
    delta,
    low,
    count,
    begin,
    tiles,
    before_gap,
    gap,
    queries,
    q_stride,
    dout_stride,
    scale,
    D,
    DV,
    HEAD: tl.constexpr,
    TAIL: tl.constexpr,
    VHEAD: tl.constexpr,
    BM: tl.constexpr,
    EVEN: tl.constexpr,
    MASKED: tl.constexpr,
    AWAY: tl.constexpr,
):
    """Add to dk and dv what `tiles` tiles of queries from `begin` on give, with a gap behind the first `before_gap` of them; key
    n is seen by count[n] queries from low[n] on.
    """
    rm = tl.arange(0, BM)
    for index in tl.range(0, tiles, num_stages=1 if MASKED else None):
        start = begin + index * BM
        if MASKED:
            start += tl.where(index >= before_gap, gap, 0)
        inside = rm < queries - start
        qp = q + start.to(tl.int64) * q_stride
        dp = dout + start.to(tl.int64) * dout_stride
        qt = _tile(qp, rm, q_stride, inside, D, 0, HEAD, MASKED, EVEN)
        q_tail = qt
        # Scores lie with keys as rows: P and dS are the first operand of the next product as they are.
        s = tl.dot(kt, tl.trans(qt))
        if TAIL > 0:
            q_tail = _tile(qp, rm, q_stride, inside, D, HEAD, TAIL, MASKED, EVEN)
            s = tl.dot(k_tail, tl.trans(q_tail), s)
        near = rm
        if MASKED:
            # No key is seen from behind the last query, whatever its sum.
            tl.assume(queries - start - 1 >= 0)
            near = tl.minimum(rm, queries - start - 1)
        row = tl.load(lse + start + near)
        less = tl.load(delta + start + near)
        p = tl.math.exp2(s * scale - (row * LOG2E)[None, :])
        seen = _between(start + rm, low, count)
        if MASKED:
            p = tl.where(seen, p, 0.0)
        dt = _tile(dp, rm, dout_stride, inside, DV, 0, VHEAD, MASKED, EVEN)
        dv = tl.dot(_rounded(p, dt, AWAY), dt, dv)
        slope = p * (tl.dot(vt, tl.trans(dt)) - less[None, :])
        if MASKED:
            slope = tl.where(seen, slope, 0.0)
        slope = _rounded(slope, qt, AWAY)
        dk = tl.dot(slope, qt, dk)
        if TAIL > 0:
            dk_tail = tl.dot(slope, q_tail, dk_tail)
    return dk, dk_tail, dv


@triton.jit
def attn_bwd_dkdv_kernel(
    dk,
    dv,
    q,
    k,
    v,
    dout,
    lse,
    delta,
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
    HEAD: tl.constexpr,
    TAIL: tl.constexpr,
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
    k_tail = kt
    if TAIL > 0:
        k_tail = _tile(k, near_k, k_stride_s, inside, D, HEAD, TAIL, False, EVEN)

    # Key j is seen by queries j - ahead - right to j - ahead + left.
    ahead = keys - queries
    far, near = _bounds(left, right)
    low = tl.maximum(rn + (n0 - ahead - near), 0)
    count = tl.maximum(tl.minimum(rn + (n0 - ahead + far), queries - 1) - low + 1, 0)
    last = tl.minimum(n0 + BN_K, keys) - 1
    begin, whole, after, end = _ranges(n0, last, -ahead, near, far, queries, BM_K)
    if not EVEN:
        whole = begin
        after = begin
    scale = softmax_scale * LOG2E
    dk_t = tl.zeros([BN_K, HEAD], tl.float32)
    dk_tail = tl.zeros([BN_K, TAIL if TAIL > 0 else 16], tl.float32)
    dv_t = tl.zeros([BN_K, VHEAD], tl.float32)
    group = HQ // HK
    for head in range(head_k * group, head_k * group + group):
        qp = _origin(q, batch, q_stride_b, first_q, q_stride_s, head, q_stride_h, EVEN)
        dp = _origin(dout, batch, dout_stride_b, first_q, dout_stride_s, head, dout_stride_h, EVEN)
        row = batch.to(tl.int64) * rows_b + head.to(tl.int64) * SQ + first_q
        if EVEN:
            dk_t, dk_tail, dv_t = _queries(
                dk_t, dk_tail, dv_t, kt, k_tail, vt, qp, dp, lse + row, delta + row, low, count, whole, (after - whole) // BM_K,
                0, 0, queries, q_stride_s, dout_stride_s, scale, D, DV, HEAD, TAIL, VHEAD, BM_K, EVEN, False, AWAY,
            )  # fmt: skip
        dk_t, dk_tail, dv_t = _queries(
            dk_t, dk_tail, dv_t, kt, k_tail, vt, qp, dp, lse + row, delta + row, low, count, begin,
            (whole - begin) // BM_K + (end - after) // BM_K, (whole - begin) // BM_K, after - whole, queries, q_stride_s,
            dout_stride_s, scale, D, DV, HEAD, TAIL, VHEAD, BM_K, EVEN, True, AWAY,
        )  # fmt: skip

    dk = _origin(dk, batch, dk_stride_b, first_k + n0, dk_stride_s, head_k, dk_stride_h, EVEN)
    dv = _origin(dv, batch, dv_stride_b, first_k + n0, dv_stride_s, head_k, dv_stride_h, EVEN)
    at = rn.to(tl.int64)
    _store(dk, at, dk_stride_s, inside, D, dk_t * softmax_scale, 0, HEAD, EVEN)
    if TAIL > 0:
        _store(dk, at, dk_stride_s, inside, D, dk_tail * softmax_scale, HEAD, TAIL, EVEN)
    _store(dv, at, dv_stride_s, inside, DV, dv_t, 0, VHEAD, EVEN)


@triton.jit
def _keys(
    dq,
    dq_tail,
    qt,
    q_tail,
    dt,
    k,
    v,
    row,
    less,
    low,
    count,
    begin,
    tiles,
    before_gap,
    gap,
    keys,
    k_stride,
    v_stride,
    scale,
    D,
    DV,
    HEAD: tl.constexpr,
    TAIL: tl.constexpr,
    VHEAD: tl.constexpr,
    BN: tl.constexpr,
    EVEN: tl.constexpr,
    MASKED: tl.constexpr,
    AWAY: tl.constexpr,
):
    """Add to dq what `tiles` tiles of keys from `begin` on give, with a gap behind the first `before_gap` of them; query m sees
    count[m] keys from low[m] on.
    """
    rn = tl.arange(0, BN)
    for index in tl.range(0, tiles, num_stages=1 if MASKED else None):
        start = begin + index * BN
        if MASKED:
            start += tl.where(index >= before_gap, gap, 0)
        inside = rn < keys - start
        kp = k + start.to(tl.int64) * k_stride
        vp = v + start.to(tl.int64) * v_stride
        kt = _tile(kp, rn, k_stride, inside, D, 0, HEAD, MASKED, EVEN)
        k_tail = kt
        s = tl.dot(qt, tl.trans(kt))
        if TAIL > 0:
            k_tail = _tile(kp, rn, k_stride, inside, D, HEAD, TAIL, MASKED, EVEN)
            s = tl.dot(q_tail, tl.trans(k_tail), s)
        p = tl.math.exp2(s * scale - row[:, None])
        vt = _tile(vp, rn, v_stride, inside, DV, 0, VHEAD, MASKED, EVEN)
        slope = p * (tl.dot(dt, tl.trans(vt)) - less[:, None])
        if MASKED:
            slope = tl.where(_between(start + rn, low, count), slope, 0.0)
        slope = _rounded(slope, kt, AWAY)
        dq = tl.dot(slope, kt, dq)
        if TAIL > 0:
            dq_tail = tl.dot(slope, k_tail, dq_tail)
    return dq, dq_tail


@triton.jit
def attn_bwd_dq_kernel(
    dq,
    q,
    k,
    v,
    dout,
    lse,
    delta,
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
    HEAD: tl.constexpr,
    TAIL: tl.constexpr,
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
    q_tail = qt
    if TAIL > 0:
        q_tail = _tile(q, near_q, q_stride_s, inside, D, HEAD, TAIL, False, EVEN)
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
    begin, whole, after, end = _ranges(m0, last, ahead, far, near, keys, BN_Q)
    if not EVEN:
        whole = begin
        after = begin
    scale = softmax_scale * LOG2E
    dq_t = tl.zeros([BM_Q, HEAD], tl.float32)
    dq_tail = tl.zeros([BM_Q, TAIL if TAIL > 0 else 16], tl.float32)
    if EVEN:
        dq_t, dq_tail = _keys(
            dq_t, dq_tail, qt, q_tail, dt, k, v, row, less, low, count, whole, (after - whole) // BN_Q, 0, 0, keys, k_stride_s,
            v_stride_s, scale, D, DV, HEAD, TAIL, VHEAD, BN_Q, EVEN, False, AWAY,
        )  # fmt: skip
    dq_t, dq_tail = _keys(
        dq_t, dq_tail, qt, q_tail, dt, k, v, row, less, low, count, begin, (whole - begin) // BN_Q + (end - after) // BN_Q,
        (whole - begin) // BN_Q, after - whole, keys, k_stride_s, v_stride_s, scale, D, DV, HEAD, TAIL, VHEAD, BN_Q, EVEN, True,
        AWAY,
    )  # fmt: skip

    dq = _origin(dq, batch, dq_stride_b, first_q + m0, dq_stride_s, head, dq_stride_h, EVEN)
    _store(dq, rm.to(tl.int64), dq_stride_s, inside, D, dq_t * softmax_scale, 0, HEAD, EVEN)
    if TAIL > 0:
        _store(dq, rm.to(tl.int64), dq_stride_s, inside, D, dq_tail * softmax_scale, HEAD, TAIL, EVEN)
