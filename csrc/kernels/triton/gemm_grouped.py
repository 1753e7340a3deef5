"""Matrix products of groups of rows, each with a weight of its own in the layout of `shuffle_weight` (16, 16).

`gemm_grouped_kernel`, of the first rows of each group g, as many as valid[g] says (between 0 and M):
    C[g, m, n] = round((A[g, m] . B[g, n]) * a_scales[g, m] * b_scales[g, n])
  Arguments, in order
    0 c *bf16 [G, M, N] | 1 a *T [G, M, K] | 2 b *T [G, N, K] | 3 valid *i32 [G] | 4 a_scales *f32 [G, M] | 5 b_scales *f32 [G, N]
    6 M i32 | 7 N i32, a multiple of 16 | 8 K i32, a multiple of 32
  constexprs  BM, BN, BK, GROUP_M, XCDS, SCALED (0: 4 and 5 are not read)
  grid        (cdiv(M, BM) * cdiv(N, BN), G, 1)

T is bf16 or the target's own e4m3.  b holds tiles of 16 rows and 16 bytes, one behind the other.  Sums are fp32 on the matrix
units, the result is rounded once.  Rows from valid[g] on stay as they are.  a, b and c are at multiples of 16 bytes: rows behind
the end repeat the last one and are not stored, so that 16 bytes are read at a time, and as many columns stored as a lane has.
  workspace   none

guarantee   0 <= K <= STRIDE_LIMIT (2^21 elements)
"""

import triton
import triton.language as tl
from gemm import STRIDE_LIMIT
from gemm_preshuffled import _store_runs
from gemm_scaled import _origin


@triton.jit
def gemm_grouped_kernel(
    c,
    a,
    b,
    valid,
    a_scales,
    b_scales,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
    SCALED: tl.constexpr,
):
    group = tl.program_id(1).to(tl.int64)
    rows = tl.minimum(tl.load(valid + group), M)
    if rows <= 0 or tl.program_id(0) >= tl.cdiv(rows, BM) * tl.cdiv(N, BN):
        return
    m0, n0 = _origin(rows, N, BM, BN, GROUP_M, XCDS)
    UNIT: tl.constexpr = 128 // a.dtype.element_ty.primitive_bitwidth
    K = K // 32 * 32
    tl.assume(K >= 0)
    tl.assume(K <= STRIDE_LIMIT)
    rm = tl.minimum(tl.arange(0, BM), rows - m0 - 1)
    rn = tl.minimum(tl.arange(0, BN), N - n0 - 1)
    rk = tl.arange(0, BK)
    off_a = rm[:, None] * K + rk[None, :]
    off_b = (rn // 16 * (16 * K) + rn % 16 * UNIT)[None, :] + (rk // UNIT * (16 * UNIT) + rk % UNIT)[:, None]
    a += (group * M + m0) * K
    b += (group * N + n0) * K
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
    if SCALED:
        high = tl.load(a_scales + group * M + m0 + rm)
        wide = tl.load(b_scales + group * N + n0 + rn)
        acc = acc * high[:, None] * wide[None, :]
    _store_runs(c + group * M * (N // 16 * 16), acc, m0, n0, rows, N, BM, BN)
