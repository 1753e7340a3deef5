"""Matrix products of 16-bit rows with a weight in fp8, which lies as that of a linear layer.

`gemm_quantising_kernel`, for each pair l of matrices and with each 128 columns of K a block b:
    QUANT = 1   the rows are made fp8, a scale for each row and block: s = max(largest |A_b[l, m]|, 1e-10) / QMAX
                C[l, m, n] = round(sum over b of (fp8(A_b[l, m] / s) . B_b[l, n]) * s * w + bias[l, n])
    QUANT = 0   C[l, m, n] = round(sum over b of (A_b[l, m] . B_b[l, n]) * w + bias[l, n])
    w is b_scales[0]; with BLOCKS = 1, which QUANT = 0 asks for, it is b_scales[n / 128, b], and L is 1.
  Arguments, in order
    0 c *T [L, M, N] | 1 a *T [L, M, K] | 2 b *fp8 [L, N, K] | 3 b_scales *f32 | 4 bias *T [L, N], not read where has_bias is 0
    5 M i32 | 6 N i32 | 7 K i32, a multiple of 128
    8 a_batch i64, a multiple of 8 | 9 lda i32, a multiple of 8 | 10 b_batch i64 | 11 ldb i32, both multiples of 16
    12 c_batch i64 | 13 ldc i32 | 14 has_bias i32 (0 or 1)
  constexprs  BM, BN (64 or 128), GROUP_M, XCDS, QUANT, BLOCKS, QMAX (the largest number of the target's fp8)
  grid        (cdiv(M, BM) * cdiv(N, BN), L, 1)

T is bf16 or fp16.  Sums are fp32 on the matrix units, the result is rounded once.  a and b are at multiples of 16 bytes, their
rows and matrices, too: rows behind the end repeat the last one and are not stored, so that 16 bytes are read at a time without a
mask.  A row with an infinity or NaN is NaN where it is made fp8.
  workspace   none

guarantee   0 <= lda, ldb, ldc <= STRIDE_LIMIT (2^21 elements)
"""

import triton
import triton.language as tl
from gemm import STRIDE_LIMIT
from gemm_scaled import _origin


@triton.jit
def _stride(elements, UNIT: tl.constexpr):
    """What is known of an argument is lost on the way to the loads; what is computed is not."""
    elements = elements // UNIT * UNIT
    tl.assume(elements >= 0)
    tl.assume(elements <= STRIDE_LIMIT)
    return elements


@triton.jit
def gemm_quantising_kernel(
    c,
    a,
    b,
    b_scales,
    bias,
    M,
    N,
    K,
    a_batch,
    lda,
    b_batch,
    ldb,
    c_batch,
    ldc,
    has_bias,
    BM: tl.constexpr,
    BN: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
    QUANT: tl.constexpr,
    BLOCKS: tl.constexpr,
    QMAX: tl.constexpr,
):
    BK: tl.constexpr = 128
    m0, n0 = _origin(M, N, BM, BN, GROUP_M, XCDS)
    pair = tl.program_id(1).to(tl.int64)
    lda = _stride(lda, 8)
    ldb = _stride(ldb, 16)
    ldc = _stride(ldc, 1)
    blocks = K // BK
    rm = tl.minimum(tl.arange(0, BM), M - m0 - 1)
    rn = tl.minimum(tl.arange(0, BN), N - n0 - 1)
    rk = tl.arange(0, BK)
    off_a = rm[:, None] * lda + rk[None, :]
    off_b = rn[None, :] * ldb + rk[:, None]
    a += pair * (a_batch // 8 * 8) + m0.to(tl.int64) * lda
    b += pair * (b_batch // 16 * 16) + n0.to(tl.int64) * ldb
    if BLOCKS:
        b_scales += (n0 // 128).to(tl.int64) * blocks
    acc = tl.zeros([BM, BN], tl.float32)
    for _ in range(blocks):
        x = tl.load(a + off_a)
        y = tl.load(b + off_b)
        if QUANT:
            x = x.to(tl.float32)
            scales = tl.maximum(tl.max(tl.abs(x), 1), 1e-10) * (1.0 / QMAX)
            part = tl.dot((x * (1.0 / scales)[:, None]).to(y.dtype), y)
            if BLOCKS:
                scales *= tl.load(b_scales)
            acc += part * scales[:, None]
        else:
            acc += tl.dot(x, y.to(x.dtype)) * tl.load(b_scales)
        a += BK
        b += BK
        if BLOCKS:
            b_scales += 1
    if not BLOCKS:
        acc *= tl.load(b_scales)
    # Not read where there is none.
    added = tl.load(bias + pair * N + n0 + rn, mask=tl.arange(0, BN) < (N - n0) * has_bias, other=0.0)
    acc += added.to(tl.float32)[None, :]
    if QUANT and c.dtype.element_ty == tl.float16:
        # Conversions to fp8 saturate by a mode of the wave, in which those to fp16 do, too.
        acc = tl.where(tl.abs(acc) >= 65520.0, acc * float("inf"), acc)
    cm = tl.arange(0, BM)
    cn = tl.arange(0, BN)
    c += pair * c_batch + m0.to(tl.int64) * ldc + n0
    inside = (cm[:, None] < M - m0) & (cn[None, :] < N - n0)
    tl.store(c + (cm[:, None] * ldc + cn[None, :]), acc.to(c.dtype.element_ty), mask=inside)
