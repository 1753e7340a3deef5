"""Flash attention, forward, of new tokens behind a prefix: keys of the prefix lie in a cache, one row for each, in any order;
those of the new tokens are packed as their queries are.

    S[i, j]  = softmax_scale * q[i, h] . key[j, h / (HQ / HK)]          for visible keys j of query i's sequence
    S[i, j]  = softcap * tanh(S[i, j] / softcap)                        where softcap > 0
    out[i]   = sum_j softmax(S[i])[j] * value[j, h / (HQ / HK)]

A sequence of P keys in the cache and n new tokens has P + n keys, those of the cache first.  New token i sees all keys of the
cache and the new ones, with causal those up to itself.  A mask has a byte for each token and key, n rows of P + n: where it is
not 0 token i sees key j, whatever causal says; with mask_prefix 0 it is not asked for keys of the cache.  A token that sees no
key has out 0.  T is bf16 or fp16; softmax and sums are fp32, the probabilities are rounded to T before the second product, and
out is rounded once.

`extend_attn_fwd_kernel` arguments, in order
    0 out *T [SQ, HQ, DV] | 1 q *T [SQ, HQ, D] | 2 k *T [SQ, HK, D] | 3 v *T [SQ, HK, DV]
    4 k_cache *T [NB, HK, D] | 5 v_cache *T [NB, HK, DV]
    6 starts *i32 [sequences + 1]: sequence s has the tokens from starts[s] to starts[s + 1]; [sequences] with by_lengths 1, then
      it has lengths[s] of them
    7 lengths *i32 [sequences], or null
    8 prefix_starts *i32 [sequences + 1]: the keys of sequence s in the cache are indices[prefix_starts[s]] to that before
      indices[prefix_starts[s + 1]]; null when has_prefix is 0
    9 indices *i32 | 10 mask *u8 | 11 mask_starts *i32 [sequences]: where the mask of each sequence starts; null when has_mask
      is 0
    12 sequences i32 | 13 HQ i32 | 14 HK i32 | 15 SQ i32 | 16 D i32 | 17 DV i32 | 18 NB i32
    19 listed i32: how many indices there are
    20 masked i64: how many bytes the mask has | 21 most i32: tokens of a sequence behind so many are not written
    22 by_lengths i32 | 23 has_prefix i32 | 24 causal i32 | 25 has_mask i32 | 26 mask_prefix i32
    27 out_stride_s i32 | 28 out_stride_h i32 | 29 q_stride_s i32 | 30 q_stride_h i32 | 31 k_stride_s i32 | 32 k_stride_h i32
    33 v_stride_s i32 | 34 v_stride_h i32 | 35 k_cache_stride_s i32 | 36 k_cache_stride_h i32 | 37 v_cache_stride_s i32
    38 v_cache_stride_h i32 | 39 softmax_scale f32 | 40 softcap f32
  Strides are in elements and the last dimension is contiguous.
  constexprs  HEAD + TAIL (padded D), VHEAD (padded DV), BM, BN, AWAY, XCDS, EVEN
              AWAY = 1 rounds the probabilities to bf16 with ties away from zero (gfx942)
  grid        (cdiv(most * (HQ // HK), BM) * HK * sequences, 1, 1): rows of a tile are the heads of tokens that share a head of
              keys, so that keys are read once for all of them
  workspace   none

EVEN = 1 is the aligned specialisation: D = HEAD + TAIL and DV = VHEAD, pointers 0..5 at 16 bytes, strides 27..38 multiples of 16
elements (`tt.divisibility` 16).  EVEN = 0 takes smaller heads, too, and assumes no alignment; TAIL is 0 then.

guarantee   0 <= k_stride_s, v_stride_s <= STRIDE_LIMIT; SQ and listed stay below 2^30

Starts and lengths are taken into what is there: a wrong one gives wrong numbers, no access outside. An index is read as it is:
one of a row that is not there reaches the memory that it names.
The logits are kept in base 2 (scale * log2 e), since v_exp_f32 and ex2 compute 2^x.
"""

import triton
import triton.language as tl
from attention import STRIDE_LIMIT, _renumber, _to_storage

LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def _load_q(rows, D, HEAD: tl.constexpr, TAIL: tl.constexpr, EVEN: tl.constexpr):
    """Queries, and their last TAIL columns."""
    rd = tl.arange(0, HEAD)
    q = tl.load(rows + rd[None, :], mask=None if EVEN else (rd < D)[None, :], other=None if EVEN else 0.0)
    tail = q
    if TAIL > 0:
        tail = tl.load(rows + (HEAD + tl.arange(0, TAIL))[None, :])
    return q, tail


@triton.jit
def _fold(
    acc,
    total,
    peak,
    qt,
    q_tail,
    k,
    v,
    k_off,
    v_off,
    seen,
    scale,
    softcap,
    D,
    DV,
    HEAD: tl.constexpr,
    TAIL: tl.constexpr,
    VHEAD: tl.constexpr,
    MASKED: tl.constexpr,
    AWAY: tl.constexpr,
    EVEN: tl.constexpr,
):
    """Online softmax over one tile of keys, which lie at k_off and v_off."""
    rd = tl.arange(0, HEAD)
    at_d = rd
    at_v = tl.arange(0, VHEAD)
    if not EVEN:
        # Columns behind the last repeat it, so that no load needs a mask.
        at_d = tl.minimum(at_d, D - 1)
        at_v = tl.minimum(at_v, DV - 1)
    kt = tl.load(k + (k_off[None, :] + at_d[:, None]))
    if not EVEN:
        kt = tl.where((rd < D)[:, None], kt, 0.0)
    s = tl.dot(qt, kt)
    if TAIL > 0:
        k_tail = tl.load(k + (k_off[None, :] + (HEAD + tl.arange(0, TAIL))[:, None]))
        s = tl.dot(q_tail, k_tail, s)
    s = s * scale
    if softcap > 0.0:
        # tanh(x) = 1 - 2 / (e^2x + 1), and s is x * softcap * log2 e.
        s = softcap * LOG2E * (1.0 - 2.0 / (tl.math.exp2(s * (2.0 / softcap)) + 1.0))
    if MASKED:
        s = tl.where(seen, s, float("-inf"))
    higher = tl.maximum(peak, tl.max(s, 1))
    # -inf - -inf is NaN: a row that has seen no key yet is measured from 0.
    base = tl.where(higher == float("-inf"), 0.0, higher)
    p = tl.math.exp2(s - base[:, None])
    shrink = tl.math.exp2(peak - base)
    total = total * shrink + tl.sum(p, 1)
    acc = acc * shrink[:, None]
    vt = tl.load(v + (v_off[:, None] + at_v[None, :]))
    acc = tl.dot(_to_storage(p, qt, AWAY), vt, acc)
    return acc, total, higher


@triton.jit
def _tokens_of(sequence, starts, lengths, by_lengths, SQ):
    """Where the tokens of a sequence start, and how many there are."""
    first = tl.minimum(tl.maximum(tl.load(starts + sequence), 0), SQ)
    after = tl.load(starts + sequence + 1, mask=by_lengths == 0, other=0)
    count = tl.load(lengths + sequence, mask=by_lengths != 0, other=0)
    count = tl.where(by_lengths != 0, count, after - first)
    return first, tl.minimum(tl.maximum(count, 0), SQ - first)


@triton.jit
def _prefix_of(sequence, prefix_starts, has_prefix, listed, NB):
    """Where the indices of a sequence's keys in the cache start, and how many there are."""
    first = sequence * 0
    count = sequence * 0
    if has_prefix != 0:
        first = tl.minimum(tl.maximum(tl.load(prefix_starts + sequence), 0), listed)
        count = tl.load(prefix_starts + sequence + 1) - first
        count = tl.minimum(tl.maximum(count, 0), listed - first)
        count = tl.where(NB > 0, count, 0)
    return first, count


@triton.jit
def extend_attn_fwd_kernel(
    out,
    q,
    k,
    v,
    k_cache,
    v_cache,
    starts,
    lengths,
    prefix_starts,
    indices,
    mask,
    mask_starts,
    sequences,
    HQ,
    HK,
    SQ,
    D,
    DV,
    NB,
    listed,
    masked,
    most,
    by_lengths,
    has_prefix,
    causal,
    has_mask,
    mask_prefix,
    out_stride_s,
    out_stride_h,
    q_stride_s,
    q_stride_h,
    k_stride_s,
    k_stride_h,
    v_stride_s,
    v_stride_h,
    k_cache_stride_s,
    k_cache_stride_h,
    v_cache_stride_s,
    v_cache_stride_h,
    softmax_scale,
    softcap,
    HEAD: tl.constexpr,
    TAIL: tl.constexpr,
    VHEAD: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    AWAY: tl.constexpr,
    XCDS: tl.constexpr,
    EVEN: tl.constexpr,
):
    pack = HQ // HK
    tiles = tl.cdiv(most * pack, BM)
    pid = _renumber(tl.program_id(0), tiles * HK * sequences, XCDS)
    # Causal tiles with the most keys start first, so that short ones fill the end of the run.
    tile = tiles - 1 - pid % tiles
    group = pid // tiles % HK
    sequence = pid // tiles // HK

    first_q, tokens = _tokens_of(sequence, starts, lengths, by_lengths, SQ)
    rows = tl.minimum(tokens, most) * pack
    m0 = tile * BM
    if m0 >= rows:
        return
    first_p, prefix = _prefix_of(sequence, prefix_starts, has_prefix, listed, NB)

    row = tl.minimum(m0 + tl.arange(0, BM), rows - 1)
    # Row r of a tile is token r / pack of head r % pack in the group.
    query = row // pack
    head = group * pack + row % pack
    place = (first_q + query).to(tl.int64)
    off_q = place * q_stride_s + head.to(tl.int64) * q_stride_h
    qt, q_tail = _load_q(q + off_q[:, None], D, HEAD, TAIL, EVEN)
    # The running maximum is taken after scaling, so a negative scale is as good as a positive one.
    scale = softmax_scale * LOG2E

    tl.assume(k_stride_s >= 0)
    tl.assume(v_stride_s >= 0)
    tl.assume(k_stride_s <= STRIDE_LIMIT)
    tl.assume(v_stride_s <= STRIDE_LIMIT)
    k += group.to(tl.int64) * k_stride_h
    v += group.to(tl.int64) * v_stride_h
    k_cache += group.to(tl.int64) * k_cache_stride_h
    v_cache += group.to(tl.int64) * v_cache_stride_h
    indices += first_p

    peak = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, VHEAD], tl.float32)
    rn = tl.arange(0, BN)

    bounded = (causal != 0) & (has_mask == 0)
    limit = tl.where(bounded, query, tokens - 1)
    end = tl.where(bounded, tl.minimum(m0 + BM - 1, rows - 1) // pack + 1, tokens)
    # Tiles whose keys are seen by all rows: of the cache, and of the new tokens.
    whole_p = tl.where((has_mask != 0) & (mask_prefix != 0), 0, prefix // BN)
    whole = tl.where(bounded, m0 // pack + 1, tl.where(has_mask != 0, 0, tokens)) // BN

    for index in tl.range(0, whole_p):
        number = tl.load(indices + (index * BN + rn)).to(tl.int64)
        acc, total, peak = _fold(
            acc,
            total,
            peak,
            qt,
            q_tail,
            k_cache,
            v_cache,
            number * k_cache_stride_s,
            number * v_cache_stride_s,
            rn,
            scale,
            softcap,
            D,
            DV,
            HEAD,
            TAIL,
            VHEAD,
            False,
            AWAY,
            EVEN,
        )
    for index in tl.range(0, whole):
        start = (first_q + index * BN).to(tl.int64)
        acc, total, peak = _fold(
            acc,
            total,
            peak,
            qt,
            q_tail,
            k + start * k_stride_s,
            v + start * v_stride_s,
            rn * k_stride_s,
            rn * v_stride_s,
            rn,
            scale,
            softcap,
            D,
            DV,
            HEAD,
            TAIL,
            VHEAD,
            False,
            AWAY,
            EVEN,
        )
    rest_p = tl.cdiv(prefix, BN) - whole_p
    for index in tl.range(0, rest_p + tl.cdiv(end, BN) - whole, num_stages=1):
        new = index >= rest_p
        key = tl.where(new, whole + index - rest_p, whole_p + index) * BN + rn
        # A key past the end repeats the last one: the loads need no mask, the logits have one.
        at = tl.minimum(key, tl.where(new, end, prefix) - 1)
        listing = (at >= 0) & (index < rest_p)
        number = tl.load(indices + at, mask=listing, other=0)
        number = tl.where(new, first_q + at, number).to(tl.int64)
        high = tl.where(new, limit, prefix - 1)
        seen = key[None, :] <= high[:, None]
        if (has_mask != 0) & (new | (mask_prefix != 0)):
            spot = tl.load(mask_starts + sequence).to(tl.int64)
            spot = spot + query.to(tl.int64) * (prefix + tokens) + tl.where(new, prefix, 0)
            spot = spot[:, None] + key[None, :]
            there = seen & (spot >= 0) & (spot < masked)
            seen = there & (tl.load(mask + spot, mask=there, other=0) != 0)
        acc, total, peak = _fold(
            acc,
            total,
            peak,
            qt,
            q_tail,
            tl.where(new, k, k_cache),
            tl.where(new, v, v_cache),
            number * tl.where(new, k_stride_s, k_cache_stride_s),
            number * tl.where(new, v_stride_s, v_cache_stride_s),
            seen,
            scale,
            softcap,
            D,
            DV,
            HEAD,
            TAIL,
            VHEAD,
            True,
            AWAY,
            EVEN,
        )

    # A row that saw no key has acc 0 and total 0; one with NaN has NaN in both.
    acc = acc / tl.where(total != 0.0, total, 1.0)[:, None]
    rv = tl.arange(0, VHEAD)
    stored = ((m0 + tl.arange(0, BM)) < rows)[:, None]
    if not EVEN:
        stored = stored & (rv < DV)[None, :]
    off_out = place * out_stride_s + head.to(tl.int64) * out_stride_h
    tl.store(out + (off_out[:, None] + rv[None, :]), acc.to(out.dtype.element_ty), mask=stored)
