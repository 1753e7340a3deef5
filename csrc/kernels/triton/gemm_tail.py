"""`gemm_a16w16` where tiles do not fill the processors: the last ones are divided along K.

    C[M, N] = round(A[M, K] @ B[N, K]^T + bias[N])

What is multiplied, added and rounded, and the arguments' types, are those of `gemm.py`.  Tiles are numbered as there; the first
`whole` of them are a workgroup each, which stores its part of C.  Each other tile is `splitk` workgroups, each with a run of
whole K tiles; their sums go to the workspace, and the second kernel adds them in the order of the runs, so the result does not
depend on timing.

`gemm_a16w16_tail_kernel` arguments, in order
    0 c *C [M, N] | 1 partial, any pointer: f32 [divided tiles, splitk, BM, BN] workspace; not used without divided tiles
    2 a *T [M, K] | 3 b *T [N, K] | 4 bias *T [N] (not read when has_bias is 0)
    5 M i32 | 6 N i32 | 7 K i32 | 8 lda i32 | 9 ldb i32 | 10 ldc i32 | 11 whole i32 | 12 splitk i32 (1 or more) | 13 has_bias i32
  constexprs  BM, BN, BK, GROUP_M
  grid        (whole + (cdiv(M, BM) * cdiv(N, BN) - whole) * splitk, 1, 1)
`tail_reduce_kernel` arguments, in order
    0 c *C [M, N] | 1 partial, as above | 2 bias *T [N] | 3 M i32 | 4 N i32 | 5 ldc i32 | 6 whole i32 | 7 splitk i32
    8 rows of a tile i32 | 9 columns of a tile i32 | 10 has_bias i32
  constexprs  BLOCK (elements of a tile, a divisor of all of them), GROUP_M
  grid        (divided tiles * (rows * columns // BLOCK), 1, 1)

guarantee     pointers at 16 bytes (but for bias); K, N, lda, ldb, ldc multiples of 16 elements, strides up to STRIDE_LIMIT
"""

import triton
import triton.language as tl
from gemm import STRIDE_LIMIT, _accumulate, _fp32, _tile_of


@triton.jit
def gemm_a16w16_tail_kernel(
    c,
    partial,
    a,
    b,
    bias,
    M,
    N,
    K,
    lda,
    ldb,
    ldc,
    whole,
    splitk,
    has_bias,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    place = tl.program_id(0)
    part = place - whole
    tile = tl.where(part < 0, place, whole + part // splitk)
    tile_m, tile_n = _tile_of(tile, tl.cdiv(M, BM), tl.cdiv(N, BN), GROUP_M)
    m0 = tile_m * BM
    n0 = tile_n * BN
    tl.assume(M - m0 > 0)
    tl.assume(N - n0 > 0)
    tl.assume(lda >= 0)
    tl.assume(ldb >= 0)
    tl.assume(ldc >= 0)
    tl.assume(lda <= STRIDE_LIMIT)
    tl.assume(ldb <= STRIDE_LIMIT)
    tl.assume(ldc <= STRIDE_LIMIT)
    # The last runs may be short or empty, and are zeros then.
    parts = tl.where(part < 0, 1, splitk)
    span = tl.cdiv(tl.cdiv(K, BK), parts) * BK
    split = tl.where(part < 0, 0, part % splitk)
    k_begin = tl.minimum(split.to(tl.int64) * span, K).to(tl.int32)
    k_end = tl.minimum((split.to(tl.int64) + 1) * span, K).to(tl.int32)
    a += m0.to(tl.int64) * lda
    b += n0.to(tl.int64) * ldb
    acc = _accumulate(a, b, M - m0, N - n0, k_begin, k_end, lda, ldb, BM, BN, BK)
    rm = tl.arange(0, BM)
    rn = tl.arange(0, BN)
    if part < 0:
        acc += tl.load(bias + n0 + rn, mask=rn < (N - n0) * has_bias, other=0.0).to(tl.float32)[None, :]
        c += m0.to(tl.int64) * ldc + n0
        mask = (rm[:, None] < M - m0) & (rn[None, :] < N - n0)
        tl.store(c + (rm[:, None] * ldc + rn[None, :]), acc.to(c.dtype.element_ty), mask=mask)
    else:
        sums = _fp32(partial, 1) + part.to(tl.int64) * (BM * BN)
        tl.store(sums + (rm[:, None] * BN + rn[None, :]), acc, mask=(rm < M - m0)[:, None])


@triton.jit
def tail_reduce_kernel(
    c,
    partial,
    bias,
    M,
    N,
    ldc,
    whole,
    splitk,
    rows,
    columns,
    has_bias,
    BLOCK: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    size = rows * columns
    blocks = size // BLOCK
    divided = tl.program_id(0) // blocks
    tile_m, tile_n = _tile_of(whole + divided, tl.cdiv(M, rows), tl.cdiv(N, columns), GROUP_M)
    inside = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    row = tile_m * rows + inside // columns
    col = tile_n * columns + inside % columns
    mask = (row < M) & (col < N)
    sums = _fp32(partial, 1) + divided.to(tl.int64) * splitk * size
    acc = tl.zeros([BLOCK], tl.float32)
    for _ in range(splitk):
        acc += tl.load(sums + inside, mask=mask, other=0.0)
        sums += size
    acc += tl.load(bias + col, mask=mask & (has_bias != 0), other=0.0).to(tl.float32)
    tl.store(c + row.to(tl.int64) * ldc + col, acc.to(c.dtype.element_ty), mask=mask)
