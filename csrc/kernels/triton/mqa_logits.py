"""Logits of DeepSeek-V3.2's indexer: how much each query wants to see each key, over one head of keys in fp8.

    logits[r, j] = sum_h weights[r, h] * max(0, (q[r, h] . k[j]) * k_scale[j])            start[r] <= j < end[r]

The products are fp8 with fp32 sums, the rest is fp32.  A product that is NaN counts as 0, as the maximum of the hardware has it.
fp8 is the target's own e4m3.

`mqa_logits_kernel`: keys that lie one behind the other.  Arguments, in order
    0 logits *f32 [M, N] | 1 q *fp8 [M, H, D] | 2 k *fp8 [N, D] | 3 k_scales *f32 [N] | 4 weights *f32 [M, H]
    5 starts *i32 [M] | 6 ends *i32 [M]: cut to 0 .. N
    7 M i32 | 8 N i32 | 9 H i32 | 10 D i32 | 11 chunk i32, a multiple of BN: the keys of one program
    12 clean i32: 1 writes -inf in the other columns, 0 leaves them as they are
    13 logits_stride i64 | 14 q_stride_m i64 | 15 q_stride_h i32 | 16 k_stride i32 | 17 weights_stride i64
  grid        (cdiv(M, ROWS) * cdiv(N, chunk), 1, 1)

`paged_mqa_logits_kernel`: keys in pages of a cache, each with the codes [page_size, D] and behind them the keys' scales.
    0 logits *f32 [sequences * queries, width] | 1 q *fp8 [sequences, queries, H, D] | 2 cache *u8 or fp8 | 3 weights *f32 [.., H]
    4 lengths *i32 [sequences]: the keys of each sequence, those of its queries among them: query i of n sees length - n + i + 1
    5 pages *i32 [sequences, ..]: the pages of each sequence in order
    6 sequences i32 | 7 queries i32 | 8 H i32 | 9 D i32 | 10 page_size i32
    11 most i32: keys from there on are not looked at | 12 chunk i32
    13 logits_stride i64 | 14 q_stride_s i64 | 15 q_stride_n i32 | 16 q_stride_h i32
    17 page_stride i64, in bytes, a multiple of 4 | 18 pages_stride i32 | 19 weights_stride i64
  A query's logits are -inf from what it sees up to the sequence's length, and stay as they are behind it.
  grid        (sequences * cdiv(queries, ROWS) * cdiv(most, chunk), 1, 1)

  Strides are in elements and the last dimension is contiguous.
  constexprs  HEADS (= H), SIZE (= D), ROWS (1 or 2) queries of one program, which read a key once, BN keys at a time, XCDS, EVEN;
              paged: SHUFFLED = 1: the codes of 16 keys lie as tiles of 16 keys and 16 columns, one behind the other
  workspace   none

guarantee   0 <= k_stride <= STRIDE_LIMIT (2^23 elements); N, most and chunk stay below 2^29

EVEN = 1 keeps the queries in registers; with `tt.divisibility` 16 of q, k or cache and their strides it reads 16 bytes at a time.
EVEN = 0 takes any H and D, HEADS heads and SIZE columns at a time for one query, and assumes no alignment. Pages
begin at multiples of 4 bytes in each.
"""

import triton
import triton.language as tl
from attention import STRIDE_LIMIT, _renumber


@triton.jit
def _share(tile, kt, scales, weight):
    """[BN]: what some heads of one query add to the logits."""
    s = tl.dot(tile, kt) * scales[None, :]
    return tl.sum(tl.maximum(s, 0.0) * weight[:, None], 0)


@triton.jit
def _tile(q, q_stride_h, HEADS: tl.constexpr, SIZE: tl.constexpr):
    """One query [HEADS, SIZE]."""
    return tl.load(q + (tl.arange(0, HEADS)[:, None] * q_stride_h + tl.arange(0, SIZE)[None, :]))


@triton.jit
def _columns(d, SHUFFLED: tl.constexpr):
    """Where the columns of a key lie."""
    return d // 16 * 256 + d % 16 if SHUFFLED else d


@triton.jit
def _row(key, size, SHUFFLED: tl.constexpr):
    """Where the codes of a page's key begin."""
    return key // 16 * (16 * size) + key % 16 * 16 if SHUFFLED else key * size


@triton.jit
def _any_heads(
    q,
    weights,
    k,
    k_off,
    scales,
    H,
    D,
    q_stride_h,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    BN: tl.constexpr,
    SHUFFLED: tl.constexpr,
):
    """[BN]: the logits of one query, of any H and D."""
    value = tl.zeros([BN], tl.float32)
    for h in tl.range(0, H, HEADS, num_stages=1):
        head = h + tl.arange(0, HEADS)
        s = tl.zeros([HEADS, BN], tl.float32)
        for d in tl.range(0, D, SIZE, num_stages=1):
            rd = d + tl.arange(0, SIZE)
            off = head[:, None] * q_stride_h + rd[None, :]
            tile = tl.load(q + off, mask=(head < H)[:, None] & (rd < D)[None, :], other=0.0)
            kt = tl.load(
                k + (k_off[None, :] + _columns(rd, SHUFFLED)[:, None]), mask=(rd < D)[:, None], other=0.0
            )
            s = tl.dot(tile, kt, s)
        s = tl.maximum(s * scales[None, :], 0.0)
        weight = tl.load(weights + head, mask=head < H, other=0.0)
        value += tl.sum(s * weight[:, None], 0)
    return value


@triton.jit
def mqa_logits_kernel(
    logits,
    q,
    k,
    k_scales,
    weights,
    starts,
    ends,
    M,
    N,
    H,
    D,
    chunk,
    clean,
    logits_stride,
    q_stride_m,
    q_stride_h,
    k_stride,
    weights_stride,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    BN: tl.constexpr,
    XCDS: tl.constexpr,
    EVEN: tl.constexpr,
):
    tiles = tl.cdiv(M, ROWS)
    pid = _renumber(tl.program_id(0), tiles * tl.cdiv(N, chunk), XCDS)
    # Programs that run at one time read the same keys.
    row = (pid % tiles * ROWS).to(tl.int64)
    low = pid // tiles * chunk
    high = tl.minimum(low + chunk, N)

    # With an odd M the last row stands twice in its tile, and is written twice.
    other = tl.minimum(row + ROWS - 1, M - 1)
    start = tl.maximum(tl.load(starts + row), 0)
    end = tl.minimum(tl.load(ends + row), N)
    start_o = tl.maximum(tl.load(starts + other), 0)
    end_o = tl.minimum(tl.load(ends + other), N)
    # The tiles of keys that a row sees; one that sees none has no say.
    first = tl.minimum(tl.where(end > start, start, N), tl.where(end_o > start_o, start_o, N))
    final = tl.maximum(tl.where(end > start, end, 0), tl.where(end_o > start_o, end_o, 0))
    bound = low + tl.cdiv(high - low, BN) * BN
    begin = tl.minimum(tl.maximum(first, low) // BN * BN, bound)
    stop = low + tl.cdiv(tl.maximum(tl.minimum(final, high) - low, 0), BN) * BN
    stop = tl.maximum(stop, begin)

    rn = tl.arange(0, BN)
    place = logits + row * logits_stride
    place_o = logits + other * logits_stride
    if clean != 0:
        # Before and behind them; their number is known, so that one loop does both.
        for index in tl.range(0, (begin - low + bound - stop) // BN, num_stages=1):
            at = low + index * BN
            at += tl.where(at >= begin, stop - begin, 0)
            key = at + rn
            nothing = tl.full([BN], float("-inf"), tl.float32)
            tl.store(place + key, nothing, mask=key < high)
            if ROWS > 1:
                tl.store(place_o + key, nothing, mask=key < high)
    if begin >= stop:
        return

    q_o = q + other * q_stride_m
    q += row * q_stride_m
    weights_o = weights + other * weights_stride
    weights += row * weights_stride
    if EVEN:
        tile = _tile(q, q_stride_h, HEADS, SIZE)
        tile_o = _tile(q_o, q_stride_h, HEADS, SIZE)
        weight = tl.load(weights + tl.arange(0, HEADS))
        weight_o = tl.load(weights_o + tl.arange(0, HEADS))
    tl.assume(k_stride >= 0)
    tl.assume(k_stride <= STRIDE_LIMIT)
    for at in tl.range(begin, stop, BN):
        key = at + rn
        tl.assume(N - 1 - at >= 0)
        # Keys behind the last repeat it: the loads need no mask.
        ahead = tl.minimum(rn, N - 1 - at)
        k_off = ahead * k_stride
        near = k + at.to(tl.int64) * k_stride
        scales = tl.load(k_scales + at + ahead)
        if EVEN:
            kt = tl.load(near + (k_off[None, :] + tl.arange(0, SIZE)[:, None]))
            value = _share(tile, kt, scales, weight)
        else:
            value = _any_heads(q, weights, near, k_off, scales, H, D, q_stride_h, HEADS, SIZE, BN, False)
        seen = (key >= start) & (key < end)
        tl.store(place + key, tl.where(seen, value, float("-inf")), mask=(key < high) & (seen | (clean != 0)))
        if ROWS > 1:
            value = _share(tile_o, kt, scales, weight_o)
            seen = (key >= start_o) & (key < end_o)
            value = tl.where(seen, value, float("-inf"))
            tl.store(place_o + key, value, mask=(key < high) & (seen | (clean != 0)))


@triton.jit
def paged_mqa_logits_kernel(
    logits,
    q,
    cache,
    weights,
    lengths,
    pages,
    sequences,
    queries,
    H,
    D,
    page_size,
    most,
    chunk,
    logits_stride,
    q_stride_s,
    q_stride_n,
    q_stride_h,
    page_stride,
    pages_stride,
    weights_stride,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    BN: tl.constexpr,
    SHUFFLED: tl.constexpr,
    XCDS: tl.constexpr,
    EVEN: tl.constexpr,
):
    pieces = tl.cdiv(most, chunk)
    tiles = tl.cdiv(queries, ROWS)
    pid = _renumber(tl.program_id(0), sequences * tiles * pieces, XCDS)
    query = pid % tiles * ROWS
    low = pid // tiles % pieces * chunk
    sequence = (pid // tiles // pieces).to(tl.int64)

    length = tl.load(lengths + sequence)
    high = tl.minimum(tl.minimum(low + chunk, length), most)
    if low >= high:
        return

    # With an odd number of queries the last stands twice in its tile, and is written twice.
    other = tl.minimum(query + ROWS - 1, queries - 1)
    place = logits + (sequence * queries + query) * logits_stride
    place_o = logits + (sequence * queries + other) * logits_stride
    weights_o = weights + (sequence * queries + other) * weights_stride
    weights += (sequence * queries + query) * weights_stride
    q += sequence * q_stride_s
    q_o = q + other * q_stride_n
    q += query * q_stride_n
    size = D
    if EVEN:
        size = SIZE
        tile = _tile(q, q_stride_h, HEADS, SIZE)
        tile_o = _tile(q_o, q_stride_h, HEADS, SIZE)
        weight = tl.load(weights + tl.arange(0, HEADS))
        weight_o = tl.load(weights_o + tl.arange(0, HEADS))
    rn = tl.arange(0, BN)
    page_words = page_stride // 4
    pages += sequence * pages_stride
    codes = cache.to(tl.pointer_type(q.dtype.element_ty), bitcast=True)
    numbers = cache.to(tl.pointer_type(tl.float32), bitcast=True)
    for at in tl.range(low, high, BN):
        key = at + rn
        # Keys behind the last repeat it: the loads need no mask.
        near = tl.minimum(key, high - 1)
        page = tl.load(pages + near // page_size).to(tl.int64) * page_words
        inner = near % page_size
        k_off = page * 4 + _row(inner, size, SHUFFLED)
        scales = tl.load(numbers + (page + page_size * size // 4 + inner))
        if EVEN:
            kt = tl.load(codes + (k_off[None, :] + _columns(tl.arange(0, SIZE), SHUFFLED)[:, None]))
            value = _share(tile, kt, scales, weight)
        else:
            value = _any_heads(q, weights, codes, k_off, scales, H, D, q_stride_h, HEADS, SIZE, BN, SHUFFLED)
        value = tl.where(key < length - queries + query + 1, value, float("-inf"))
        tl.store(place + key, value, mask=key < high)
        if ROWS > 1:
            value = _share(tile_o, kt, scales, weight_o)
            value = tl.where(key < length - queries + other + 1, value, float("-inf"))
            tl.store(place_o + key, value, mask=key < high)
