"""Flash attention of sequences of different lengths, forward; keys packed one sequence behind the other, or in pages.

    S[i, j]  = softmax_scale * q[i, h] . k[j, h / (HQ / HK)]            for visible keys j of query i's sequence
    S[i, j]  = softcap * tanh(S[i, j] / softcap)                        where softcap > 0
    out[i]   = sum_j softmax(S[i])[j] * v[j, h / (HQ / HK)]
    lse[i]   = ln(sum_j exp(S[i, j]))                                   natural logarithm, fp32

Query number i of n, of a sequence with m keys, stands at key p = i + m - n and sees key j when p - left <= j <= p + right; a
negative left or right is no limit on that side.  With sinks each head has one more score, sinks[h], which takes part in the
sum and has no value.  A query that sees no key has out 0, and lse -inf or its sink.  T is bf16 or fp16; keys and values
are of type T, or of an 8-bit type with one scale for all keys and one for all values; the softmax and both sums are fp32, the
probabilities are rounded to T before the second product, and out is rounded once.

`ragged_attn_fwd_kernel` arguments, in order
    0 out *T [SQ, HQ, DV] | 1 q *T [SQ, HQ, D] | 2 k *C [SK, HK, D] or [pages, page_size, HK, D] | 3 v *C, the same with DV
    4 lse *f32 [HQ, SQ] contiguous (not touched when write_lse is 0) | 5 sinks *f32 [HQ] or null
    6 starts_q *i32 [n + 1]: sequence s has the queries from starts_q[s] to starts_q[s + 1]
    7 starts_k *i32: [n + 1] the same for keys; with PAGED [n] how many keys a sequence has, with by_start [n + 1] where its
      pages start in `pages`
    8 pages *i32, with PAGED: page number i of sequence s is pages[s * pages_stride + i], with by_start pages[starts_k[s] + i]
    9 last *i32 [n]: with by_start the keys of each sequence's last page; or null, which is full pages
    10 k_scale *f32 [1] | 11 v_scale *f32 [1]: of 8-bit keys and values, else not touched
    12 sequences i32 | 13 HQ i32 | 14 HK i32 | 15 SQ i32 | 16 D i32 | 17 DV i32 | 18 most_queries i32 | 19 page_size i32
    20 by_start i32 | 21 write_lse i32 | 22 has_sinks i32 | 23 has_last i32
    24 skip i32: sequences with no more queries are left alone
    25 left i32 | 26 right i32
    27 out_stride_s i32 | 28 out_stride_h i32 | 29 q_stride_s i32 | 30 q_stride_h i32
    31 k_stride_p i64 | 32 k_stride_s i32 | 33 k_stride_h i32 | 34 v_stride_p i64 | 35 v_stride_s i32 | 36 v_stride_h i32
    37 pages_stride i32 | 38 softmax_scale f32 | 39 softcap f32
  Strides are in elements and the last dimension is contiguous.
  constexprs  HEAD + TAIL (padded D), VHEAD (padded DV), BM, BN, PACKED, PAGED, AWAY, XCDS, EVEN
              PACKED = 1: the query heads that share a key head are rows of one tile, so that few queries fill the tile and
              the keys are read once.  AWAY = 1 rounds the probabilities to bf16 with ties away from zero (gfx942).
  grid        (cdiv(most_queries * pack, BM) * (HQ // pack) * sequences, 1, 1), pack = HQ // HK with PACKED, else 1; rows of a
              sequence behind most_queries are not written
  workspace   none

EVEN = 1 is the aligned specialisation: D = HEAD + TAIL and DV = VHEAD, pointers 0..3 at 16 bytes, and strides 27..36 multiples of
16 elements (`tt.divisibility` 16).  EVEN = 0 takes smaller heads, too, and assumes no alignment.

guarantee   0 <= k_stride_s, v_stride_s <= STRIDE_LIMIT; lengths, left and right stay below 2^30

The logits are kept in base 2 (scale * log2 e), since v_exp_f32 and ex2 compute 2^x.
"""

import triton
import triton.language as tl
from attention import STRIDE_LIMIT, _renumber, _to_storage

LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)
LN2: tl.constexpr = tl.constexpr(0.6931471805599453)
FAR: tl.constexpr = tl.constexpr(1 << 30)


@triton.jit
def _attend(
    acc,
    total,
    peak,
    qt,
    q_tail,
    k,
    v,
    pages,
    page_size,
    low,
    high,
    begin,
    tiles,
    before_gap,
    gap,
    last_key,
    k_stride_p,
    k_stride_s,
    v_stride_p,
    v_stride_s,
    scale,
    softcap,
    D,
    DV,
    HEAD: tl.constexpr,
    TAIL: tl.constexpr,
    VHEAD: tl.constexpr,
    BN: tl.constexpr,
    PAGED: tl.constexpr,
    EVEN: tl.constexpr,
    MASKED: tl.constexpr,
    AWAY: tl.constexpr,
):
    """Online softmax over `tiles` tiles of keys from `begin` on, with a gap behind the first `before_gap` of them; row m sees
    key j when low[m] <= j <= high[m].
    """
    rd = tl.arange(0, HEAD)
    at_d = rd
    at_v = tl.arange(0, VHEAD)
    if not EVEN:
        # Columns behind the last repeat it, so that no load needs a mask.
        at_d = tl.minimum(at_d, D - 1)
        at_v = tl.minimum(at_v, DV - 1)
    rn = tl.arange(0, BN)
    for index in tl.range(0, tiles, num_stages=1 if MASKED else None):
        start = begin + index * BN
        if MASKED:
            start += tl.where(index >= before_gap, gap, 0)
        key = start + rn
        at = key
        if MASKED:
            # A key past the end repeats the last one: the loads need no mask, the logits have one.
            at = tl.minimum(key, last_key)
        if PAGED:
            page = tl.load(pages + at // page_size).to(tl.int64)
            inside = at % page_size
            k_off = page * k_stride_p + inside * k_stride_s
            v_off = page * v_stride_p + inside * v_stride_s
            kp = k
            vp = v
        else:
            kp = k + start.to(tl.int64) * k_stride_s
            vp = v + start.to(tl.int64) * v_stride_s
            k_off = (at - start) * k_stride_s
            v_off = (at - start) * v_stride_s
        kt = tl.load(kp + (k_off[None, :] + at_d[:, None]))
        if not EVEN:
            kt = tl.where((rd < D)[:, None], kt, 0.0)
        s = tl.dot(qt, kt.to(qt.dtype))
        if TAIL > 0:
            k_tail = tl.load(kp + (k_off[None, :] + (HEAD + tl.arange(0, TAIL))[:, None]))
            s = tl.dot(q_tail, k_tail.to(qt.dtype), s)
        s = s * scale
        if softcap > 0.0:
            # tanh(x) = 1 - 2 / (e^2x + 1), and s is x * softcap * log2 e.
            s = softcap * LOG2E * (1.0 - 2.0 / (tl.math.exp2(s * (2.0 / softcap)) + 1.0))
        if MASKED:
            seen = (key[None, :] <= high[:, None]) & (key[None, :] >= low[:, None])
            s = tl.where(seen, s, float("-inf"))
        higher = tl.maximum(peak, tl.max(s, 1))
        # -inf - -inf is NaN: a row that has seen no key yet is measured from 0.
        base = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.math.exp2(s - base[:, None])
        shrink = tl.math.exp2(peak - base)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        vt = tl.load(vp + (v_off[:, None] + at_v[None, :]))
        acc = tl.dot(_to_storage(p, qt, AWAY), vt.to(qt.dtype), acc)
        peak = higher
    return acc, total, peak


@triton.jit
def _keys_of(sequence, starts_k, last, has_last, by_start, page_size, pages_stride, PAGED: tl.constexpr):
    """Where the keys of a sequence start, how many there are, and where its row of `pages` starts."""
    first = tl.load(starts_k + sequence)
    keys = first
    page_row = sequence.to(tl.int64) * pages_stride
    if not PAGED:
        keys = tl.load(starts_k + sequence + 1) - first
    elif by_start != 0:
        page_row = first.to(tl.int64)
        full = tl.load(starts_k + sequence + 1) - first
        short = tl.load(last + sequence, mask=has_last != 0, other=page_size)
        keys = tl.maximum(full - 1, 0) * page_size + tl.where(full > 0, short, 0)
    return first, keys, page_row


@triton.jit
def ragged_attn_fwd_kernel(
    out,
    q,
    k,
    v,
    lse,
    sinks,
    starts_q,
    starts_k,
    pages,
    last,
    k_scale,
    v_scale,
    sequences,
    HQ,
    HK,
    SQ,
    D,
    DV,
    most_queries,
    page_size,
    by_start,
    write_lse,
    has_sinks,
    has_last,
    skip,
    left,
    right,
    out_stride_s,
    out_stride_h,
    q_stride_s,
    q_stride_h,
    k_stride_p,
    k_stride_s,
    k_stride_h,
    v_stride_p,
    v_stride_s,
    v_stride_h,
    pages_stride,
    softmax_scale,
    softcap,
    HEAD: tl.constexpr,
    TAIL: tl.constexpr,
    VHEAD: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    PACKED: tl.constexpr,
    PAGED: tl.constexpr,
    AWAY: tl.constexpr,
    XCDS: tl.constexpr,
    EVEN: tl.constexpr,
):
    pack = 1
    if PACKED:
        pack = HQ // HK
    groups = HQ // pack
    tiles = tl.cdiv(most_queries * pack, BM)
    pid = _renumber(tl.program_id(0), tiles * groups * sequences, XCDS)
    # Causal tiles with the most keys start first, so that short ones fill the end of the run.
    tile = tiles - 1 - pid % tiles
    group = pid // tiles % groups
    sequence = pid // tiles // groups
    head_k = group * pack // (HQ // HK)

    first_q = tl.load(starts_q + sequence)
    queries = tl.load(starts_q + sequence + 1) - first_q
    rows = tl.minimum(queries, most_queries) * pack
    m0 = tile * BM
    if (queries <= skip) | (m0 >= rows):
        return

    first_k, keys, page_row = _keys_of(
        sequence, starts_k, last, has_last, by_start, page_size, pages_stride, PAGED
    )
    row = tl.minimum(m0 + tl.arange(0, BM), rows - 1)
    # Row r of a packed tile is query r / pack of head r % pack in the group.
    query = row // pack
    head = group * pack + row % pack
    place = (first_q + query).to(tl.int64)
    rd = tl.arange(0, HEAD)
    rv = tl.arange(0, VHEAD)
    off_q = place * q_stride_s + head.to(tl.int64) * q_stride_h
    if EVEN:
        qt = tl.load(q + (off_q[:, None] + rd[None, :]))
    else:
        qt = tl.load(q + (off_q[:, None] + rd[None, :]), mask=(rd < D)[None, :], other=0.0)
    q_tail = qt
    if TAIL > 0:
        q_tail = tl.load(q + (off_q[:, None] + (HEAD + tl.arange(0, TAIL))[None, :]))
    # The running maximum is taken after scaling, so a negative scale is as good as a positive one.
    scale = softmax_scale * LOG2E
    if k.dtype.element_ty != q.dtype.element_ty:
        scale *= tl.load(k_scale)

    tl.assume(k_stride_s >= 0)
    tl.assume(v_stride_s >= 0)
    tl.assume(k_stride_s <= STRIDE_LIMIT)
    tl.assume(v_stride_s <= STRIDE_LIMIT)
    k += head_k.to(tl.int64) * k_stride_h
    v += head_k.to(tl.int64) * v_stride_h
    if not PAGED:
        k += first_k.to(tl.int64) * k_stride_s
        v += first_k.to(tl.int64) * v_stride_s

    peak = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    if has_sinks != 0:
        peak = tl.load(sinks + head) * LOG2E
        total = tl.full([BM], 1.0, tl.float32)
    acc = tl.zeros([BM, VHEAD], tl.float32)

    ahead = keys - queries
    none_left = left < 0
    far = tl.minimum(left, FAR)
    near = tl.where(right < 0, FAR, tl.minimum(right, FAR))
    low = tl.where(none_left, 0, tl.maximum(query + ahead - far, 0))
    high = tl.minimum(query + ahead + near, keys - 1)
    # Of the tile's first and last query: keys before `begin` and from `end` on are seen by none, those of [whole, after) by all.
    first = m0 // pack
    final = tl.minimum(m0 + BM - 1, rows - 1) // pack
    begin = tl.where(none_left, 0, tl.maximum(first + ahead - far, 0)) // BN * BN
    end = tl.cdiv(tl.maximum(tl.minimum(final + ahead + near, keys - 1) + 1, 0), BN) * BN
    end = tl.maximum(end, begin)
    whole = tl.where(none_left, 0, tl.cdiv(tl.maximum(final + ahead - far, 0), BN) * BN)
    whole = tl.minimum(tl.maximum(whole, begin), end)
    after = tl.maximum(tl.minimum(first + ahead + near, keys - 1) + 1, 0) // BN * BN
    after = tl.minimum(tl.maximum(after, whole), end)

    pages += page_row
    acc, total, peak = _attend(
        acc,
        total,
        peak,
        qt,
        q_tail,
        k,
        v,
        pages,
        page_size,
        low,
        high,
        whole,
        (after - whole) // BN,
        0,
        0,
        keys - 1,
        k_stride_p,
        k_stride_s,
        v_stride_p,
        v_stride_s,
        scale,
        softcap,
        D,
        DV,
        HEAD,
        TAIL,
        VHEAD,
        BN,
        PAGED,
        EVEN,
        False,
        AWAY,
    )
    acc, total, peak = _attend(
        acc,
        total,
        peak,
        qt,
        q_tail,
        k,
        v,
        pages,
        page_size,
        low,
        high,
        begin,
        (whole - begin) // BN + (end - after) // BN,
        (whole - begin) // BN,
        after - whole,
        keys - 1,
        k_stride_p,
        k_stride_s,
        v_stride_p,
        v_stride_s,
        scale,
        softcap,
        D,
        DV,
        HEAD,
        TAIL,
        VHEAD,
        BN,
        PAGED,
        EVEN,
        True,
        AWAY,
    )

    # A row that saw no key has acc 0 and total 0; one with NaN has NaN in both.
    seen = total != 0.0
    share = 1.0 / tl.where(seen, total, 1.0)
    if v.dtype.element_ty != q.dtype.element_ty:
        share *= tl.load(v_scale)
    acc = acc * share[:, None]
    inside = (m0 + tl.arange(0, BM)) < rows
    off_out = place * out_stride_s + head.to(tl.int64) * out_stride_h
    stored = inside[:, None]
    if not EVEN:
        stored = stored & (rv < DV)[None, :]
    tl.store(out + (off_out[:, None] + rv[None, :]), acc.to(out.dtype.element_ty), mask=stored)
    value = tl.where(seen, (peak + tl.math.log2(total)) * LN2, float("-inf"))
    tl.store(lse + (head.to(tl.int64) * SQ + place), value, mask=inside & (write_lse != 0))
