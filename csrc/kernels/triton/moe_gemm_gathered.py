"""Products of rows with the matrices of their experts, in MXFP4, over lists of `routing_place_kernel`.

    C[g] = act(x[rows of place g] @ w[expert of g]^T + bias) * gamma[g]
    GATED = 1   act(s)[c] = a * sigmoid(alpha * a) * (b + residual) of a = s[2 * c], b = s[2 * c + 1]; with a limit above 0 a is
                at most that before it, b that or its negative; C has N / 2 columns
    GATED = 0   act does nothing

`moe_gathered_kernel` arguments, in order
    0 out *T [places, N or N / 2] | 1 x *T [rows, row]: of place g row gather[g] / topk, or g where 19 gathered is 0
    2 w *u8: rows of N, K / 2 bytes each, pairs of codes, the lower half first | 3 w_scales *u8
    4 bias *f32, of each expert N, not read where 20 biased is 0 | 5 gather *i32 | 6 gammas *T, not read where 21 weighted is 0
    7 hist *i32 [E] | 8 starts *i32 [E] | 9 blocks *i32 [count], as in `moe_routing.py`
    10 N i32 | 11 K i32 | 12 row i32 | 13 w_expert i64, 14 w_row i32: bytes to the next expert, and row
    15 s_expert i64, 16 s_row i32, 17 s_along i32: to the next expert's scales, row's, and the next of a row; the last two are not
       read where 22 swizzled is 1: e8m0 as `moe_gemm_f4.py` has it
    18 topk i32 | 23 count i32 | 24 block_m i32: rows of a block, a multiple of BM | 25 bias_expert i32
    with GATED: 26 alpha f32 | 27 limit f32 | 28 residual f32
  constexprs  BM, BN, BK (128), XCDS, GATED
  grid        (count * (block_m / BM) * cdiv(N, BN), 1, 1), with GATED cdiv(N / 2, BN)

`moe_gathered_sum_kernel`: out[t] = parts[scatter[t * topk]] + parts[scatter[t * topk + 1]] + ..., in fp32
  Arguments   0 out *T [tokens, N] | 1 parts *T | 2 scatter *i32 | 3 topk i32 | 4 N i32
              5 live *i32 of each choice, read where 6 masked is not 0: of one that is 0 nothing is read, and nothing added
  constexprs  BLOCK
  grid        (tokens * cdiv(N, BLOCK), 1, 1)

T is bf16 or fp16, gammas have it, too.  Sums are fp32 on the matrix units; each result is rounded once.
guarantee   x, w, their rows and experts at multiples of 16 bytes; K a multiple of 32; N * w_row and N * s_row below 2^30
"""

import triton
import triton.language as tl
from gemm import _renumber
from moe_gemm_f4 import _scales_at, _sums


@triton.jit
def _product(
    out,
    x,
    w,
    w_scales,
    bias,
    gather,
    gammas,
    hist,
    starts,
    blocks,
    N,
    K,
    row,
    w_expert,
    w_row,
    s_expert,
    s_row,
    s_along,
    topk,
    gathered,
    biased,
    weighted,
    swizzled,
    count,
    block_m,
    bias_expert,
    alpha,
    limit,
    residual,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    XCDS: tl.constexpr,
    GATED: tl.constexpr,
):
    # What is known of an argument is lost on the way to the loads; what is computed is not.
    out = tl.multiple_of(out.to(tl.pointer_type(x.dtype.element_ty)), 16)
    row = row // 8 * 8
    w_row = w_row // 16 * 16
    groups = K // 32
    HALVES: tl.constexpr = 2 if GATED else 1
    width = N // HALVES
    parts = block_m // BM
    pid = _renumber(tl.program_id(0), count * parts * tl.cdiv(width, BN), XCDS)
    block = pid % (count * parts)
    n0 = pid // (count * parts) * BN
    told = tl.load(blocks + block // parts)
    if told < 0:
        return
    expert = (told & 0xFFFF).to(tl.int64)
    rows = tl.load(hist + expert)
    first = (told >> 16) * block_m + block % parts * BM
    if first >= rows:
        return
    rm = first + tl.arange(0, BM)
    place = tl.load(starts + expert) + tl.minimum(rm, rows - 1)
    source = place
    if gathered != 0:
        source = tl.load(gather + place) // topk
    # A row past the end repeats the last one: its load needs no mask of rows, and the store drops it.
    rn = n0 + tl.arange(0, BN)
    column = tl.minimum(rn, width - 1) * HALVES
    rk = tl.arange(0, BK)
    rb = tl.arange(0, BK // 2)
    rs = tl.arange(0, BK // 32)
    off_x = source.to(tl.int64)[:, None] * row + rk[None, :]
    off_w = column[None, :] * w_row + rb[:, None]
    w += expert * (w_expert // 16 * 16)
    w_scales += expert * s_expert
    no_scales = w_scales  # of x there are none
    if swizzled != 0:
        acc, acc_up = _sums(
            x, no_scales, off_x, 0, w, off_w, w_row, BK // 2, w_scales, _scales_at(column[:, None], rs[None, :], groups),
            4, groups, 0, 16, BM, BN, BK, GATED, 1,
        )  # fmt: skip
    else:
        acc, acc_up = _sums(
            x, no_scales, off_x, 0, w, off_w, w_row, BK // 2, w_scales, column[:, None] * s_row + rs[None, :] * s_along,
            s_row, groups, s_along, 16, BM, BN, BK, GATED, 0,
        )  # fmt: skip
    if biased != 0:
        bias += expert * bias_expert
        acc += tl.load(bias + column)[None, :]
        if GATED:
            acc_up += tl.load(bias + (column + 1))[None, :]
    if GATED:
        if limit > 0:
            acc = tl.where(acc > limit, limit, acc)
            acc_up = tl.where(acc_up > limit, limit, tl.where(acc_up < -limit, -limit, acc_up))
        acc = acc / (1 + tl.exp(-alpha * acc)) * (acc_up + residual)
    if weighted != 0:
        acc *= tl.load(gammas + place).to(tl.float32)[:, None]
    off = place.to(tl.int64)[:, None] * width + rn[None, :]
    tl.store(out + off, acc.to(out.dtype.element_ty), mask=(rm < rows)[:, None] & (rn < width)[None, :])


@triton.jit
def moe_gathered_gated_kernel(
    out,
    x,
    w,
    w_scales,
    bias,
    gather,
    gammas,
    hist,
    starts,
    blocks,
    N,
    K,
    row,
    w_expert,
    w_row,
    s_expert,
    s_row,
    s_along,
    topk,
    gathered,
    biased,
    weighted,
    swizzled,
    count,
    block_m,
    bias_expert,
    alpha,
    limit,
    residual,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    XCDS: tl.constexpr,
):
    _product(
        out,
        x,
        w,
        w_scales,
        bias,
        gather,
        gammas,
        hist,
        starts,
        blocks,
        N,
        K,
        row,
        w_expert,
        w_row,
        s_expert,
        s_row,
        s_along,
        topk,
        gathered,
        biased,
        weighted,
        swizzled,
        count,
        block_m,
        bias_expert,
        alpha,
        limit,
        residual,
        BM,
        BN,
        BK,
        XCDS,
        1,
    )


@triton.jit
def moe_gathered_kernel(
    out,
    x,
    w,
    w_scales,
    bias,
    gather,
    gammas,
    hist,
    starts,
    blocks,
    N,
    K,
    row,
    w_expert,
    w_row,
    s_expert,
    s_row,
    s_along,
    topk,
    gathered,
    biased,
    weighted,
    swizzled,
    count,
    block_m,
    bias_expert,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    XCDS: tl.constexpr,
):
    _product(
        out,
        x,
        w,
        w_scales,
        bias,
        gather,
        gammas,
        hist,
        starts,
        blocks,
        N,
        K,
        row,
        w_expert,
        w_row,
        s_expert,
        s_row,
        s_along,
        topk,
        gathered,
        biased,
        weighted,
        swizzled,
        count,
        block_m,
        bias_expert,
        1.0,
        0.0,
        0.0,
        BM,
        BN,
        BK,
        XCDS,
        0,
    )


@triton.jit
def moe_gathered_sum_kernel(out, parts, scatter, topk, N, live, masked, BLOCK: tl.constexpr):
    parts = tl.multiple_of(parts.to(tl.pointer_type(out.dtype.element_ty)), 16)
    pieces = tl.cdiv(N, BLOCK)
    token = (tl.program_id(0) // pieces).to(tl.int64)
    col = tl.program_id(0) % pieces * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], tl.float32)
    for choice in range(topk):
        at = token * topk + choice
        keep = tl.load(live + at, mask=masked != 0, other=1) != 0
        place = tl.load(scatter + at).to(tl.int64)
        acc += tl.load(parts + place * N + col, mask=(col < N) & keep, other=0.0).to(tl.float32)
    tl.store(out + token * N + col, acc.to(out.dtype.element_ty), mask=col < N)
