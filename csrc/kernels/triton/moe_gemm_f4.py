"""A mixture of experts with weights in MXFP4: two products over the lists of `moe_sorting_place`, as in `moe_gemm.py`.

    stage 1: inter[t, c] = act(x[t] @ gate^T + bias, x[t] @ up^T + bias)      gate, up: of w[expert of (t, c)]
    stage 2: parts[t, c] = inter[t, c] @ w[expert of (t, c)]^T + bias

A weight is a code of fp4 (e2m1) times a power of two (e8m0, a byte of 127 more than the exponent, 255 is NaN) that 32 columns of
a row share.  Rows of x and inter are T (bf16 or fp16; BITS = 16), or codes of fp8 (8, e4m3fn) or fp4 (4) with such scales, by the
last two kernels.  Sums are fp32 on the matrix units; what is stored is T, rounded once.

`moe_f4_stage1_kernel` and `moe_f4_stage2_kernel` arguments, in order
    0 out *T, of the first [tokens * topk, N], of the second [tokens * topk, NP] | 1 x *T [rows, row], or bytes of codes
      [rows, K] or [rows, K / 2]; rows are tokens, of the second token * topk + choice
    2 x_scales *u8 [rows, K / 32], not read with BITS = 16
    3 w *u8, of the first [E, 2 * NP, KP / 2], of the second [E, NP, KP / 2]: pairs of codes, the lower half first
    4 w_scales *u8: rows of all experts, KP / 32 up to a multiple of 8 each, in blocks of 32 rows and 8 columns, (r, c) of a
      block at place ((c % 4 * 16 + r % 16) * 2 + c // 4) * 2 + r // 16
    5 ids *i32, 6 weights *f32, 7 experts *i32, 8 valid *i32: the lists | 9 tokens i32 | 10 topk i32 | 11 E i32
    12 N i32, 13 NP i32: rows of w that count, and that there are, of the first of each half; the second's other columns become 0
    14 K i32, 15 KP i32: columns that count, and that there are | 16 row i32: elements from a row of x to the next
    17 blocks i32 | 18 shuffled i32: 1 where w lies in tiles of 16 rows and 16 bytes, 0 where its rows are contiguous
    19 weighted i32: 1 multiplies by the weights, of the first the sums, of the second what they are with bias
    20 bias *f32, of the first [E, 2 * NP], gate's first, of the second [E, NP]; not read where 21 biased i32 is 0
    of the first: 22 interleaved i32: 1 where 16 rows of gate and 16 of up take turns in w and w_scales
       23 activation i32, 24 limit f32: as in `moe_gemm.py`
  constexprs  T, BITS, BM, BN1 or BN2, BK (128 or 256), XCDS
  grid        (blocks * cdiv(N, BN1), 1, 1), (blocks * cdiv(NP, BN2), 1, 1)
  Rows of a block whose expert is none of E become 0.

`moe_f4_tokens_kernel` and `moe_f4_inter_kernel`, which make codes of the rows of the first and of the second, arguments in order
    0 codes *u8 [rows, K], or [rows, K / 2] with BITS = 4 | 1 scales *u8 [rows, K / 32] | 2 x *T [rows, row]
    3 K i32 | 4 row i32
  constexprs  T, BITS, BLOCK
  grid        (rows * cdiv(K, BLOCK), 1, 1)
  The scale is the smallest power of two with which no code is above the largest (448 or 6); codes are rounded to nearest even.
  A group with an infinity or NaN has a scale of NaN.

guarantee   x and w at 16 bytes; K, N, KP and NP multiples of 32; rows * row, rows * N and NP * KP below 2^30
"""

import triton
import triton.language as tl
from gemm import _renumber
from moe_gemm import _gated


@triton.jit
def _bytes(pointer):
    """A workspace's address as one of bytes, of which it is known that it is a multiple of 16.

    A workspace has no element type; to one of the same width it would be no conversion, and nothing would be known of it.
    """
    return tl.multiple_of(pointer.to(tl.pointer_type(tl.int16)), 16).to(tl.pointer_type(tl.uint8))


@triton.jit
def _bytes_at(n, kb, KB, shuffled):
    """Where byte kb of row n of a matrix lies, whose rows have KB bytes; 16 bytes are contiguous in either layout."""
    row = tl.where(shuffled != 0, 1, KB // 16)
    tile = tl.where(shuffled != 0, 16, 1)
    return (n // 16 * KB + n % 16 * row + kb // 16 * tile) * 16 + kb % 16


@triton.jit
def _scales_at(n, s, columns):
    """Where the scale of row n and of columns 32 * s and on lies; ``columns``: scales of a row."""
    return (n // 32 * (columns // 8) + s // 8) * 256 + s % 4 * 64 + n % 16 * 4 + s % 8 // 4 * 2 + n % 32 // 16


@triton.jit
def _multiplied(acc, x, x_scales, w, w_scales, BITS: tl.constexpr):
    """``acc`` with one more product of tiles."""
    if BITS == 16:
        form: tl.constexpr = "fp16" if x.dtype == tl.float16 else "bf16"
        acc = tl.dot_scaled(x, None, form, w, w_scales, "e2m1", acc, fast_math=True)
    elif BITS == 8:
        acc = tl.dot_scaled(x, x_scales, "e4m3", w, w_scales, "e2m1", acc, fast_math=True)
    else:
        acc = tl.dot_scaled(x, x_scales, "e2m1", w, w_scales, "e2m1", acc, fast_math=True)
    return acc


@triton.jit
def _sums(
    x,
    x_scales,
    off_x,
    off_xs,
    w,
    off_w,
    up_w,
    step,
    w_scales,
    off_s,
    up_s,
    groups,
    along,
    BITS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GATED: tl.constexpr,
    SWIZZLED: tl.constexpr,
):
    """A tile's sums over ``groups`` of 32 columns, and those of the rows of up, which are ``up_w`` and ``up_s`` bytes further.

    ``step`` bytes on are the next BK columns of w; ``along``: from a scale of a row to its next, where they are not swizzled.
    """
    PACK: tl.constexpr = 2 if BITS == 4 else 1
    rk = tl.arange(0, BK // PACK)
    rb = tl.arange(0, BK // 2)
    rs = tl.arange(0, BK // 32)
    acc = tl.zeros([BM, BN], tl.float32)
    acc_up = tl.zeros([BM, BN], tl.float32)
    # Masks end with whole groups of columns, so a load may be as wide as its part of one.
    for g0 in tl.range(0, groups, BK // 32):
        left = groups - g0
        part = tl.load(x + off_x, mask=(rk < left * (32 // PACK))[None, :], other=0)
        keep_s = (rs < left)[None, :]
        part_scales = tl.load(x_scales + off_xs, mask=keep_s, other=127) if BITS < 16 else None
        scales = w_scales + (g0 // 8 * 256 + g0 % 8 // 4 * 2 if SWIZZLED else g0 * along)
        keep = (rb < left * 16)[:, None]
        tile = tl.load(w + off_w, mask=keep, other=0)
        acc = _multiplied(acc, part, part_scales, tile, tl.load(scales + off_s, mask=keep_s, other=127), BITS)
        if GATED:
            tile = tl.load(w + (off_w + up_w), mask=keep, other=0)
            up_scales = tl.load(scales + (off_s + up_s), mask=keep_s, other=127)
            acc_up = _multiplied(acc_up, part, part_scales, tile, up_scales, BITS)
        x += BK // PACK
        x_scales += BK // 32
        w += step
    return acc, acc_up


@triton.jit
def _stage(
    out,
    x,
    x_scales,
    w,
    w_scales,
    ids,
    weights,
    experts,
    valid,
    tokens,
    topk,
    E,
    N,
    NP,
    K,
    KP,
    row,
    blocks,
    shuffled,
    weighted,
    bias,
    biased,
    interleaved,
    activation,
    limit,
    T: tl.constexpr,
    BITS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    XCDS: tl.constexpr,
    GATED: tl.constexpr,
):
    # A workspace has no element type of its own.
    half_type: tl.constexpr = tl.bfloat16 if T == "bf16" else tl.float16
    out = tl.multiple_of(out.to(tl.pointer_type(half_type)), 16)
    x = _bytes(x) if BITS < 16 else tl.multiple_of(x.to(tl.pointer_type(half_type)), 16)
    x_scales = x_scales.to(tl.pointer_type(tl.uint8))
    ids = ids.to(tl.pointer_type(tl.int32))
    weights = weights.to(tl.pointer_type(tl.float32))
    experts = experts.to(tl.pointer_type(tl.int32))
    valid = valid.to(tl.pointer_type(tl.int32))

    # What is known of an argument is lost on the way to the loads; what is computed is not.
    N = N // 32 * 32
    NP = NP // 32 * 32
    groups = K // 32
    row = row // 32 * 32
    width = N if GATED else NP
    pid = _renumber(tl.program_id(0), blocks * tl.cdiv(width, BN), XCDS)
    block = pid % blocks
    n0 = pid // blocks * BN
    if block * BM >= tl.load(valid):
        return
    expert = tl.load(experts + block)
    known = (expert >= 0) & (expert < E)
    expert = tl.where(known, expert, 0).to(tl.int64)

    place = block * BM + tl.arange(0, BM)
    number = tl.load(ids + place)
    token = number & 0xFFFFFF
    choice = (number >> 24) & 0xFF
    real = (token < tokens) & (choice < topk)
    line = tl.where(real, token * topk + choice, 0)
    source = tl.where(real, token, 0) if GATED else line

    # A row past the end repeats the last one: its load needs no mask of rows, and the store drops it.
    rn = n0 + tl.arange(0, BN)
    column = tl.minimum(rn, N - 1)
    rows = tl.where(interleaved != 0, column // 16 * 32 + column % 16, column) if GATED else column
    KB = KP // 32 * 16
    SC = tl.cdiv(KP, 256) * 8
    PACK: tl.constexpr = 2 if BITS == 4 else 1
    rk = tl.arange(0, BK // PACK)
    rb = tl.arange(0, BK // 2)
    rs = tl.arange(0, BK // 32)
    off_x = source[:, None] * (row // PACK) + rk[None, :]
    off_xs = source[:, None] * groups + rs[None, :]
    off_w = _bytes_at(rows[None, :], rb[:, None], KB, shuffled)
    off_s = _scales_at(rows[:, None], rs[None, :], SC)
    step = tl.where(shuffled != 0, BK // 32 * 256, BK // 2)
    w += expert * (2 if GATED else 1) * NP * KB
    w_scales += expert * (2 if GATED else 1) * NP * SC
    up_w = tl.where(interleaved != 0, 16, NP) * KB
    up_s = tl.where(interleaved != 0, 1, NP * SC)

    there = tl.where(n0 < N, groups, 0)
    acc, acc_up = _sums(
        x,
        x_scales,
        off_x,
        off_xs,
        w,
        off_w,
        up_w,
        step,
        w_scales,
        off_s,
        up_s,
        there,
        0,
        BITS,
        BM,
        BN,
        BK,
        GATED,
        1,
    )

    factor = tl.full([BM], 1.0, tl.float32)
    if weighted != 0:
        factor = tl.load(weights + place)
    if GATED:
        acc *= factor[:, None]
        acc_up *= factor[:, None]
    if biased != 0:
        bias += expert * (2 if GATED else 1) * NP
        acc += tl.load(bias + column)[None, :]
        if GATED:
            acc_up += tl.load(bias + (column + NP))[None, :]
    if GATED:
        acc = _gated(acc, acc_up, activation, limit)
    else:
        acc *= factor[:, None]
    acc = tl.where(known & (rn < N)[None, :], acc, 0.0)
    off = line.to(tl.int64)[:, None] * width + rn[None, :]
    tl.store(out + off, acc.to(half_type), mask=real[:, None] & (rn < width)[None, :])


@triton.jit
def moe_f4_stage1_kernel(
    out,
    x,
    x_scales,
    w,
    w_scales,
    ids,
    weights,
    experts,
    valid,
    tokens,
    topk,
    E,
    N,
    NP,
    K,
    KP,
    row,
    blocks,
    shuffled,
    weighted,
    bias,
    biased,
    interleaved,
    activation,
    limit,
    T: tl.constexpr,
    BITS: tl.constexpr,
    BM: tl.constexpr,
    BN1: tl.constexpr,
    BK: tl.constexpr,
    XCDS: tl.constexpr,
):
    _stage(
        out,
        x,
        x_scales,
        w,
        w_scales,
        ids,
        weights,
        experts,
        valid,
        tokens,
        topk,
        E,
        N,
        NP,
        K,
        KP,
        row,
        blocks,
        shuffled,
        weighted,
        bias,
        biased,
        interleaved,
        activation,
        limit,
        T,
        BITS,
        BM,
        BN1,
        BK,
        XCDS,
        1,
    )


@triton.jit
def moe_f4_stage2_kernel(
    out,
    x,
    x_scales,
    w,
    w_scales,
    ids,
    weights,
    experts,
    valid,
    tokens,
    topk,
    E,
    N,
    NP,
    K,
    KP,
    row,
    blocks,
    shuffled,
    weighted,
    bias,
    biased,
    T: tl.constexpr,
    BITS: tl.constexpr,
    BM: tl.constexpr,
    BN2: tl.constexpr,
    BK: tl.constexpr,
    XCDS: tl.constexpr,
):
    _stage(
        out,
        x,
        x_scales,
        w,
        w_scales,
        ids,
        weights,
        experts,
        valid,
        tokens,
        topk,
        E,
        N,
        NP,
        K,
        KP,
        row,
        blocks,
        shuffled,
        weighted,
        bias,
        biased,
        0,
        0,
        0.0,
        T,
        BITS,
        BM,
        BN2,
        BK,
        XCDS,
        0,
    )


@triton.jit
def _fp4(v):
    """The codes of numbers of at most 6: from 2 on the distance of two doubles, from 4 on once more."""
    size = tl.abs(v)
    MAGIC: tl.constexpr = (
        12582912.0  # 1.5 * 2^23: what is added to it is rounded to nearest even, to an integer
    )
    scaled = tl.where(size < 2, size * 2, tl.where(size < 4, size, size * 0.5))
    whole = (scaled + MAGIC).to(tl.int32, bitcast=True) & 7
    code = whole + tl.where(size < 2, 0, tl.where(size < 4, 2, 4))
    return code | ((v.to(tl.int32, bitcast=True) >> 28) & 8)


@triton.jit
def _quantise(codes, scales, x, K, row, T: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr):
    x = tl.multiple_of(x.to(tl.pointer_type(tl.bfloat16 if T == "bf16" else tl.float16)), 16)
    scales = scales.to(tl.pointer_type(tl.uint8))
    K = K // 32 * 32
    row = row // 32 * 32
    parts = tl.cdiv(K, BLOCK)
    line = (tl.program_id(0) // parts).to(tl.int64)
    start = tl.program_id(0) % parts * BLOCK
    col = start + tl.arange(0, BLOCK)
    v = tl.load(x + line * row + col, mask=col < K, other=0.0).to(tl.float32)
    v = tl.reshape(v, [BLOCK // 32, 32])
    # As integers sizes have the same order, and a NaN is the largest.
    amax = tl.max(v.to(tl.int32, bitcast=True) & 0x7FFFFFFF, axis=1, keep_dims=True)
    # 6 is 1.5 * 4, 448 is 1.75 * 256: a larger fraction goes to the next power.
    UP: tl.constexpr = 0x3FFFFF if BITS == 4 else 0x1FFFFF
    power = tl.maximum(((amax + UP) >> 23) - (2 if BITS == 4 else 8), 0)
    finite = amax < 0x7F800000
    power = tl.where(finite, power, 255)
    v = tl.where(finite, v * ((254 - power) << 23).to(tl.float32, bitcast=True), 0.0)
    group = start // 32 + tl.arange(0, BLOCK // 32)
    tl.store(
        scales + line * (K // 32) + group, tl.reshape(power, [BLOCK // 32]).to(tl.uint8), mask=group * 32 < K
    )
    if BITS == 4:
        codes = _bytes(codes)
        low, high = tl.split(tl.reshape(_fp4(v), [BLOCK // 2, 2]))
        pair = start // 2 + tl.arange(0, BLOCK // 2)
        tl.store(codes + line * (K // 2) + pair, (low | (high << 4)).to(tl.uint8), mask=pair < K // 2)
    else:
        codes = tl.multiple_of(codes.to(tl.pointer_type(tl.float8e4nv)), 16)
        tl.store(codes + line * K + col, tl.reshape(v, [BLOCK]).to(tl.float8e4nv), mask=col < K)


@triton.jit
def moe_f4_tokens_kernel(codes, scales, x, K, row, T: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr):
    _quantise(codes, scales, x, K, row, T, BITS, BLOCK)


@triton.jit
def moe_f4_inter_kernel(codes, scales, x, K, row, T: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr):
    _quantise(codes, scales, x, K, row, T, BITS, BLOCK)
