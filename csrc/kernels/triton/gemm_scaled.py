"""Matrix products whose weight lies as that of a linear layer, in 8 bits with scales beside it, or for each of a batch.

`gemm_blockscale_kernel`: scales of blocks of 128 columns.
    C[m, n] = round(sum over blocks b of 128 columns of (A_b[m] . B_b[n]) * a_scale[m, b] * b_scale[n / 128, b])
  Arguments, in order
    0 c *C [M, N] | 1 a *Q [M, K] | 2 b *Q [N, K] | 3 a_scales *f32 | 4 b_scales *f32 [cdiv(N, 128), K / 128]
    5 M i32 | 6 N i32 | 7 K i32, a multiple of 128 | 8 lda i32 | 9 ldb i32, both multiples of 16
    10 scale_row i32, 11 scale_block i32: where the scale of the next row, and of the next block lies
  constexprs  BM, BN (64 or 128), GROUP_M, XCDS, SHUFFLED
  grid        (cdiv(M, BM) * cdiv(N, BN), 1, 1)
  SHUFFLED = 1: b holds, one behind the other, tiles of 16 rows and 16 columns; N is a multiple of 16, ldb is not used.

`gemm_batched_kernel`: scales of whole rows, or none; matrices of a batch lie one behind the other.
    C[l, m, n] = round((A[l, m] . B[l, n]) * a_scale[l, m] * b_scale[l, n] + bias[n])
  Arguments, in order
    0 c *C [L, M, N] | 1 a *T [L, M, K] | 2 b *T [L, N, K] | 3 a_scales *f32 [L, M] | 4 b_scales *f32 [L, N] | 5 bias *C [N]
    6 M i32 | 7 N i32 | 8 K i32, a multiple of 16 bytes | 9 has_bias i32 (0 or 1)
  constexprs  BM, BN, BK, GROUP_M, XCDS, SCALED (0: 3 and 4 are not read), BIAS (0: 5 is not read)
  grid        (cdiv(M, BM) * cdiv(N, BN), L, 1)

fp8 is the target's own e4m3, C is bf16 or fp16, Q fp8 or int8, T fp8, int8 or bf16.  Sums are fp32 on the matrix units, those of
int8 are int32 and exact; the result is rounded once.  a and b are at multiples of 16 bytes and their rows, too: rows behind the
end repeat the last one and are not stored, so that 16 bytes are read at a time without a mask.
  workspace   none

guarantee   0 <= lda, ldb, K <= STRIDE_LIMIT (2^21 elements)
"""

import triton
import triton.language as tl
from gemm import STRIDE_LIMIT, _renumber, _tile_of


@triton.jit
def _origin(M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr, XCDS: tl.constexpr):
    """Where this program's tile begins."""
    tiles_m = tl.cdiv(M, BM)
    tiles_n = tl.cdiv(N, BN)
    pid = _renumber(tl.program_id(0), tiles_m * tiles_n, XCDS)
    tile_m, tile_n = _tile_of(pid, tiles_m, tiles_n, GROUP_M)
    return tile_m * BM, tile_n * BN


@triton.jit
def _store(c, acc, m0, n0, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """The tile, without what is behind the last row and column."""
    rm = tl.arange(0, BM)
    rn = tl.arange(0, BN)
    c += m0.to(tl.int64) * N + n0
    mask = (rm[:, None] < M - m0) & (rn[None, :] < N - n0)
    tl.store(c + (rm.to(tl.int64)[:, None] * N + rn[None, :]), acc.to(c.dtype.element_ty), mask=mask)


@triton.jit
def gemm_blockscale_kernel(
    c,
    a,
    b,
    a_scales,
    b_scales,
    M,
    N,
    K,
    lda,
    ldb,
    scale_row,
    scale_block,
    BM: tl.constexpr,
    BN: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
    SHUFFLED: tl.constexpr,
):
    BK: tl.constexpr = 128
    m0, n0 = _origin(M, N, BM, BN, GROUP_M, XCDS)
    blocks = K // BK
    # What is known of an argument is lost on the way to the loads; what is computed is not.
    lda = lda // 16 * 16
    tl.assume(lda >= 0)
    tl.assume(lda <= STRIDE_LIMIT)
    rm = tl.minimum(tl.arange(0, BM), M - m0 - 1)
    rn = tl.minimum(tl.arange(0, BN), N - n0 - 1)
    rk = tl.arange(0, BK)
    off_a = rm[:, None] * lda + rk[None, :]
    a += m0.to(tl.int64) * lda
    if SHUFFLED:
        K = blocks * BK
        tl.assume(K >= 0)
        tl.assume(K <= STRIDE_LIMIT)
        step: tl.constexpr = BK * 16
        off_b = (rn // 16 * (16 * K) + rn % 16 * 16)[None, :] + (rk // 16 * 256 + rk % 16)[:, None]
        b += n0.to(tl.int64) * K
    else:
        ldb = ldb // 16 * 16
        tl.assume(ldb >= 0)
        tl.assume(ldb <= STRIDE_LIMIT)
        step: tl.constexpr = BK
        off_b = rn[None, :] * ldb + rk[:, None]
        b += n0.to(tl.int64) * ldb
    rows = a_scales + m0.to(tl.int64) * scale_row + rm * scale_row
    b_scales += (n0 // 128).to(tl.int64) * blocks
    acc = tl.zeros([BM, BN], tl.float32)
    for _ in range(blocks):
        part = tl.dot(tl.load(a + off_a), tl.load(b + off_b))
        acc += part * (tl.load(rows) * tl.load(b_scales))[:, None]
        a += BK
        b += step
        rows += scale_block
        b_scales += 1
    _store(c, acc, m0, n0, M, N, BM, BN)


@triton.jit
def gemm_batched_kernel(
    c,
    a,
    b,
    a_scales,
    b_scales,
    bias,
    M,
    N,
    K,
    has_bias,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
    SCALED: tl.constexpr,
    BIAS: tl.constexpr,
):
    m0, n0 = _origin(M, N, BM, BN, GROUP_M, XCDS)
    pair = tl.program_id(1).to(tl.int64)
    UNIT: tl.constexpr = 128 // a.dtype.element_ty.primitive_bitwidth
    K = K // UNIT * UNIT
    tl.assume(K >= 0)
    tl.assume(K <= STRIDE_LIMIT)
    rm = tl.minimum(tl.arange(0, BM), M - m0 - 1)
    rn = tl.minimum(tl.arange(0, BN), N - n0 - 1)
    rk = tl.arange(0, BK)
    off_a = rm[:, None] * K + rk[None, :]
    off_b = rn[None, :] * K + rk[:, None]
    a += (pair * M + m0) * K
    b += (pair * N + n0) * K
    kind: tl.constexpr = tl.int32 if a.dtype.element_ty.is_int() else tl.float32
    acc = tl.zeros([BM, BN], kind)
    for _ in range(K // BK):
        # Hopper adds fp8 products in fewer bits: each instruction's sum is added in fp32.
        acc = tl.dot(tl.load(a + off_a), tl.load(b + off_b), acc, max_num_imprecise_acc=0, out_dtype=kind)
        a += BK
        b += BK
    left = K % BK
    if left > 0:
        x = tl.load(a + off_a, mask=rk[None, :] < left, other=0.0)
        y = tl.load(b + off_b, mask=rk[:, None] < left, other=0.0)
        acc = tl.dot(x, y, acc, max_num_imprecise_acc=0, out_dtype=kind)
    out = acc.to(tl.float32)
    if SCALED:
        rows = tl.load(a_scales + pair * M + m0 + rm)
        columns = tl.load(b_scales + pair * N + n0 + rn)
        out = out * rows[:, None] * columns[None, :]
    if BIAS:
        # Not read where there is none.
        added = tl.load(bias + n0 + rn, mask=tl.arange(0, BN) < (N - n0) * has_bias, other=0.0)
        out += added.to(tl.float32)[None, :]
    _store(c + pair * M * N, out, m0, n0, M, N, BM, BN)
