"""`gemm_a8w8_bpreshuffle`: fp8 with a weight as `shuffle_weight` (16, 16) has it, and a scale of each row of both.

    C[m, n] = round((A[m] . B[n]) * a_scales[m] * b_scales[n])

`gemm_preshuffled_kernel` arguments, in order
    0 c *C [M, N] | 1 a *fp8 [M, K] | 2 b *fp8: tiles of 16 rows and 16 columns, those of the first rows first, K or more columns
    3 a_scales *f32 [M] | 4 b_scales *f32 [N] | 5 M i32 | 6 N i32, a multiple of 16 | 7 K i32, a multiple of 16
    8 lda i32, a multiple of 16 | 9 width i32: columns of b, a multiple of 32
  constexprs  BM, BN, BK, GROUP_M, XCDS
  grid        (cdiv(M, BM) * cdiv(N, BN), 1, 1)

fp8 is the target's own e4m3, C is bf16 or fp16.  Sums are fp32 on the matrix units, the result is rounded once.  a, b and c are
at multiples of 16 bytes: rows behind the end repeat the last one and are not stored, so that 16 bytes are read at a time without
a mask.
  workspace   none

guarantee   0 <= lda, width <= STRIDE_LIMIT (2^21 elements)
"""

import triton
import triton.language as tl
from gemm_quantising import _stride
from gemm_scaled import _origin
from mxfp4 import shuffled_place


@triton.jit
def _store_runs(c, tile, m0, n0, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """The tile, without what is behind the last row and column; 16 columns of a row are there or not, so that as many as a lane
    has are stored at a time.
    """
    N = N // 16 * 16  # what is known of an argument is lost on the way to the stores; what is computed is not
    rm = tl.arange(0, BM)
    rn = tl.arange(0, BN)
    c += m0.to(tl.int64) * N + n0
    mask = (rm[:, None] < M - m0) & (rn[None, :] // 16 * 16 < N - n0)
    tl.store(c + (rm.to(tl.int64)[:, None] * N + rn[None, :]), tile.to(c.dtype.element_ty), mask=mask)


@triton.jit
def gemm_preshuffled_kernel(
    c,
    a,
    b,
    a_scales,
    b_scales,
    M,
    N,
    K,
    lda,
    width,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
):
    m0, n0 = _origin(M, N, BM, BN, GROUP_M, XCDS)
    lda = _stride(lda, 16)
    width = _stride(width, 32)
    rm = tl.minimum(tl.arange(0, BM), M - m0 - 1)
    rn = tl.minimum(tl.arange(0, BN), N - n0 - 1)
    rk = tl.arange(0, BK)
    off_a = rm[:, None] * lda + rk[None, :]
    off_b = shuffled_place(rn[None, :], rk[:, None], width)
    a += m0.to(tl.int64) * lda
    b += n0.to(tl.int64) * width
    acc = tl.zeros([BM, BN], tl.float32)
    for _ in range(K // BK):
        acc = tl.dot(tl.load(a + off_a), tl.load(b + off_b), acc)
        a += BK
        b += BK * 16
    left = K % BK // 16 * 16
    if left > 0:
        # 16 bytes at a time are there or not.
        there = rk // 16 * 16 < left
        x = tl.load(a + off_a, mask=there[None, :], other=0.0)
        y = tl.load(b + off_b, mask=there[:, None], other=0.0)
        acc = tl.dot(x, y, acc)
    high = tl.load(a_scales + m0 + rm)
    wide = tl.load(b_scales + n0 + rn)
    _store_runs(c, acc * high[:, None] * wide[None, :], m0, n0, M, N, BM, BN)
