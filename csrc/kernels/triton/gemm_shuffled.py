"""Matrix product with a weight in the layout of `shuffle_weight` (16, 16): `gemm_a16w16_asm` of AITER with `bpreshuffle`.

`gemm_shuffled_kernel`: C[M, N] = round(A[M, K] @ B[N, K]^T + bias[N])
  Arguments, in order
    0 c *C [M, N] | 1 a *T [M, K] | 2 b *T [N, K] | 3 bias *T [N] (not read when has_bias is 0)
    4 M i32 | 5 N i32, a multiple of 16 | 6 K i32, a multiple of 32 | 7 lda i32, a multiple of 8 | 8 has_bias i32 (0 or 1)
  constexprs  BM, BN, BK, GROUP_M, XCDS
  grid        (cdiv(M, BM) * cdiv(N, BN), 1, 1)

T is a 16-bit type, C is that or f32.  b holds tiles of 16 rows and 8 columns, one behind the other.  Sums are fp32 on the matrix
units, the result is rounded once.  a, b and c are at multiples of 16 bytes: rows behind the end repeat the last one and are not
stored, so that 16 bytes are read at a time.
  workspace   none

guarantee   0 <= K, lda <= STRIDE_LIMIT (2^21 elements)
"""

import triton
import triton.language as tl
from gemm import STRIDE_LIMIT
from gemm_preshuffled import _store_runs
from gemm_scaled import _origin


@triton.jit
def gemm_shuffled_kernel(
    c,
    a,
    b,
    bias,
    M,
    N,
    K,
    lda,
    has_bias,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
):
    m0, n0 = _origin(M, N, BM, BN, GROUP_M, XCDS)
    UNIT: tl.constexpr = 8
    # What is known of an argument is lost on the way to the loads; what is computed is not.
    K = K // 32 * 32
    lda = lda // UNIT * UNIT
    tl.assume(K >= 0)
    tl.assume(K <= STRIDE_LIMIT)
    tl.assume(lda >= 0)
    tl.assume(lda <= STRIDE_LIMIT)
    rm = tl.minimum(tl.arange(0, BM), M - m0 - 1)
    rn = tl.minimum(tl.arange(0, BN), N - n0 - 1)
    rk = tl.arange(0, BK)
    off_a = rm[:, None] * lda + rk[None, :]
    off_b = (rn // 16 * (16 * K) + rn % 16 * UNIT)[None, :] + (rk // UNIT * (16 * UNIT) + rk % UNIT)[:, None]
    a += m0.to(tl.int64) * lda
    b += n0.to(tl.int64) * K
    acc = tl.zeros([BM, BN], tl.float32)
    for _ in range(K // BK):
        acc = tl.dot(tl.load(a + off_a), tl.load(b + off_b), acc)
        a += BK
        b += BK * 16
    left = K % BK
    if left > 0:
        x = tl.load(a + off_a, mask=rk[None, :] < left, other=0.0)
        y = tl.load(b + off_b, mask=rk[:, None] < left, other=0.0)
        acc = tl.dot(x, y, acc)
    columns = n0 + tl.arange(0, BN)
    acc += tl.load(bias + columns, mask=columns < N * has_bias, other=0.0).to(tl.float32)[None, :]
    _store_runs(c, acc, m0, n0, M, N, BM, BN)
