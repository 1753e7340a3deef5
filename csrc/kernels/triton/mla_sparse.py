"""Attention over chosen keys of a latent cache (sparse MLA): all heads of a token share its list of keys, and the first R numbers
of a key are its value.

    S[t, h, j]  = softmax_scale * q[t, h] . kv[index[t, j]]             for entries j that name a key
    out[t, h]   = sum_j softmax(S[t, h])[j] * kv[index[t, j], :R]

An entry below 0, or not below `pages * page_size`, names no key: nothing is read for it, wherever in the list it stands. A key
that is named twice counts twice. A token that sees no key has out 0. T is bf16 or fp16; the softmax and both sums are fp32, the
probabilities are rounded to T before the second product, and out is rounded once.

`mla_sparse_kernel` arguments, in order
    0 out: *T [tokens, H, R], or with PARTS *f32 [tokens, parts, H, R] | 1 sums: with PARTS *f32 [tokens, parts, H], ln of the
      sums of exponentials, -inf of a part without a key, which has no out | 2 q *T [tokens, H, D] | 3 kv *T [pages, page_size, D]
    4 index *i32 [tokens, K] | 5 starts *i32 [sequences + 1]: tokens from starts[sequences] on are left alone
    6 tokens i32 | 7 sequences i32 | 8 H i32 | 9 D i32 | 10 R i32 | 11 K i32 | 12 pages i32 | 13 page_size i32 | 14 parts i32
    15 out_stride_t i64 | 16 out_stride_h i64 (not read with PARTS) | 17 q_stride_t i64 | 18 q_stride_h i64 | 19 kv_stride_p i64
    20 kv_stride_k i64 | 21 index_stride i64 | 22 softmax_scale f32
  Strides are in elements and the last dimension is contiguous.
  constexprs  VALUE, TAIL (padded R and D - R), BM, BN, PARTS, AWAY (rounds to bf16 with ties away from zero), XCDS, EVEN
              A tile is BM heads of a token. A list is cut behind its last entry that names a key, and then into equal parts.
  grid        (cdiv(H, BM) * parts * tokens, 1, 1), parts 1 without PARTS
`mla_sparse_merge_kernel` arguments, in order
    0 out *T [tokens, H, R] | 1 shares *f32 [tokens, parts, H, R] | 2 sums *f32 [tokens, parts, H] | 3 starts *i32 | 4 tokens i32
    5 sequences i32 | 6 H i32 | 7 parts i32 | 8 out_stride_t i64 | 9 out_stride_h i64
  constexprs  VALUE (= R), ROWS
  grid        (cdiv(tokens * H, ROWS), 1, 1)

EVEN = 1 is the aligned specialisation: R = VALUE and D - R = TAIL, pointers 0, 2, 3 at 16 bytes, strides 15 to 20 multiples of 16
elements. EVEN = 0 takes smaller sizes, too, and assumes no alignment.

guarantee   D >= R > 0, pages * page_size in [1, 2^31), K < 2^30

The logits are kept in base 2 (scale * log2 e), since v_exp_f32 computes 2^x.
"""

import triton
import triton.language as tl
from attention import _renumber, _to_storage

LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)
LN2: tl.constexpr = tl.constexpr(0.6931471805599453)
#: Entries of a list that are looked at in one step.
SCAN: tl.constexpr = tl.constexpr(1024)


@triton.jit
def _tokens_there(starts, sequences, tokens):
    """How many tokens the sequences have."""
    return tl.minimum(tl.load(starts + sequences), tokens)


@triton.jit
def _list_of(index, K, keys):
    """(where a list ends: behind its last entry that names one of `keys` keys, and the largest key that it names)."""
    last = tl.zeros([SCAN], tl.int32)
    named = tl.full([SCAN], -1, tl.int32)
    for start in tl.range(0, K, SCAN):
        at = start + tl.arange(0, SCAN)
        entry = tl.load(index + at, mask=at < K, other=-1)
        good = (entry >= 0) & (entry < keys)
        last = tl.where(good, at + 1, last)
        named = tl.maximum(named, tl.where(good, entry, -1))
    return tl.max(last, 0), tl.max(named, 0)


@triton.jit
def _columns(ptr, offsets, at, inside, EVEN: tl.constexpr):
    """Columns `at` of the rows at `offsets`, 0 in those that are not inside."""
    x = tl.load(ptr + (offsets[:, None] + at[None, :]))
    if not EVEN:
        x = tl.where(inside[None, :], x, 0.0)
    return x


@triton.jit
def mla_sparse_kernel(
    out,
    sums,
    q,
    kv,
    index,
    starts,
    tokens,
    sequences,
    H,
    D,
    R,
    K,
    pages,
    page_size,
    parts,
    out_stride_t,
    out_stride_h,
    q_stride_t,
    q_stride_h,
    kv_stride_p,
    kv_stride_k,
    index_stride,
    softmax_scale,
    VALUE: tl.constexpr,
    TAIL: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    PARTS: tl.constexpr,
    AWAY: tl.constexpr,
    XCDS: tl.constexpr,
    EVEN: tl.constexpr,
):
    tiles = tl.cdiv(H, BM)
    # The tiles of one token read the same keys: they lie behind each other, on one die.
    pid = _renumber(tl.program_id(0), tiles * parts * tokens, XCDS)
    tile = pid % tiles
    part = pid // tiles % parts
    token = pid // tiles // parts
    if token >= _tokens_there(starts, sequences, tokens):
        return
    place = token.to(tl.int64)
    if EVEN:
        # They are multiples of 16 already; a product is how the compiler learns it of an argument that may be a constant.
        q_stride_t = q_stride_t // 16 * 16
        kv_stride_p = kv_stride_p // 16 * 16
    keys = pages * page_size
    index += place * index_stride
    length, spare = _list_of(index, K, keys)
    share = tl.cdiv(tl.cdiv(length, parts), BN) * BN
    begin = tl.minimum(part * share, length)
    end = tl.minimum(begin + share, length)

    head = tl.minimum(tile * BM + tl.arange(0, BM), H - 1)
    rd = tl.arange(0, VALUE)
    rt = tl.arange(0, TAIL)
    at_value = rd
    at_tail = VALUE + rt
    if not EVEN:
        # Columns behind the last repeat it, so that no load needs a mask.
        at_value = tl.minimum(rd, R - 1)
        at_tail = tl.minimum(R + rt, D - 1)
    off_q = place * q_stride_t + head.to(tl.int64) * q_stride_h
    q_head = _columns(q, off_q, at_value, rd < R, EVEN)
    q_tail = _columns(q, off_q, at_tail, rt < D - R, EVEN)
    # The running maximum is taken after scaling, so a negative scale is as good as a positive one.
    scale = softmax_scale * LOG2E
    flat = kv_stride_p == kv_stride_k * page_size

    peak = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, VALUE], tl.float32)
    rn = tl.arange(0, BN)
    entry = tl.load(index + begin + rn, mask=begin + rn < end, other=-1)
    for start in tl.range(begin, end, BN):
        good = (entry >= 0) & (entry < keys)
        # An entry that names no key repeats one of the list: the loads need no mask, the logits have one.
        key = tl.where(good, entry, spare)
        after = start + BN + rn
        entry = tl.load(index + after, mask=after < end, other=-1)
        if flat:
            off = key.to(tl.int64) * kv_stride_k
        else:
            page = key // page_size
            off = page.to(tl.int64) * kv_stride_p + (key - page * page_size).to(tl.int64) * kv_stride_k
        if EVEN:
            off = off // 16 * 16
        value = _columns(kv, off, at_value, rd < R, EVEN)
        tail = _columns(kv, off, at_tail, rt < D - R, EVEN)
        s = tl.dot(q_head, tl.trans(value))
        s = tl.dot(q_tail, tl.trans(tail), s)
        s = tl.where(good[None, :], s * scale, float("-inf"))
        higher = tl.maximum(peak, tl.max(s, 1))
        # -inf - -inf is NaN: a row that has seen no key yet is measured from 0.
        base = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.math.exp2(s - base[:, None])
        shrink = tl.math.exp2(peak - base)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        acc = tl.dot(_to_storage(p, value, AWAY), value, acc)
        peak = higher

    # A row that saw no key has acc 0 and total 0; one with NaN has NaN in both.
    some = total != 0.0
    acc = acc * (1.0 / tl.where(some, total, 1.0))[:, None]
    stored = tile * BM + tl.arange(0, BM) < H
    if PARTS:
        # They lie in a workspace, which has no type.
        out = out.to(tl.pointer_type(tl.float32), bitcast=True)
        sums = sums.to(tl.pointer_type(tl.float32), bitcast=True)
        target = (place * parts + part) * H + head
        logarithm = tl.where(some, (peak + tl.math.log2(total)) * LN2, float("-inf"))
        tl.store(sums + target, logarithm, mask=stored)
        target = target * VALUE
        stored = stored & (begin < end)
    else:
        target = place * out_stride_t + head.to(tl.int64) * out_stride_h
    inside = stored[:, None]
    if not EVEN:
        inside = inside & (rd < R)[None, :]
    tl.store(out + (target[:, None] + rd[None, :]), acc.to(out.dtype.element_ty), mask=inside)


@triton.jit
def mla_sparse_merge_kernel(
    out,
    shares,
    sums,
    starts,
    tokens,
    sequences,
    H,
    parts,
    out_stride_t,
    out_stride_h,
    VALUE: tl.constexpr,
    ROWS: tl.constexpr,
):
    # They lie in a workspace, which has no type.
    shares = shares.to(tl.pointer_type(tl.float32), bitcast=True)
    sums = sums.to(tl.pointer_type(tl.float32), bitcast=True)
    there = _tokens_there(starts, sequences, tokens) * H
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    stored = row < there
    row = tl.minimum(row, tokens * H - 1)
    token = (row // H).to(tl.int64)
    head = row % H
    rd = tl.arange(0, VALUE)
    at = token * parts * H + head

    peak = tl.full([ROWS], float("-inf"), tl.float32)
    for part in range(parts):
        own = tl.load(sums + (at + part * H), mask=stored, other=float("-inf"))
        peak = tl.maximum(peak, own, propagate_nan=tl.PropagateNan.ALL)
    base = tl.where(peak == float("-inf"), 0.0, peak)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, VALUE], tl.float32)
    for part in range(parts):
        own = tl.load(sums + (at + part * H), mask=stored, other=float("-inf"))
        weight = tl.math.exp2((own - base) * LOG2E)
        # A part without a key has no values.
        value = tl.load(
            shares + ((at + part * H)[:, None] * VALUE + rd[None, :]),
            mask=(own != float("-inf"))[:, None],
            other=0.0,
        )
        acc += value * weight[:, None]
        total += weight
    acc = acc * (1.0 / tl.where(total != 0.0, total, 1.0))[:, None]
    target = token * out_stride_t + head.to(tl.int64) * out_stride_h
    tl.store(out + (target[:, None] + rd[None, :]), acc.to(out.dtype.element_ty), mask=stored[:, None])
