"""Matrix product with the weight layout of a linear layer: `gemm_a16w16` of AITER.

    C[M, N] = round(A[M, K] @ B[N, K]^T + bias[N])

A, B and bias are bf16 or fp16 (one type T), C is T or f32, accumulation is fp32 on the matrix units,
and the result is rounded once.  The last dimension of every matrix is contiguous; lda, ldb and ldc
are row strides in elements.  Any M, N >= 1 and K >= 0 are right: rows past the end are clamped on
load and masked on store, and the last K tile is masked, outside of the main loop.

`gemm_a16w16_kernel` arguments, in order
    0 c *C [M, N] | 1 a *T [M, K] | 2 b *T [N, K] | 3 bias *T [N] (not read when has_bias is 0)
    4 M i32 | 5 N i32 | 6 K i32 | 7 lda i32 | 8 ldb i32 | 9 ldc i32 | 10 has_bias i32 (0 or 1)
  constexprs  BM, BN, BK, GROUP_M, XCDS, EVEN
  grid        (cdiv(M, BM) * cdiv(N, BN), 1, 1)

`gemm_a16w16_splitk_kernel` arguments, in order
    0 partial, any pointer: f32 [SPLITK, M, N] workspace | 1 a *T | 2 b *T
    3 M i32 | 4 N i32 | 5 K i32 | 6 lda i32 | 7 ldb i32 | 8 splitk i32
  constexprs  BM, BN, BK, GROUP_M, XCDS, EVEN
  grid        (cdiv(M, BM) * cdiv(N, BN), SPLITK, 1); splitk is its height
`splitk_reduce_kernel` arguments, in order
    0 c *C [M, N] | 1 partial, as above | 2 bias *T [N] | 3 M i32 | 4 N i32 | 5 ldc i32
    6 splitk i32 | 7 has_bias i32 (0 or 1)
  constexprs  BLOCK, EVEN
  grid        (M * cdiv(N, BLOCK), 1, 1)
  The partial sums are added in the order of the splits, so the result does not depend on timing.
  workspace: SPLITK * M * N * 4 bytes, 16-byte aligned, every element of it is written first.

EVEN = 1 is the aligned specialisation: pointers c, a and b (and the workspace) at 16 bytes, and K, N,
lda, ldb, ldc multiples of 16 elements (`tt.divisibility` 16 on all of these: gemm 0, 1, 2, 5..9;
split-K 0, 1, 2, 4..7; reduce 0, 1, 4, 5), and 0 <= lda, ldb, ldc <= STRIDE_LIMIT (2^21 elements, so
that 256 rows span less than 2^31 bytes): offsets inside a tile are then 32-bit and become buffer loads
on AMD.  Tile origins are 64-bit in both forms, so the matrices may have any size.  bias is read once a
tile and needs no alignment.  EVEN = 0 assumes nothing and has no attribute.

XCDS is the number of dies workgroups are dealt out to in turn (8 on MI300X and MI350X, 1 elsewhere):
tiles that share operands are renumbered onto one die, since each die has its own L2.
"""

import triton
import triton.language as tl

STRIDE_LIMIT: tl.constexpr = tl.constexpr(2097152)


@triton.jit
def _renumber(pid, count, XCDS: tl.constexpr):
    """Bijection on [0, count) that gives each die one contiguous run of tiles."""
    if XCDS > 1:
        die = pid % XCDS
        pid = die * (count // XCDS) + tl.minimum(die, count % XCDS) + pid // XCDS
    return pid


@triton.jit
def _tile_of(pid, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Tile coordinates, walking columns of GROUP_M row tiles so that a group shares its B tile."""
    group = pid // (GROUP_M * tiles_n)
    first = group * GROUP_M
    height = tl.minimum(tiles_m - first, GROUP_M)
    inside = pid % (GROUP_M * tiles_n)
    return first + inside % height, inside // height


@triton.jit
def _fp32(workspace, EVEN: tl.constexpr):
    """The workspace, which has no element type of its own, as fp32."""
    pointer = workspace.to(tl.pointer_type(tl.float32))
    return tl.multiple_of(pointer, 16) if EVEN else pointer


@triton.jit
def _accumulate(
    a,
    b,
    rows_a,
    rows_b,
    k_begin,
    k_end,
    lda,
    ldb,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """fp32 [BM, BN] product of rows_a rows of a and rows_b rows of b over [k_begin, k_end)."""
    rk = tl.arange(0, BK)
    # A row past the end repeats the last one: the load needs no mask and the store drops it.
    rm = tl.minimum(tl.arange(0, BM), rows_a - 1)
    rn = tl.minimum(tl.arange(0, BN), rows_b - 1)
    off_a = rm[:, None] * lda + rk[None, :]
    off_b = rn[None, :] * ldb + rk[:, None]
    acc = tl.zeros([BM, BN], tl.float32)
    a += k_begin
    b += k_begin
    whole = (k_end - k_begin) // BK
    for _ in range(whole):
        acc = tl.dot(tl.load(a + off_a), tl.load(b + off_b), acc)
        a += BK
        b += BK
    left = k_end - k_begin - whole * BK
    if left > 0:
        x = tl.load(a + off_a, mask=rk[None, :] < left, other=0.0)
        y = tl.load(b + off_b, mask=rk[:, None] < left, other=0.0)
        acc = tl.dot(x, y, acc)
    return acc


@triton.jit
def gemm_a16w16_kernel(
    c,
    a,
    b,
    bias,
    M,
    N,
    K,
    lda,
    ldb,
    ldc,
    has_bias,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
    EVEN: tl.constexpr,
):
    tiles_m = tl.cdiv(M, BM)
    tiles_n = tl.cdiv(N, BN)
    pid = _renumber(tl.program_id(0), tiles_m * tiles_n, XCDS)
    tile_m, tile_n = _tile_of(pid, tiles_m, tiles_n, GROUP_M)
    m0 = tile_m * BM
    n0 = tile_n * BN
    tl.assume(M - m0 > 0)
    tl.assume(N - n0 > 0)
    if EVEN:
        tl.assume(lda >= 0)
        tl.assume(ldb >= 0)
        tl.assume(ldc >= 0)
        tl.assume(lda <= STRIDE_LIMIT)
        tl.assume(ldb <= STRIDE_LIMIT)
        tl.assume(ldc <= STRIDE_LIMIT)
    else:
        lda = lda.to(tl.int64)
        ldb = ldb.to(tl.int64)
        ldc = ldc.to(tl.int64)
    a += m0.to(tl.int64) * lda
    b += n0.to(tl.int64) * ldb
    acc = _accumulate(a, b, M - m0, N - n0, 0, K, lda, ldb, BM, BN, BK)
    rm = tl.arange(0, BM)
    rn = tl.arange(0, BN)
    acc += tl.load(bias + n0 + rn, mask=rn < (N - n0) * has_bias, other=0.0).to(tl.float32)[None, :]
    c += m0.to(tl.int64) * ldc + n0
    mask = (rm[:, None] < M - m0) & (rn[None, :] < N - n0)
    tl.store(c + (rm[:, None] * ldc + rn[None, :]), acc.to(c.dtype.element_ty), mask=mask)


@triton.jit
def gemm_a16w16_splitk_kernel(
    partial,
    a,
    b,
    M,
    N,
    K,
    lda,
    ldb,
    splitk,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
    EVEN: tl.constexpr,
):
    tiles_m = tl.cdiv(M, BM)
    tiles_n = tl.cdiv(N, BN)
    split = tl.program_id(1)
    pid = _renumber(tl.program_id(0), tiles_m * tiles_n, XCDS)
    tile_m, tile_n = _tile_of(pid, tiles_m, tiles_n, GROUP_M)
    m0 = tile_m * BM
    n0 = tile_n * BN
    tl.assume(M - m0 > 0)
    tl.assume(N - n0 > 0)
    # Whole K tiles a split; the last splits may be short or empty and then write zeros.
    span = tl.cdiv(tl.cdiv(K, BK), splitk) * BK
    k_begin = tl.minimum(split.to(tl.int64) * span, K).to(tl.int32)
    k_end = tl.minimum((split.to(tl.int64) + 1) * span, K).to(tl.int32)
    if EVEN:
        tl.assume(lda >= 0)
        tl.assume(ldb >= 0)
        tl.assume(lda <= STRIDE_LIMIT)
        tl.assume(ldb <= STRIDE_LIMIT)
    else:
        lda = lda.to(tl.int64)
        ldb = ldb.to(tl.int64)
    a += m0.to(tl.int64) * lda
    b += n0.to(tl.int64) * ldb
    acc = _accumulate(a, b, M - m0, N - n0, k_begin, k_end, lda, ldb, BM, BN, BK)
    rm = tl.arange(0, BM)
    rn = tl.arange(0, BN)
    partial = _fp32(partial, EVEN) + ((split.to(tl.int64) * M + m0) * N + n0)
    off = rm.to(tl.int64)[:, None] * N + rn[None, :]
    mask = (rm[:, None] < M - m0) & (rn[None, :] < N - n0)
    tl.store(partial + off, acc, mask=mask)


@triton.jit
def splitk_reduce_kernel(
    c,
    partial,
    bias,
    M,
    N,
    ldc,
    splitk,
    has_bias,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):
    blocks = tl.cdiv(N, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    col = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    mask = col < N
    partial = _fp32(partial, EVEN) + row * N
    step = M.to(tl.int64) * N
    acc = tl.zeros([BLOCK], tl.float32)
    for _ in range(splitk):
        acc += tl.load(partial + col, mask=mask, other=0.0)
        partial += step
    acc += tl.load(bias + col, mask=col < N * has_bias, other=0.0).to(tl.float32)
    tl.store(c + row * ldc + col, acc.to(c.dtype.element_ty), mask=mask)
