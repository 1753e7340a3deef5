"""Decoding over a paged cache with linear biases (ALiBi): one query for each sequence.

    S[h, j]  = softmax_scale * q[h] . k[j, h / (HQ / HK)] + slopes[h] * (j - m + 1)      for visible keys j of m
    S[h, j]  = softcap * tanh(S[h, j] / softcap)                                         where softcap > 0
    out[h]   = sum_j softmax(S[h])[j] * v[j, h / (HQ / HK)]

The query stands at key m - 1, and sees key j when m - 1 - left <= j, or all where left is negative.  T, of q, is bf16 or fp16;
keys and values are of type T, or of an 8-bit type with one scale for all of each; the softmax and both sums are fp32, the
probabilities are rounded to T before the second product.  `attention_join.py` divides and rounds.

`alibi_decode_kernel` arguments, in order
    0 q *T [SQ, HQ, D] | 1 k *C [stored_pages, page_size, HK, D] | 2 v *C, the same with DV | 3 slopes *f32 [HQ]
    4 starts_q *i32 [n + 1]: sequence s has row starts_q[s], and is left alone unless starts_q[s + 1] is the next one; not read
      where 14 listed is 0: then it has row s
    5 counts *i32 [n]: how many keys a sequence has | 6 pages *i32: page i of sequence s is pages[s * pages_stride + i]
    7 k_scale *f32 [1] | 8 v_scale *f32 [1]: of an 8-bit cache, else not touched
    9 partial *f32 [n, HQ, parts, VHEAD] | 10 stats *f32 [n, HQ, parts, 2]: sums that are not divided yet, and of each the maximum
      (base 2) and the sum of the powers
   11 sequences i32 | 12 HQ i32 | 13 HK i32 | 14 listed i32 | 15 most_keys i32: more than a row of pages has are not read
   16 D i32 | 17 DV i32 | 18 page_size i32 | 19 left i32 | 20 parts i32
   21 q_stride_s i32 | 22 q_stride_h i32 | 23 k_stride_p i64 | 24 k_stride_s i32 | 25 k_stride_h i32
   26 v_stride_p i64 | 27 v_stride_s i32 | 28 v_stride_h i32 | 29 pages_stride i32 | 30 softmax_scale f32 | 31 softcap f32
  Strides are in elements and the last dimension is contiguous.
  constexprs  HEAD (padded D), VHEAD (padded DV), BM, BN, AWAY, EVEN
              The heads that share a head of keys are rows of a tile.  AWAY = 1 rounds the probabilities to bf16 with ties away
              from zero (gfx942).
  grid        (cdiv(HQ / HK, BM) * HK * sequences * parts, 1, 1)
  workspace   partial and stats

EVEN = 1 is the aligned specialisation: D = HEAD and DV = VHEAD, pointers 0..2 at 16 bytes, strides 21..28 multiples of 16
elements.

guarantee   lengths and left stay below 2^30
"""

import triton
import triton.language as tl
from attention import _to_storage

LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def alibi_decode_kernel(
    q,
    k,
    v,
    slopes,
    starts_q,
    counts,
    pages,
    k_scale,
    v_scale,
    partial,
    stats,
    sequences,
    HQ,
    HK,
    listed,
    most_keys,
    D,
    DV,
    page_size,
    left,
    parts,
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
    VHEAD: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    AWAY: tl.constexpr,
    EVEN: tl.constexpr,
):
    # Null and workspace come as pointers to bytes.
    starts_q = starts_q.to(tl.pointer_type(tl.int32))
    partial = partial.to(tl.pointer_type(tl.float32))
    stats = stats.to(tl.pointer_type(tl.float32))
    if EVEN:
        # They are multiples of 16 already; a product is how the compiler learns it of an argument that may be a constant.
        k_stride_p = k_stride_p // 16 * 16
        v_stride_p = v_stride_p // 16 * 16
    pack = HQ // HK
    tiles = tl.cdiv(pack, BM)
    pid = tl.program_id(0)
    part = pid % parts
    tile = pid // parts % tiles
    head_k = pid // parts // tiles % HK
    sequence = pid // parts // tiles // HK
    place = sequence
    if listed != 0:
        place = tl.load(starts_q + sequence)
        if tl.load(starts_q + sequence + 1) - place != 1:
            return

    # A row past the end repeats the last one: its loads need no mask, and the stores drop it.
    row = tile * BM + tl.arange(0, BM)
    head = head_k * pack + tl.minimum(row, pack - 1)
    keys = tl.minimum(tl.maximum(tl.load(counts + sequence), 0), most_keys)
    least = tl.where(left < 0, 0, tl.maximum(keys - 1 - left, 0))
    share = tl.cdiv(tl.cdiv(keys - least, BN), parts) * BN
    begin = least + part * share
    end = tl.minimum(begin + share, keys)

    rd = tl.arange(0, HEAD)
    rv = tl.arange(0, VHEAD)
    at_d = rd
    at_v = rv
    if not EVEN:
        # Columns behind the last repeat it, so that no load needs a mask.
        at_d = tl.minimum(rd, D - 1)
        at_v = tl.minimum(rv, DV - 1)
    off_q = place.to(tl.int64) * q_stride_s + head.to(tl.int64) * q_stride_h
    qt = tl.load(q + (off_q[:, None] + at_d[None, :]))
    if not EVEN:
        qt = tl.where((rd < D)[None, :], qt, 0.0)
    scale = softmax_scale
    v_share = 1.0
    if k.dtype.element_ty != q.dtype.element_ty:
        scale *= tl.load(k_scale)
        v_share = tl.load(v_scale)
    slope = tl.load(slopes + head)
    k += head_k.to(tl.int64) * k_stride_h
    v += head_k.to(tl.int64) * v_stride_h
    pages += sequence.to(tl.int64) * pages_stride

    peak = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, VHEAD], tl.float32)
    rn = tl.arange(0, BN)
    for start in tl.range(begin, end, BN):
        key = start + rn
        # A key past the end repeats the last one: the loads need no mask, the logits have one.
        at = tl.minimum(key, keys - 1)
        page = tl.load(pages + at // page_size).to(tl.int64)
        inside = (at % page_size).to(tl.int64)
        kt = tl.load(k + ((page * k_stride_p + inside * k_stride_s)[None, :] + at_d[:, None]))
        if not EVEN:
            kt = tl.where((rd < D)[:, None], kt, 0.0)
        s = tl.dot(qt, kt.to(qt.dtype)) * scale + slope[:, None] * (key - keys + 1).to(tl.float32)[None, :]
        if softcap > 0.0:
            # tanh(x) = 1 - 2 / (e^2x + 1)
            s = softcap * (1.0 - 2.0 / (tl.math.exp2(s * (2.0 * LOG2E / softcap)) + 1.0))
        s = tl.where((key < end)[None, :], s * LOG2E, float("-inf"))
        higher = tl.maximum(peak, tl.max(s, 1))
        # -inf - -inf is NaN: a row all of whose logits are -inf is measured from 0.
        base = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.math.exp2(s - base[:, None])
        shrink = tl.math.exp2(peak - base)
        total = total * shrink + tl.sum(p, 1)
        vt = tl.load(v + ((page * v_stride_p + inside * v_stride_s)[:, None] + at_v[None, :]))
        acc = tl.dot(_to_storage(p, qt, AWAY), vt.to(qt.dtype), acc * shrink[:, None])
        peak = higher

    real = row < pack
    stored = real[:, None]
    if not EVEN:
        stored = stored & (rv < DV)[None, :]
    spot = (sequence.to(tl.int64) * HQ + head) * parts + part
    tl.store(partial + (spot[:, None] * VHEAD + rv[None, :]), acc * v_share, mask=stored)
    tl.store(stats + spot * 2, peak, mask=real)
    tl.store(stats + spot * 2 + 1, total, mask=real)
