"""Flash attention with dropout, forward; dense, or sequences of different lengths one behind the other.

    P[i, j]   = softmax(S[i])[j], S as in attention_ragged.py
    out[i]    = sum_j P[i, j] * keeps(i, j) / (1 - p) * v[j, h / (HQ / HK)]
    lse[i]    = ln(sum_j exp(S[i, j])), of which dropout changes nothing

keeps(i, j) is 1 where the random byte of query i and key j is at most `keep`, floor(255 * (1 - p)).

The bytes are those of Composable Kernel's attention (ck_tile, `BlockDropout`), so that equal states give equal masks.
Philox4x32 with 7 rounds has the seed as key.  Its counter is offset + (batch * HQ + head) * 64 + lane (64 bits), then row / 32,
then column / 32.  Each of 64 lanes gets 16 bytes of a tile of 32 rows and 32 columns: row 16 a + 8 h + r (r < 8) and column c
are byte 8 a + r of lane 32 h + c.  Rows and columns count from the first query and key of a sequence.

Launches, in order
  `dropout_bytes_kernel`    where the caller asks for them: bytes *u8 [b, HQ, SQ, columns], whatever a mask hides.  A workgroup
                            a tile: grid cdiv(most, BM) * cdiv(columns, BN) * HQ * batches
  `dropout_attn_kernel`     out and lse, a workgroup a tile of BM queries: grid cdiv(most, BM) * HQ * batches
What an argument is, by name:
  out *T [b, SQ, HQ, DV], q *T [b, SQ, HQ, D], k *T [b, SK, HK, D], v *T [b, SK, HK, DV]; strides are in elements, of a batch
  (_b), a row (_s), a head (_h); the last dimension is contiguous
  lse *f32 [b, HQ, SQ] contiguous | rows_b i64: its stride of a batch | write_lse i32 | sinks *f32 [HQ], where has_sinks is not 0
  state *i64 [2]: seed and offset | keep i32 | share f32: 1 / (1 - p)
  ragged i32: 0 for batches that are alike; 1 for sequences, which have the queries from starts_q[s] to starts_q[s + 1] (i32) of
  the SQ rows and the keys from starts_k[s] to starts_k[s + 1] of SK, all batch strides and rows_b being 0
  most i32: the most queries of a batch; rows behind it are not written | skip i32: sequences of no more queries are left alone
  first_keys, left, right i32, softcap f32: as in attention_ragged.py
constexprs  HEAD (padded D), VHEAD (padded DV), BM, BN (multiples of 32), AWAY (round to bf16 ties away from zero, gfx942), XCDS,
            EVEN

EVEN = 1 is the aligned specialisation: D = HEAD and DV = VHEAD, 16-byte pointers of T, strides of rows and heads that are
multiples of 16 elements (`tt.divisibility` 16), and those of batches too where there are several.  EVEN = 0 takes smaller heads
at any address.

guarantee   0 <= k_stride_s, v_stride_s <= STRIDE_LIMIT; lengths, first_keys, left and right stay below 2^30

The logits are kept in base 2 (scale * log2 e), since v_exp_f32 and ex2 compute 2^x.
"""

import triton
import triton.language as tl
from attention import STRIDE_LIMIT, _renumber, _to_storage
from attention_bwd import _bounds, _origin, _span
from attention_ragged import LN2, LOG2E, _capped

#: Lanes of a wave, each of which has a counter of its own.
LANES: tl.constexpr = tl.constexpr(64)
ROUNDS: tl.constexpr = tl.constexpr(7)


@triton.jit
def _counter(state, batch, head, HQ):
    """Seed and counter of a head's first lane, each as low and high word."""
    seed = tl.load(state).to(tl.uint64, bitcast=True)
    offset = tl.load(state + 1).to(tl.uint64, bitcast=True)
    place = batch.to(tl.uint64) * HQ.to(tl.uint64) + head.to(tl.uint64)
    offset += place * LANES
    return seed.to(tl.uint32), (seed >> 32).to(tl.uint32), offset.to(tl.uint32), (offset >> 32).to(tl.uint32)


@triton.jit
def _bytes(seed_low, seed_high, low, high, row, column, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Random bytes [ROWS, COLUMNS] of the rows and columns from `row` and `column` on, multiples of 32."""
    block = tl.arange(0, ROWS // 32)[:, None, None]
    half = tl.arange(0, 2)[None, :, None]
    at = tl.arange(0, COLUMNS)[None, None, :]
    lane = (half * 32 + at % 32).to(tl.uint32)
    zero = (block * 0).to(tl.uint32)
    c0 = low + lane
    c1 = tl.where(c0 < lane, high + 1, high)
    c2 = (row // 32 + block + half * 0 + at * 0).to(tl.uint32)
    c3 = ((column + at) // 32 + half * 0).to(tl.uint32) + zero
    one, two, three, four = tl.philox_impl(c0 + zero, c1 + zero, c2, c3, seed_low, seed_high, ROUNDS)
    # Dims: block, half, column, group of four rows, half of the block; then the byte of a word.
    words = tl.join(tl.join(one, two), tl.join(three, four))
    shift = (tl.arange(0, 4) * 8).to(tl.uint32)
    found = ((words[:, :, :, :, :, None] >> shift[None, None, None, None, None, :]) & 255).to(tl.uint8)
    return tl.permute(found, (0, 4, 1, 3, 5, 2)).reshape(ROWS, COLUMNS)


@triton.jit
def dropout_bytes_kernel(
    bytes, state, starts_q, batches, HQ, SQ, columns, most, ragged, BM: tl.constexpr, BN: tl.constexpr
):
    tiles = tl.cdiv(most, BM)
    wide = tl.cdiv(columns, BN)
    pid = tl.program_id(0)
    n0 = pid % wide * BN
    m0 = pid // wide % tiles * BM
    head = pid // wide // tiles % HQ
    batch = pid // wide // tiles // HQ
    first, queries = _span(starts_q, batch, SQ, ragged)
    queries = tl.minimum(queries, most)
    if m0 >= queries:
        return
    seed_low, seed_high, low, high = _counter(state, batch, head, HQ)
    found = _bytes(seed_low, seed_high, low, high, m0, n0, BM, BN)
    rows = m0 + tl.arange(0, BM)
    at = n0 + tl.arange(0, BN)
    # Rows of sequences lie in one batch.
    of = tl.where(ragged != 0, 0, batch).to(tl.int64) * HQ + head
    base = (of * SQ + first + rows) * columns
    tl.store(
        bytes + (base[:, None] + at[None, :]), found, mask=(rows < queries)[:, None] & (at < columns)[None, :]
    )


@triton.jit
def dropout_attn_kernel(
    out,
    q,
    k,
    v,
    lse,
    sinks,
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
    write_lse,
    has_sinks,
    skip,
    first_keys,
    left,
    right,
    keep,
    rows_b,
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
    softcap,
    share,
    HEAD: tl.constexpr,
    VHEAD: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    AWAY: tl.constexpr,
    XCDS: tl.constexpr,
    EVEN: tl.constexpr,
):
    tiles = tl.cdiv(most, BM)
    pid = _renumber(tl.program_id(0), tiles * HQ * batches, XCDS)
    # Causal tiles with the most keys start first, so that short ones fill the end of the run.
    m0 = (tiles - 1 - pid % tiles) * BM
    head = pid // tiles % HQ
    batch = pid // tiles // HQ
    head_k = head // (HQ // HK)
    first_q, queries = _span(starts_q, batch, SQ, ragged)
    first_k, keys = _span(starts_k, batch, SK, ragged)
    rows = tl.minimum(queries, most)
    if (queries <= skip) | (m0 >= rows):
        return
    tl.assume(q_stride_s >= 0)
    tl.assume(k_stride_s >= 0)
    tl.assume(v_stride_s >= 0)
    tl.assume(q_stride_s <= STRIDE_LIMIT)
    tl.assume(k_stride_s <= STRIDE_LIMIT)
    tl.assume(v_stride_s <= STRIDE_LIMIT)
    rm = tl.arange(0, BM)
    inside = rm < rows - m0
    # A query behind the last repeats it, and its sums are not stored.
    tl.assume(rows - m0 - 1 >= 0)
    near_q = tl.minimum(rm, rows - m0 - 1)
    rd = tl.arange(0, HEAD)
    rv = tl.arange(0, VHEAD)
    at_d = rd
    at_v = rv
    if not EVEN:
        # Columns behind the last repeat it, so that no load needs a mask.
        at_d = tl.minimum(rd, D - 1)
        at_v = tl.minimum(rv, DV - 1)
    q = _origin(q, batch, q_stride_b, first_q + m0, q_stride_s, head, q_stride_h, EVEN)
    k = _origin(k, batch, k_stride_b, first_k, k_stride_s, head_k, k_stride_h, EVEN)
    v = _origin(v, batch, v_stride_b, first_k, v_stride_s, head_k, v_stride_h, EVEN)
    qt = tl.load(q + (near_q[:, None] * q_stride_s + at_d[None, :]))
    if not EVEN:
        qt = tl.where((rd < D)[None, :], qt, 0.0)

    peak = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    if has_sinks != 0:
        peak = tl.zeros([BM], tl.float32) + tl.load(sinks + head) * LOG2E
        total = tl.full([BM], 1.0, tl.float32)
    acc = tl.zeros([BM, VHEAD], tl.float32)
    scale = softmax_scale * LOG2E
    ahead = keys - queries
    far, near = _bounds(left, right)
    low = tl.maximum(rm + (m0 + ahead - far), 0)
    high = tl.minimum(rm + (m0 + ahead + near), keys - 1)
    # Keys before `begin` and from `end` on are seen by no row, but for the `lead` tiles from key 0 on.
    last = tl.minimum(m0 + BM, rows) - 1
    begin = tl.maximum(m0 + ahead - far, 0) // BN * BN
    end = tl.maximum(tl.minimum(last + ahead + near, keys - 1) + 1, 0)
    lead = tl.minimum(tl.cdiv(tl.minimum(first_keys, keys), BN), begin // BN)
    seed_low, seed_high, count_low, count_high = _counter(state, batch, head, HQ)
    rn = tl.arange(0, BN)
    for index in tl.range(0, lead + tl.cdiv(tl.maximum(end - begin, 0), BN)):
        start = tl.where(index < lead, index * BN, begin + (index - lead) * BN)
        # A key past the end repeats the last one: the loads need no mask, the logits have one.
        at = tl.minimum(rn, keys - 1 - start)
        kp = k + start.to(tl.int64) * k_stride_s
        vp = v + start.to(tl.int64) * v_stride_s
        kt = tl.load(kp + (at[None, :] * k_stride_s + at_d[:, None]))
        if not EVEN:
            kt = tl.where((rd < D)[:, None], kt, 0.0)
        s = tl.dot(qt, kt) * scale
        s = _capped(s, softcap)
        key = start + rn
        seen = (key[None, :] >= low[:, None]) | (key < first_keys)[None, :]
        s = tl.where(seen & (key[None, :] <= high[:, None]), s, float("-inf"))
        higher = tl.maximum(peak, tl.max(s, 1))
        # -inf - -inf is NaN: a row that has seen no key yet is measured from 0.
        base = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.math.exp2(s - base[:, None])
        shrink = tl.math.exp2(peak - base)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        kept = _bytes(seed_low, seed_high, count_low, count_high, m0, start, BM, BN) <= keep
        p = tl.where(kept, p, 0.0)
        vt = tl.load(vp + (at[:, None] * v_stride_s + at_v[None, :]))
        acc = tl.dot(_to_storage(p, qt, AWAY), vt, acc)
        peak = higher

    stored = inside[:, None]
    if not EVEN:
        stored = stored & (rv < DV)[None, :]
    # A row that saw no key has acc 0 and total 0; one with NaN has NaN in both.
    some = total != 0.0
    acc = acc * (share / tl.where(some, total, 1.0))[:, None]
    out = _origin(out, batch, out_stride_b, first_q + m0, out_stride_s, head, out_stride_h, EVEN)
    place = rm.to(tl.int64) * out_stride_s
    tl.store(out + (place[:, None] + rv[None, :]), acc.to(out.dtype.element_ty), mask=stored)
    value = tl.where(some, (peak + tl.math.log2(total)) * LN2, float("-inf"))
    row = batch.to(tl.int64) * rows_b + head.to(tl.int64) * SQ + (first_q + m0) + rm
    tl.store(lse + row, value, mask=inside & (write_lse != 0))
