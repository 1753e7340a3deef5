"""Products of rows of fp8 (e4m3fn) or MXFP4 with the matrices of their experts, in MXFP4, over lists of `routing_place_kernel`.

    C[g] = act((x[rows of place g] @ w[expert of g]^T) * x_scale + bias) * gamma[g], with T = "e4m3fn" / quant_scale

`moe_gathered_fp8_kernel` arguments, in order
    0 out *T [places, N or N / 2] | 1 x *fp8 [rows, row], with KIND = "e2m1" *u8: pairs of codes, the lower half first
    2 x_scales *u8: e8m0 of 32 columns of x, to the next row's 26 xs_row, of a row to the next 27 xs_along; not read where
      28 shared is 0 | 29 x_scale *f32, not read where 30 scaled is 0
    3 w, 4 w_scales, 5 bias, 6 gather | 7 gammas *bf16 | 8 hist, 9 starts, 10 blocks, 11 N, 12 K, 13 row, 14 w_expert, 15 w_row,
    16 s_expert, 17 s_row, 18 s_along, 19 topk, 20 gathered, 21 biased, 22 weighted, 23 swizzled, 24 count, 25 block_m: as
      `moe_gathered_kernel` of `moe_gemm_gathered.py` has them | 31 bias_expert i32 | 32 quant_scale *f32, read with T = "e4m3fn"
    33 alpha f32 | 34 limit f32 | 35 residual f32: read with GATED = 1
  constexprs  T ("bf16" or "e4m3fn"), KIND ("e4m3" or "e2m1"), BM, BN, BK (128), XCDS, GATED
  grid        (count * (block_m / BM) * cdiv(N, BN), 1, 1), with GATED cdiv(N / 2, BN)

Sums are fp32 on the matrix units; each result is rounded once, of fp8 after it is cut at 448.
guarantee   as `moe_gemm_gathered.py`; rows of x at multiples of 16 bytes
"""

import triton
import triton.language as tl
from gemm import _renumber
from moe_gemm_f4 import _scales_at
from moe_gemm_gathered import moe_gathered_sum_kernel  # noqa: F401 - a step of the manifest


@triton.jit
def _gated(gate, up, alpha, limit, residual):
    if limit > 0:
        gate = tl.where(gate > limit, limit, gate)
        up = tl.where(up > limit, limit, tl.where(up < -limit, -limit, up))
    return gate / (1 + tl.exp(-alpha * gate)) * (up + residual)


@triton.jit
def moe_gathered_fp8_kernel(
    out,
    x,
    x_scales,
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
    xs_row,
    xs_along,
    shared,
    x_scale,
    scaled,
    bias_expert,
    quant_scale,
    alpha,
    limit,
    residual,
    T: tl.constexpr,
    KIND: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    XCDS: tl.constexpr,
    GATED: tl.constexpr,
):
    # What is known of an argument is lost on the way to the loads; what is computed is not.
    stored: tl.constexpr = tl.bfloat16 if T == "bf16" else tl.float8e4nv
    out = tl.multiple_of(out.to(tl.pointer_type(stored)), 16)
    row = row // 16 * 16
    w_row = w_row // 16 * 16
    groups = K // 32
    HALVES: tl.constexpr = 2 if GATED else 1
    PAIRED: tl.constexpr = 2 if KIND == "e2m1" else 1
    BYTES: tl.constexpr = BK // PAIRED
    GROUP: tl.constexpr = 32 // PAIRED
    NOTHING: tl.constexpr = 0 if KIND == "e2m1" else 0.0
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
    source = source.to(tl.int64)
    # A row past the end repeats the last one: its load needs no mask of rows, and the store drops it.
    rn = n0 + tl.arange(0, BN)
    column = tl.minimum(rn, width - 1) * HALVES
    rk = tl.arange(0, BYTES)
    rb = tl.arange(0, BK // 2)
    rs = tl.arange(0, BK // 32)
    off_x = source[:, None] * row + rk[None, :]
    off_xs = source[:, None] * xs_row + rs[None, :] * xs_along
    off_w = column[None, :] * w_row + rb[:, None]
    plain = column[:, None] * s_row + rs[None, :] * s_along
    off_s = tl.where(swizzled != 0, _scales_at(column[:, None], rs[None, :], groups), plain)
    up_s = tl.where(swizzled != 0, 4, s_row)
    w += expert * (w_expert // 16 * 16)
    w_scales += expert * s_expert
    acc = tl.zeros([BM, BN], tl.float32)
    acc_up = tl.zeros([BM, BN], tl.float32)
    # Masks end with whole groups of columns, so a load may be as wide as its part of one.
    for g0 in tl.range(0, groups, BK // 32):
        left = groups - g0
        keep_s = (rs < left)[None, :]
        keep = (rb < left * 16)[:, None]
        part = tl.load(x + off_x, mask=(rk < left * GROUP)[None, :], other=NOTHING)
        own = tl.load(x_scales + off_xs, mask=keep_s & (shared != 0), other=127)
        scales = w_scales + tl.where(swizzled != 0, g0 // 8 * 256 + g0 % 8 // 4 * 2, g0 * s_along)
        tile = tl.load(w + off_w, mask=keep, other=0)
        tile_scales = tl.load(scales + off_s, mask=keep_s, other=127)
        acc = tl.dot_scaled(part, own, KIND, tile, tile_scales, "e2m1", acc, fast_math=True)
        if GATED:
            tile = tl.load(w + (off_w + w_row), mask=keep, other=0)
            tile_scales = tl.load(scales + (off_s + up_s), mask=keep_s, other=127)
            acc_up = tl.dot_scaled(part, own, KIND, tile, tile_scales, "e2m1", acc_up, fast_math=True)
        x += BYTES
        x_scales += BK // 32 * xs_along
        w += BK // 2
    if scaled != 0:
        factor = tl.load(x_scale)
        acc *= factor
        acc_up *= factor
    if biased != 0:
        bias += expert * bias_expert
        acc += tl.load(bias + column)[None, :]
        if GATED:
            acc_up += tl.load(bias + (column + 1))[None, :]
    if GATED:
        acc = _gated(acc, acc_up, alpha, limit, residual)
    if weighted != 0:
        acc *= tl.load(gammas + place).to(tl.float32)[:, None]
    if T != "bf16":
        acc = acc / tl.load(quant_scale)
        acc = tl.where(acc > 448, 448.0, tl.where(acc < -448, -448.0, acc))
    off = place.to(tl.int64)[:, None] * width + rn[None, :]
    tl.store(out + off, acc.to(stored), mask=(rm < rows)[:, None] & (rn < width)[None, :])
