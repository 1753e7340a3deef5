"""Dense flash attention, forward: `flash_attn_func` and `mha_fwd` of AITER without dropout, bias,
window or sink.

    S[i, j]  = softmax_scale * q[b, i, h] . k[b, j, h / (HQ / HK)]      for visible j
    out[i]   = sum_j softmax(S[i])[j] * v[b, j, h / (HQ / HK)]
    lse[i]   = ln(sum_j exp(S[i, j]))                                   natural logarithm, fp32

CAUSAL is aligned bottom-right: query i sees key j when j <= i + SK - SQ.  A row that sees no key has
out 0 and lse -inf.  T is bf16 or fp16; the softmax and both sums are fp32, the probabilities are
rounded to T before the second product, and out is rounded once.  Any SQ, SK >= 0; the head size D is
64 or 128 and the same for q, k and v; HQ / HK is any integer.

`flash_attn_fwd_kernel` arguments, in order
    0 out *T [B, SQ, HQ, D] | 1 q *T [B, SQ, HQ, D] | 2 k *T [B, SK, HK, D] | 3 v *T [B, SK, HK, D]
    4 lse *f32 [B, HQ, SQ] contiguous (not touched when write_lse is 0)
    5 B i32 | 6 HQ i32 | 7 HK i32 | 8 SQ i32 | 9 SK i32 | 10 pack i32 | 11 write_lse i32 (0 or 1)
    12 out_stride_b i64 | 13 out_stride_s i32 | 14 out_stride_h i32
    15 q_stride_b i64 | 16 q_stride_s i32 | 17 q_stride_h i32
    18 k_stride_b i64 | 19 k_stride_s i32 | 20 k_stride_h i32
    21 v_stride_b i64 | 22 v_stride_s i32 | 23 v_stride_h i32
    24 softmax_scale f32
  Strides are in elements and the last dimension is contiguous, so [B, H, S, D] storage works too.
  pack is 1 or HQ / HK: with HQ / HK, the query heads that share a key head are rows of one tile, so
  that a short SQ fills the tile and the keys are read once and not HQ / HK times.
  constexprs  HEAD (= D), BM, BN, CAUSAL, AWAY, XCDS, EVEN; AWAY = 1 rounds the probabilities to bf16
              with ties away from zero, for a target that has no instruction for it (gfx942)
  grid        (cdiv(SQ * pack, BM) * (HQ // pack) * B, 1, 1); none to launch when SQ == 0
  workspace   none

guarantee   0 <= k_stride_s, v_stride_s <= STRIDE_LIMIT (2^23 elements): offsets inside a K or V tile of at
              most 128 rows stay below 2^31 bytes, which makes them buffer loads on AMD.  Tile origins,
              batches and query rows are 64-bit, so the tensors may have any size.
EVEN = 1 is the aligned specialisation: 16-byte pointers 0..3 and all strides 12..23 multiples of 16
elements (`tt.divisibility` 16 on all of these); lse needs its element alignment only.  EVEN = 0 assumes no
alignment and has no attribute; the code is the same in both.

The logits are kept in base 2 (scale * log2 e), since v_exp_f32 and ex2 compute 2^x.
"""

import triton
import triton.language as tl

STRIDE_LIMIT: tl.constexpr = tl.constexpr(8388608)


@triton.jit
def _renumber(pid, count, XCDS: tl.constexpr):
    """Bijection on [0, count) that gives each die one contiguous run, so heads share its L2."""
    if XCDS > 1:
        die = pid % XCDS
        pid = die * (count // XCDS) + tl.minimum(die, count % XCDS) + pid // XCDS
    return pid


@triton.jit
def _to_storage(p, like, AWAY: tl.constexpr):
    """P >= 0 in the type of `like`."""
    if AWAY and like.dtype == tl.bfloat16:
        # gfx942 has no fp32 to bf16 conversion; the general one takes five instructions an element.
        # p is never negative, so half a unit and a shift round it to nearest, ties away from zero,
        # which is also what AITER's assembly kernels do by default.  A NaN still shows in `total`.
        bits = (p.to(tl.int32, bitcast=True) + 0x8000) >> 16
        return bits.to(tl.int16).to(tl.bfloat16, bitcast=True)
    return p.to(like.dtype)


@triton.jit
def _attend(
    acc,
    total,
    peak,
    q,
    k,
    v,
    limit,
    begin,
    end,
    last_key,
    k_stride,
    v_stride,
    scale,
    HEAD: tl.constexpr,
    BN: tl.constexpr,
    MASKED: tl.constexpr,
    AWAY: tl.constexpr,
):
    """Online softmax over keys [begin, end); row m sees key j when j <= limit[m]."""
    rd = tl.arange(0, HEAD)
    rn = tl.arange(0, BN)
    k += tl.cast(begin, tl.int64) * k_stride
    v += tl.cast(begin, tl.int64) * v_stride
    near = rn
    # The masked part is one or two tiles long: a pipelined form of it would only be more code.
    for start in tl.range(begin, end, BN, num_stages=1 if MASKED else None):
        if MASKED:
            # A key past the end repeats the last one: the loads need no mask, the logits have one.
            tl.assume(last_key - start >= 0)
            near = tl.minimum(rn, last_key - start)
        kt = tl.load(k + (near[None, :] * k_stride + rd[:, None]))
        s = tl.dot(q, kt) * scale
        if MASKED:
            s = tl.where((rn + start)[None, :] <= limit[:, None], s, float("-inf"))
        higher = tl.maximum(peak, tl.max(s, 1))
        base = higher
        if MASKED:
            # -inf - -inf is NaN: a row that has seen no key yet is measured from 0.
            base = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.math.exp2(s - base[:, None])
        shrink = tl.math.exp2(peak - base)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        vt = tl.load(v + (near[:, None] * v_stride + rd[None, :]))
        acc = tl.dot(_to_storage(p, vt, AWAY), vt, acc)
        peak = higher
        k += BN * k_stride
        v += BN * v_stride
    return acc, total, peak


@triton.jit
def flash_attn_fwd_kernel(
    out,
    q,
    k,
    v,
    lse,
    batches,
    HQ,
    HK,
    SQ,
    SK,
    pack,
    write_lse,
    out_stride_b,
    out_stride_s,
    out_stride_h,
    q_stride_b,
    q_stride_s,
    q_stride_h,
    k_stride_b,
    k_stride_s,
    k_stride_h,
    v_stride_b,
    v_stride_s,
    v_stride_h,
    softmax_scale,
    HEAD: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
    AWAY: tl.constexpr,
    XCDS: tl.constexpr,
    EVEN: tl.constexpr,
):
    LOG2E: tl.constexpr = 1.4426950408889634
    LN2: tl.constexpr = 0.6931471805599453
    rows = SQ * pack
    tiles = tl.cdiv(rows, BM)
    pid = _renumber(tl.program_id(0), tiles * (HQ // pack) * batches, XCDS)
    # Causal tiles with the most keys start first, so that short ones fill the end of the run.
    tile = tiles - 1 - pid % tiles
    groups = HQ // pack
    group = pid // tiles % groups
    batch = (pid // tiles // groups).to(tl.int64)
    head_k = group * pack // (HQ // HK)

    m0 = tile * BM
    row = tl.minimum(m0 + tl.arange(0, BM), rows - 1)
    # Row r of a packed tile is query r / pack of head r % pack in the group.
    query = row // pack
    head = group * pack + row % pack
    rd = tl.arange(0, HEAD)
    q += batch * q_stride_b
    off_q = query.to(tl.int64) * q_stride_s + head.to(tl.int64) * q_stride_h
    qt = tl.load(q + (off_q[:, None] + rd[None, :]))
    # The running maximum is taken after scaling, so a negative scale is as good as a positive one.
    scale = softmax_scale * LOG2E

    tl.assume(k_stride_s >= 0)
    tl.assume(v_stride_s >= 0)
    tl.assume(k_stride_s <= STRIDE_LIMIT)
    tl.assume(v_stride_s <= STRIDE_LIMIT)
    k += batch * k_stride_b + head_k.to(tl.int64) * k_stride_h
    v += batch * v_stride_b + head_k.to(tl.int64) * v_stride_h

    peak = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, HEAD], tl.float32)
    if CAUSAL:
        limit = tl.minimum(query + (SK - SQ), SK - 1)
        # Keys before `whole` are seen by every row of the tile, keys from `end` on by none.
        first = m0 // pack
        last = tl.minimum(m0 + BM - 1, rows - 1) // pack
        whole = tl.minimum(tl.maximum(first + (SK - SQ) + 1, 0), SK) // BN * BN
        end = tl.minimum(tl.maximum(last + (SK - SQ) + 1, 0), SK)
    else:
        whole = SK // BN * BN
        end = SK
        limit = tl.full([BM], SK - 1, tl.int32)
    acc, total, peak = _attend(
        acc,
        total,
        peak,
        qt,
        k,
        v,
        limit,
        0,
        whole,
        SK - 1,
        k_stride_s,
        v_stride_s,
        scale,
        HEAD,
        BN,
        False,
        AWAY,
    )
    acc, total, peak = _attend(
        acc,
        total,
        peak,
        qt,
        k,
        v,
        limit,
        whole,
        end,
        SK - 1,
        k_stride_s,
        v_stride_s,
        scale,
        HEAD,
        BN,
        True,
        AWAY,
    )

    seen = peak > float("-inf")
    # A row that saw no key has acc 0 and total 0.
    total = tl.where(seen, total, 1.0)
    acc = acc * (1.0 / total)[:, None]
    inside = (m0 + tl.arange(0, BM)) < rows
    out += batch * out_stride_b
    off_out = query.to(tl.int64) * out_stride_s + head.to(tl.int64) * out_stride_h
    tl.store(out + (off_out[:, None] + rd[None, :]), acc.to(out.dtype.element_ty), mask=inside[:, None])
    value = tl.where(seen, (peak + tl.math.log2(total)) * LN2, float("-inf"))
    tl.store(lse + ((batch * HQ + head) * SQ + query), value, mask=m0 + tl.arange(0, BM) < rows * write_lse)
