"""Flash attention, forward, of sequences of different or equal lengths; keys packed one sequence behind the other, or in pages.

    S[i, j]  = softmax_scale * q[i, h] . k[j, h / (HQ / HK)]            for visible keys j of query i's sequence
    S[i, j]  = softcap * tanh(S[i, j] / softcap)                        where softcap > 0
    out[i]   = sum_j softmax(S[i])[j] * v[j, h / (HQ / HK)]
    lse[i]   = ln(sum_j exp(S[i, j]))                                   natural logarithm, fp32

Query number i of n, of a sequence with m keys, stands at key p = i + m - n and sees key j when p - left <= j <= p + right, or
j < first_keys and j <= p + right; a negative left or right is no limit on that side.  With sinks each head has one more score,
sinks[h], which takes part in the sum and has no value.  A query that sees no key has out 0, and lse -inf or its sink.  T is bf16
or fp16; queries, keys and values are of type T, or of an 8-bit type with one scale for all of each; the softmax and both sums
are fp32, the probabilities are rounded to T before the second product, and out is rounded once.

`ragged_attn_fwd_kernel` arguments, in order
    0 out *T [SQ, HQ, DV] | 1 q *Q [SQ, HQ, D] | 2 k *C [SK, HK, D] or [pages, page_size, HK, D] | 3 v *C, the same with DV;
      with PAGED = x > 1 in groups of x: k [pages, HK, D / x, page_size, x], v [pages, HK, page_size / x, DV, x]
    4 lse *f32 (not touched when write_lse is 0) | 5 sinks *f32 [HQ] or null
    6 starts_q *i32 [n + 1]: sequence s has the queries from starts_q[s] to starts_q[s + 1]; null when equal_queries is 1, then it
      has most_queries of them, at s * q_stride_b
    7 starts_k *i32, which keys_by says: 0 [n + 1] the same for keys; 1 null, each has SK keys, at s * k_stride_p.  With PAGED
      0 [n] how many keys a sequence has; 1 [n + 1] where its pages start in `pages`; 2 [n + 1] where its keys would start if
      they were packed
    8 pages *i32, with PAGED: page i of sequence s is pages[s * pages_stride + i]; where keys_by is 1 pages[starts_k[s] + i]
    9 last *i32 [n]: where keys_by is 1 the keys of each sequence's last page; or null, which is full pages
    10 q_scale *f32 [1] | 11 k_scale *f32 [1] | 12 v_scale *f32 [1]: of 8-bit queries, keys and values, else not touched
    13 partial *f32 [n, most_queries, HQ, parts, VHEAD] | 14 stats *f32 [n, most_queries, HQ, parts, 2]: with SPLIT, sums that are
       not divided yet, and of each the maximum (base 2) and the sum of the powers
    15 sequences i32 | 16 HQ i32 | 17 HK i32 | 18 SK i32 (with PAGED the most keys of a sequence) | 19 D i32 | 20 DV i32
    21 most_queries i32 | 22 page_size i32 | 23 page_inverse i64: ceil(2^32 / page_size)
    24 equal_queries i32 | 25 keys_by i32 | 26 write_lse i32 | 27 has_sinks i32 | 28 has_last i32
    29 skip i32 | 30 longest i32: sequences with no more queries than skip, or more than longest, are left alone
    31 first_keys i32 | 32 left i32 | 33 right i32 | 34 parts i32
    35 out_stride_b i64 | 36 out_stride_s i32 | 37 out_stride_h i32 | 38 q_stride_b i64 | 39 q_stride_s i32 | 40 q_stride_h i32
    41 k_stride_p i64 | 42 k_stride_s i32 | 43 k_stride_h i32 | 44 v_stride_p i64 | 45 v_stride_s i32 | 46 v_stride_h i32
    47 pages_stride i32 | 48 lse_stride_b i64 | 49 lse_stride_h i32 | 50 softmax_scale f32 | 51 softcap f32
  Strides are in elements and the last dimension is contiguous.
  constexprs  HEAD + TAIL (padded D), VHEAD (padded DV), BM, BN, PACKED, PAGED, SPLIT, AWAY, XCDS, EVEN
              PAGED = 1: keys are rows of pages; PAGED > 1: groups of so many elements, 16 bytes, lie together in a page, those
              of a key and those of consecutive values; dims behind the heads are contiguous, D and page_size multiples of it.
              PACKED = 1: the query heads that share a key head are rows of one tile, so that few queries fill the tile and
              the keys are read once.  SPLIT = 1: `parts` workgroups share the keys of a tile, and attention_join.py adds what
              they found.  AWAY = 1 rounds the probabilities to bf16 with ties away from zero (gfx942).
  grid        (parts * cdiv(most_queries * pack, BM) * (HQ // pack) * sequences, 1, 1), pack = HQ // HK with PACKED, else 1, parts
              1 without SPLIT; rows of a sequence behind most_queries are not written
  workspace   partial and stats

EVEN = 1 is the aligned specialisation: D = HEAD + TAIL and DV = VHEAD, pointers 0..3 at 16 bytes, strides 35..46 multiples of 16
elements (`tt.divisibility` 16; of 35, 38, 41 and 44, which may be the constant 0, the kernel works it out), and page numbers
are found by a product: SK * page_size <= 2^32.  EVEN = 0 takes smaller heads, too, and assumes no alignment.

guarantee   0 <= k_stride_s, v_stride_s <= STRIDE_LIMIT; lengths, first_keys, left and right stay below 2^30

The logits are kept in base 2 (scale * log2 e), since v_exp_f32 and ex2 compute 2^x.
"""

import triton
import triton.language as tl
from attention import STRIDE_LIMIT, _renumber, _to_storage

LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)
LN2: tl.constexpr = tl.constexpr(0.6931471805599453)
FAR: tl.constexpr = tl.constexpr(1 << 30)


@triton.jit
def _page_number(key, page_size, page_inverse, EVEN: tl.constexpr):
    """The page of key >= 0: a division is some twenty instructions for each, and key * (page_size * inverse - 2^32) < 2^32."""
    if EVEN:
        number = tl.umulhi(key.to(tl.uint32), page_inverse.to(tl.uint32)).to(tl.int32)
        return tl.where(page_size == 1, key, number)
    return key // page_size


@triton.jit
def _capped(s, softcap):
    """tanh(x) = 1 - 2 / (e^2x + 1), and s is x * softcap * log2 e."""
    if softcap > 0.0:
        s = softcap * LOG2E * (1.0 - 2.0 / (tl.math.exp2(s * (2.0 / softcap)) + 1.0))
    return s


@triton.jit
def _load_groups_k(k, k_off, page_size, D, HEAD: tl.constexpr, X: tl.constexpr, EVEN: tl.constexpr):
    """Keys [HEAD, BN] of pages whose keys lie in groups of X elements; k_off: the first group of each key."""
    group = tl.arange(0, HEAD // X)
    if not EVEN:
        # Groups behind the last repeat it.
        group = tl.minimum(group, D // X - 1)
    group = group * (page_size * X)
    inner = group[:, None, None] + tl.arange(0, X)[None, :, None]
    return tl.load(k + (inner + k_off[None, None, :])).reshape(HEAD, k_off.shape[0])


@triton.jit
def _load_groups_v(
    v,
    pages,
    start,
    last_key,
    page_size,
    page_inverse,
    v_stride_p,
    at_v,
    DV,
    like,
    BN: tl.constexpr,
    X: tl.constexpr,
    EVEN: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Values [BN, VHEAD] in the type of `like`, of pages in which X consecutive keys lie together in each of the DV columns."""
    first = start + tl.arange(0, BN // X) * X
    if MASKED:
        first = tl.minimum(first, last_key // X * X)
    number = _page_number(first, page_size, page_inverse, EVEN)
    page = tl.load(pages + number).to(tl.int64)
    width = at_v.shape[0] if EVEN else DV
    base = page * v_stride_p + (first - number * page_size) * width
    inner = at_v[None, None, :] * X + tl.arange(0, X)[None, :, None]
    vt = tl.load(v + (base[:, None, None] + inner)).reshape(BN, at_v.shape[0]).to(like.dtype)
    if MASKED:
        # The rest of a group behind a sequence's last key was perhaps never written, and 0 * NaN is NaN.
        vt = tl.where((start + tl.arange(0, BN) <= last_key)[:, None], vt, 0.0)
    return vt


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
    page_inverse,
    low,
    high,
    first_keys,
    begin,
    tiles,
    lead,
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
    """Online softmax over `tiles` tiles of keys: `lead` of them from key 0 on, the others from `begin` on, with a gap behind the
    first `before_gap` of these; row m sees key j when low[m] <= j <= high[m], or j < first_keys and j <= high[m].
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
            after = index - lead
            start = tl.where(after < 0, index, after) * BN + tl.where(after < 0, 0, begin)
            start += tl.where(after >= before_gap, gap, 0)
        key = start + rn
        at = key
        if MASKED:
            # A key past the end repeats the last one: the loads need no mask, the logits have one.
            at = tl.minimum(key, last_key)
        if PAGED:
            number = _page_number(at, page_size, page_inverse, EVEN)
            page = tl.load(pages + number).to(tl.int64)
            inside = at - number * page_size
            if PAGED > 1:
                k_stride_s = PAGED
            k_off = page * k_stride_p + inside * k_stride_s
            v_off = page * v_stride_p + inside * v_stride_s
            kp = k
            vp = v
        else:
            kp = k + start.to(tl.int64) * k_stride_s
            vp = v + start.to(tl.int64) * v_stride_s
            k_off = (at - start) * k_stride_s
            v_off = (at - start) * v_stride_s
        if PAGED > 1:
            kt = _load_groups_k(kp, k_off, page_size, D, HEAD, PAGED, EVEN)
        else:
            kt = tl.load(kp + (k_off[None, :] + at_d[:, None]))
        if not EVEN:
            kt = tl.where((rd < D)[:, None], kt, 0.0)
        s = tl.dot(qt, kt.to(qt.dtype))
        if TAIL > 0:
            k_tail = tl.load(kp + (k_off[None, :] + (HEAD + tl.arange(0, TAIL))[:, None]))
            s = tl.dot(q_tail, k_tail.to(qt.dtype), s)
        s = s * scale
        s = _capped(s, softcap)
        if MASKED:
            seen = (key[None, :] >= low[:, None]) | (key < first_keys)[None, :]
            seen = seen & (key[None, :] <= high[:, None])
            s = tl.where(seen, s, float("-inf"))
        higher = tl.maximum(peak, tl.max(s, 1))
        # -inf - -inf is NaN: a row that has seen no key yet is measured from 0.
        base = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.math.exp2(s - base[:, None])
        shrink = tl.math.exp2(peak - base)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        if PAGED > 1:
            vt = _load_groups_v(
                vp,
                pages,
                start,
                last_key,
                page_size,
                page_inverse,
                v_stride_p,
                at_v,
                DV,
                qt,
                BN,
                PAGED,
                EVEN,
                MASKED,
            )
        else:
            vt = tl.load(vp + (v_off[:, None] + at_v[None, :]))
        acc = tl.dot(_to_storage(p, qt, AWAY), vt.to(qt.dtype), acc)
        peak = higher
    return acc, total, peak


@triton.jit
def _keys_of(sequence, starts_k, last, has_last, keys_by, SK, page_size, pages_stride, PAGED: tl.constexpr):
    """Where the keys of a sequence start, how many there are, and where its row of `pages` starts."""
    page_row = sequence.to(tl.int64) * pages_stride
    if not PAGED:
        first = sequence * 0
        keys = SK
        if keys_by == 0:
            first = tl.load(starts_k + sequence)
            keys = tl.load(starts_k + sequence + 1) - first
    else:
        first = tl.load(starts_k + sequence)
        keys = first
        if keys_by != 0:
            keys = tl.load(starts_k + sequence + 1) - first
        if keys_by == 1:
            page_row = first.to(tl.int64)
            short = tl.load(last + sequence, mask=has_last != 0, other=page_size)
            keys = tl.maximum(keys - 1, 0) * page_size + tl.where(keys > 0, short, 0)
        # A count above what the table has room for would be read behind it.
        keys = tl.minimum(keys, SK)
    return first, keys, page_row


@triton.jit
def _queries_of(sequence, starts_q, most_queries, equal_queries):
    """Where the queries of a sequence start, and how many there are."""
    first = sequence * 0
    queries = most_queries
    if equal_queries == 0:
        first = tl.load(starts_q + sequence)
        queries = tl.load(starts_q + sequence + 1) - first
    return first, queries


@triton.jit
def _load_q(rows, out, D, HEAD: tl.constexpr, TAIL: tl.constexpr, EVEN: tl.constexpr):
    """Queries of type T, and their last TAIL columns; an 8-bit number is a number of type T, so the products are those of T."""
    rd = tl.arange(0, HEAD)
    inside = None if EVEN else (rd < D)[None, :]
    q = tl.load(rows + rd[None, :], mask=inside, other=None if EVEN else 0.0)
    tail = q
    if TAIL > 0:
        tail = tl.load(rows + (HEAD + tl.arange(0, TAIL))[None, :])
    return q.to(out.dtype.element_ty), tail.to(out.dtype.element_ty)


@triton.jit
def _scale_of(tensor, out, scale):
    """What numbers of `tensor` are multiplied with: those of type T have no scale."""
    if tensor.dtype.element_ty != out.dtype.element_ty:
        return tl.load(scale)
    return 1.0


@triton.jit
def _span(
    first,
    final,
    keys,
    first_keys,
    left,
    far,
    near,
    part,
    parts,
    BN: tl.constexpr,
    SPLIT: tl.constexpr,
):
    """Of a tile whose queries stand at keys `first` to `final`: keys before `begin` and from `end` on are seen by none, but for
    the `lead` tiles from key 0 on; those of [whole, after) are seen by all.
    """
    none_left = left < 0
    begin = tl.where(none_left, 0, tl.maximum(first - far, 0)) // BN * BN
    end = tl.cdiv(tl.maximum(tl.minimum(final + near, keys - 1) + 1, 0), BN) * BN
    end = tl.maximum(end, begin)
    whole = tl.where(none_left, 0, tl.cdiv(tl.maximum(final - far, 0), BN) * BN)
    after = tl.maximum(tl.minimum(first + near, keys - 1) + 1, 0) // BN * BN
    lead = tl.minimum(tl.cdiv(tl.minimum(first_keys, keys), BN), begin // BN)
    if SPLIT:
        share = tl.cdiv((end - begin) // BN, parts) * BN
        begin = tl.minimum(begin + part * share, end)
        end = tl.minimum(begin + share, end)
        lead = tl.where(part == 0, lead, 0)
    whole = tl.minimum(tl.maximum(whole, begin), end)
    after = tl.minimum(tl.maximum(after, whole), end)
    return lead, begin, whole, after, end


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
    q_scale,
    k_scale,
    v_scale,
    partial,
    stats,
    sequences,
    HQ,
    HK,
    SK,
    D,
    DV,
    most_queries,
    page_size,
    page_inverse,
    equal_queries,
    keys_by,
    write_lse,
    has_sinks,
    has_last,
    skip,
    longest,
    first_keys,
    left,
    right,
    parts,
    out_stride_b,
    out_stride_s,
    out_stride_h,
    q_stride_b,
    q_stride_s,
    q_stride_h,
    k_stride_p,
    k_stride_s,
    k_stride_h,
    v_stride_p,
    v_stride_s,
    v_stride_h,
    pages_stride,
    lse_stride_b,
    lse_stride_h,
    softmax_scale,
    softcap,
    HEAD: tl.constexpr,
    TAIL: tl.constexpr,
    VHEAD: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    PACKED: tl.constexpr,
    PAGED: tl.constexpr,
    SPLIT: tl.constexpr,
    AWAY: tl.constexpr,
    XCDS: tl.constexpr,
    EVEN: tl.constexpr,
):
    # Null and workspace come as pointers to bytes.
    starts_q = starts_q.to(tl.pointer_type(tl.int32))
    starts_k = starts_k.to(tl.pointer_type(tl.int32))
    partial = partial.to(tl.pointer_type(tl.float32))
    stats = stats.to(tl.pointer_type(tl.float32))
    if EVEN:
        # They are multiples of 16 already; a product is how the compiler learns it of an argument that may be a constant.
        out_stride_b = out_stride_b // 16 * 16
        q_stride_b = q_stride_b // 16 * 16
        k_stride_p = k_stride_p // 16 * 16
        v_stride_p = v_stride_p // 16 * 16
    pack = 1
    if PACKED:
        pack = HQ // HK
    groups = HQ // pack
    tiles = tl.cdiv(most_queries * pack, BM)
    part = 0
    if SPLIT:
        pid = _renumber(tl.program_id(0), tiles * groups * sequences * parts, XCDS)
        part = pid % parts
        pid = pid // parts
    else:
        pid = _renumber(tl.program_id(0), tiles * groups * sequences, XCDS)
    # Causal tiles with the most keys start first, so that short ones fill the end of the run.
    tile = tiles - 1 - pid % tiles
    group = pid // tiles % groups
    sequence = pid // tiles // groups
    head_k = group * pack // (HQ // HK)

    first_q, queries = _queries_of(sequence, starts_q, most_queries, equal_queries)
    rows = tl.minimum(queries, most_queries) * pack
    m0 = tile * BM
    if (queries <= skip) | (queries > longest) | (m0 >= rows):
        return

    first_k, keys, page_row = _keys_of(
        sequence, starts_k, last, has_last, keys_by, SK, page_size, pages_stride, PAGED
    )
    row = tl.minimum(m0 + tl.arange(0, BM), rows - 1)
    # Row r of a packed tile is query r / pack of head r % pack in the group.
    query = row // pack
    head = group * pack + row % pack
    place = (first_q + query).to(tl.int64)
    rv = tl.arange(0, VHEAD)
    batch = sequence.to(tl.int64)
    off_q = batch * q_stride_b + place * q_stride_s + head.to(tl.int64) * q_stride_h
    qt, q_tail = _load_q(q + off_q[:, None], out, D, HEAD, TAIL, EVEN)
    # The running maximum is taken after scaling, so a negative scale is as good as a positive one.
    scale = softmax_scale * LOG2E * _scale_of(q, out, q_scale) * _scale_of(k, out, k_scale)

    tl.assume(k_stride_s >= 0)
    tl.assume(v_stride_s >= 0)
    tl.assume(k_stride_s <= STRIDE_LIMIT)
    tl.assume(v_stride_s <= STRIDE_LIMIT)
    k += head_k.to(tl.int64) * k_stride_h
    v += head_k.to(tl.int64) * v_stride_h
    if not PAGED:
        k += batch * k_stride_p + first_k.to(tl.int64) * k_stride_s
        v += batch * v_stride_p + first_k.to(tl.int64) * v_stride_s

    peak = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    if (has_sinks != 0) & (part == 0):
        peak = tl.load(sinks + head) * LOG2E
        total = tl.full([BM], 1.0, tl.float32)
    acc = tl.zeros([BM, VHEAD], tl.float32)

    ahead = keys - queries
    far = tl.minimum(left, FAR)
    near = tl.where(right < 0, FAR, tl.minimum(right, FAR))
    low = tl.where(left < 0, 0, tl.maximum(query + ahead - far, 0))
    high = tl.minimum(query + ahead + near, keys - 1)
    first = m0 // pack
    final = tl.minimum(m0 + BM - 1, rows - 1) // pack
    lead, begin, whole, after, end = _span(
        first + ahead, final + ahead, keys, first_keys, left, far, near, part, parts, BN, SPLIT
    )

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
        page_inverse,
        low,
        high,
        first_keys,
        whole,
        (after - whole) // BN,
        0,
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
        page_inverse,
        low,
        high,
        first_keys,
        begin,
        lead + (whole - begin) // BN + (end - after) // BN,
        lead,
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

    inside = (m0 + tl.arange(0, BM)) < rows
    stored = inside[:, None]
    if not EVEN:
        stored = stored & (rv < DV)[None, :]
    v_share = _scale_of(v, out, v_scale)
    if SPLIT:
        spot = ((batch * most_queries + query) * HQ + head) * parts + part
        tl.store(partial + (spot[:, None] * VHEAD + rv[None, :]), acc * v_share, mask=stored)
        tl.store(stats + spot * 2, peak, mask=inside)
        tl.store(stats + spot * 2 + 1, total, mask=inside)
        return
    # A row that saw no key has acc 0 and total 0; one with NaN has NaN in both.
    seen = total != 0.0
    acc = acc * (v_share / tl.where(seen, total, 1.0))[:, None]
    off_out = batch * out_stride_b + place * out_stride_s + head.to(tl.int64) * out_stride_h
    tl.store(out + (off_out[:, None] + rv[None, :]), acc.to(out.dtype.element_ty), mask=stored)
    value = tl.where(seen, (peak + tl.math.log2(total)) * LN2, float("-inf"))
    at_lse = batch * lse_stride_b + head.to(tl.int64) * lse_stride_h + place
    tl.store(lse + at_lse, value, mask=inside & (write_lse != 0))
