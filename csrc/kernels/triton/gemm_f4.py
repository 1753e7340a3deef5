"""Products of MXFP4 matrices: C[m, n] = round(A[m] . B[n] + beta * bias[n]), B as the weight of a linear layer lies.

`gemm_f4_kernel` arguments, in order
    0 c *C [M, N] | 1 a *u8 [M, K / 2]: pairs of fp4; with QUANT *T [M, K], each 32 columns of which are made MXFP4
    2 b *u8 [N, K / 2] | 3 a_scales *u8, e8m0 of each 32 columns, not read with QUANT | 4 b_scales *u8 | 5 bias *f32 [N]
    6 M i32 | 7 N i32 | 8 K i32, a multiple of 32
    9 lda i32 | 10 ldb i32: where the next row of a and b lies, in their elements; multiples of 16 bytes | 11 ldc i32
    12 as_row i32, 13 as_block i32, 14 bs_row i32, 15 bs_block i32: where the scale of the next row, of the next 32 columns lies
    16 beta f32 | 17 has_bias i32 (0: bias is not read)
  constexprs  BM, BN, GROUP_M, XCDS, QUANT, SHUFFLED, A_SWIZZLED, B_SWIZZLED, BIAS (0: 5, 16 and 17 are not read)
  grid        (cdiv(M, BM) * cdiv(N, BN), 1, 1)
  SHUFFLED = 1: b lies as `mxfp4.py` says, N a multiple of 16, K of 64; ldb is the bytes of a row.
  A_SWIZZLED, B_SWIZZLED = 1: scales lie so, BM and BN multiples of 32; as_row, bs_row are scales of a row, a multiple of 8, and
  there are scales of whole 32 rows.

C is bf16 or fp16, T too.  The matrix units multiply by the scales and add in fp32; the result is rounded once.  a and b are at
multiples of 16 bytes: rows behind the end repeat the last one and are not stored, so that 16 bytes are read at a time without a
mask.
  workspace   none

guarantee   0 <= lda, ldb, ldc, as_row, as_block, bs_row, bs_block <= STRIDE_LIMIT (2^21)
"""

import triton
import triton.language as tl
from gemm_quantising import _stride
from gemm_scaled import _origin
from mxfp4 import quantised, shuffled_place, swizzled_scales


@triton.jit
def _scale_places(row0, rows, along, block, ROWS: tl.constexpr, SWIZZLED: tl.constexpr):
    """Where the scales of ROWS rows lie from ``row0`` of ``rows`` on, those of the first 256 columns."""
    if SWIZZLED:
        part = tl.minimum(row0 // 32 + tl.arange(0, ROWS // 32), (rows - 1) // 32)
        places = part.to(tl.int64)[:, None] * (32 * along) + tl.arange(0, 256)[None, :]
    else:
        row = tl.minimum(row0 + tl.arange(0, ROWS), rows - 1)
        places = row.to(tl.int64)[:, None] * along + tl.arange(0, 8)[None, :] * block
    return places


@triton.jit
def _scales(places, ROWS: tl.constexpr, SWIZZLED: tl.constexpr):
    """e8m0 [ROWS, 8]."""
    found = tl.load(places)
    if SWIZZLED:
        found = swizzled_scales(found, ROWS)
    return found


@triton.jit
def _last_scales(places, left, ROWS: tl.constexpr, SWIZZLED: tl.constexpr):
    """The same where ``left`` of 8 are there; what pads swizzled ones may be anything."""
    there = tl.arange(0, 8)[None, :] < left
    if SWIZZLED:
        found = tl.where(there, swizzled_scales(tl.load(places), ROWS), 127).to(tl.uint8)
    else:
        found = tl.load(places, mask=there, other=127)
    return found


@triton.jit
def gemm_f4_kernel(
    c,
    a,
    b,
    a_scales,
    b_scales,
    bias,
    M,
    N,
    K,
    lda,
    ldb,
    ldc,
    as_row,
    as_block,
    bs_row,
    bs_block,
    beta,
    has_bias,
    BM: tl.constexpr,
    BN: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
    QUANT: tl.constexpr,
    SHUFFLED: tl.constexpr,
    A_SWIZZLED: tl.constexpr,
    B_SWIZZLED: tl.constexpr,
    BIAS: tl.constexpr,
):
    BK: tl.constexpr = 256
    m0, n0 = _origin(M, N, BM, BN, GROUP_M, XCDS)
    lda = _stride(lda, 8 if QUANT else 16)
    ldb = _stride(ldb, 16)
    ldc = _stride(ldc, 1)
    rm = tl.minimum(tl.arange(0, BM), M - m0 - 1)
    rn = tl.minimum(tl.arange(0, BN), N - n0 - 1)
    STEP: tl.constexpr = BK if QUANT else BK // 2
    ra = tl.arange(0, STEP)
    rb = tl.arange(0, BK // 2)
    off_a = rm[:, None] * lda + ra[None, :]
    a += m0.to(tl.int64) * lda
    b += n0.to(tl.int64) * ldb
    if SHUFFLED:
        step: tl.constexpr = BK // 2 * 16
        off_b = shuffled_place(rn[None, :], rb[:, None], ldb)
    else:
        step: tl.constexpr = BK // 2
        off_b = rn[None, :] * ldb + rb[:, None]
    bs = b_scales + _scale_places(n0, N, bs_row, bs_block, BN, B_SWIZZLED)
    bs_step = 256 if B_SWIZZLED else 8 * bs_block
    if not QUANT:
        a_s = a_scales + _scale_places(m0, M, as_row, as_block, BM, A_SWIZZLED)
        as_step = 256 if A_SWIZZLED else 8 * as_block
    acc = tl.zeros([BM, BN], tl.float32)
    if K >= BK:  # what is loaded ahead is waited for behind the loop, also where it has no step
        for _ in range(K // BK):
            x = tl.load(a + off_a)
            if QUANT:
                x, sa = quantised(x, BM, BK)
            else:
                sa = _scales(a_s, BM, A_SWIZZLED)
                a_s += as_step
            sb = _scales(bs, BN, B_SWIZZLED)
            acc = tl.dot_scaled(x, sa, "e2m1", tl.load(b + off_b), sb, "e2m1", acc)
            a += STEP
            b += step
            bs += bs_step
    left = K % BK // 32 * 32
    if left > 0:
        # 16 bytes at a time are there or not.
        unit: tl.constexpr = 8 if QUANT else 16
        x = tl.load(a + off_a, mask=(ra // unit * unit)[None, :] < left * STEP // BK, other=0)
        if QUANT:
            x, sa = quantised(x, BM, BK)
        else:
            sa = _last_scales(a_s, left // 32, BM, A_SWIZZLED)
        sb = _last_scales(bs, left // 32, BN, B_SWIZZLED)
        y = tl.load(b + off_b, mask=(rb // 16 * 16)[:, None] < left // 2, other=0)
        acc = tl.dot_scaled(x, sa, "e2m1", y, sb, "e2m1", acc)
    if BIAS:
        # Not read where there is none.
        added = tl.load(bias + n0 + rn, mask=tl.arange(0, BN) < (N - n0) * has_bias, other=0.0)
        acc += (added * beta)[None, :]
    cm = tl.arange(0, BM)
    cn = tl.arange(0, BN)
    high = cm[:, None] < M - m0
    out = acc.to(c.dtype.element_ty)
    if (N % 8 == 0) & (ldc % 8 == 0) & (c.to(tl.int64) % 16 == 0):
        # 16 bytes at a time are there or not.
        line = _stride(ldc, 8)
        c = tl.multiple_of(c + (m0.to(tl.int64) * line + n0), 16)
        wide = (cn // 8 * 8)[None, :] < N - n0
        tl.store(c + (cm[:, None] * line + cn[None, :]), out, mask=high & wide)
    else:
        c += m0.to(tl.int64) * ldc + n0
        tl.store(c + (cm[:, None] * ldc + cn[None, :]), out, mask=high & (cn[None, :] < N - n0))
