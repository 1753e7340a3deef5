"""A mixture of experts in 8 bits with one scale for all that the activation gives, as AITER's ``QuantType.per_Tensor`` has it.

    v[t, c]     = act(x[t] @ gate^T + bias, x[t] @ up^T + bias)     rounded to T; gate, up: the halves of w[expert of (t, c)]
    scale       = max(largest finite |v| of all choices that count, 1e-10) / QMAX
    codes[t, c] = saturate(round(v[t, c] / scale)) to nearest even

The scale depends on every row, so three launches make codes: the first leaves v and the largest size of each 128 columns, the
second reduces those sizes, the third divides. `moe_scaled_stage2_kernel` of `moe_gemm_scaled.py` multiplies the codes.
A group of 128 columns with an infinity or NaN counts for nothing in the scale, and has NaN for its own.

`moe_tensor_stage1_kernel` arguments, in order
    0 hidden *T [tokens * topk, G * 128], 0 behind column N | 1 sizes *f32 [tokens * topk, G], G = cdiv(N, 128)
    2 x *W [tokens, K] | 3 x_scales *f32 | 4 w *W [E, 2 * N, K] | 5 w_scales *f32
    6 ids, 7 weights, 8 experts, 9 valid, 10 tokens, 11 topk, 12 E, 13 N, 14 K, 15 blocks, 16 shuffled, 17 weighted, 18 bias,
    19 biased, 20 expert_scales, 21 row_scale, 22 token_scale, 23 activation, 24 limit: as `moe_scaled_stage1_kernel` has them
  constexprs  BM, GROUP_M, XCDS, T ("bf16" or "f16")
  grid        (blocks * G, 1, 1)

`moe_tensor_sizes_kernel` arguments, in order
    0 partial *f32 [PARTS] | 1 sizes *f32 | 2 ids *i32 | 3 valid *i32 | 4 tokens i32 | 5 topk i32 | 6 groups i32: G
  constexprs  PARTS, BLOCK: sizes of a turn
  grid        (PARTS, 1, 1)

`moe_tensor_codes_kernel` arguments, in order
    0 codes *W [tokens * topk, G * 128] | 1 scales *f32 [tokens * topk, G], which holds the sizes before
    2 hidden *T, as the first wrote it | 3 partial *f32 [PARTS] | 4 ids *i32 | 5 valid *i32 | 6 tokens i32 | 7 topk i32
    8 groups i32
  constexprs  PARTS, BM, T, W ("i8", "e4m3fn" or "e4m3fnuz")
  grid        (blocks * G, 1, 1)

guarantee   as `moe_scaled_stage1_kernel` without BLOCKS
"""

import triton
import triton.language as tl
from gemm import _renumber, _tile_of
from moe_gemm import _gated, _lines
from moe_gemm_scaled import GROUP, _element, _expert, _places, _pointer
from quant import _qmax, _quantise


@triton.constexpr_function
def _code(name):
    """The type of codes of a name."""
    return {"i8": tl.int8, "e4m3fn": tl.float8e4nv, "e4m3fnuz": tl.float8e4b8}[name]


@triton.jit
def moe_tensor_stage1_kernel(
    hidden,
    sizes,
    x,
    x_scales,
    w,
    w_scales,
    ids,
    weights,
    experts,
    valid,
    tokens,
    topk,
    E,
    N,
    K,
    blocks,
    shuffled,
    weighted,
    bias,
    biased,
    expert_scales,
    row_scale,
    token_scale,
    activation,
    limit,
    BM: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
    T: tl.constexpr,
):
    SUM: tl.constexpr = tl.int32 if w.dtype.element_ty.is_int() else tl.float32
    KIND: tl.constexpr = _element(T)
    # What is known of an argument is lost on the way to the loads; what is computed is not.
    N = N // 16 * 16
    K = K // 16 * 16
    groups = tl.cdiv(N, GROUP)
    pid = _renumber(tl.program_id(0), blocks * groups, XCDS)
    block, group = _tile_of(pid, blocks, groups, GROUP_M)
    if block * BM >= tl.load(_pointer(valid, tl.int32)):
        return
    expert, known = _expert(experts, block, E)
    token, line, real = _places(ids, block, tokens, topk, BM)

    # A row past the end repeats the last one: its load needs no mask of rows.
    rn = group * GROUP + tl.arange(0, GROUP)
    row = tl.minimum(rn, N - 1)
    rk = tl.arange(0, GROUP)
    off_x = token[:, None] * K + rk[None, :]
    off_w = _lines(row[None, :], rk[:, None], K, shuffled, 16)
    step = tl.where(shuffled != 0, GROUP // 32 * 512, GROUP)
    half = N * K  # of whole tiles of 16 rows, in either layout
    w += expert * 2 * N * K
    w_scales += expert * expert_scales

    sums = tl.zeros([BM, GROUP], SUM)
    sums_up = tl.zeros([BM, GROUP], SUM)
    if K >= GROUP:  # what is made of a loop reads LDS before it knows whether it has a turn
        for _ in tl.range(0, K // GROUP):
            tile = tl.load(x + off_x)
            sums = tl.dot(tile, tl.load(w + off_w), sums, out_dtype=SUM)
            sums_up = tl.dot(tile, tl.load(w + (off_w + half)), sums_up, out_dtype=SUM)
            x += GROUP
            w += step
    if K % GROUP > 0:
        keep = rk < K % GROUP
        tile = tl.load(x + off_x, mask=keep[None, :], other=0.0)
        sums = tl.dot(tile, tl.load(w + off_w, mask=keep[:, None], other=0.0), sums, out_dtype=SUM)
        other = tl.load(w + (off_w + half), mask=keep[:, None], other=0.0)
        sums_up = tl.dot(tile, other, sums_up, out_dtype=SUM)
    own = tl.load(x_scales + token * token_scale)[:, None]
    gate = sums.to(tl.float32) * own * tl.load(w_scales + row * row_scale)[None, :]
    up = sums_up.to(tl.float32) * own * tl.load(w_scales + (row + N) * row_scale)[None, :]

    if weighted != 0:
        factor = tl.load(_pointer(weights, tl.float32) + block * BM + tl.arange(0, BM))[:, None]
        gate *= factor
        up *= factor
    if biased != 0:
        bias += expert * 2 * N
        gate += tl.load(bias + row)[None, :]
        up += tl.load(bias + (row + N))[None, :]
    v = tl.where(known & (rn < N)[None, :], _gated(gate, up, activation, limit), 0.0)
    rounded = v.to(KIND)
    v = rounded.to(tl.float32)
    lost = tl.sum(v * 0.0, 1)  # NaN if a number of the group is none, or infinite

    wide = line.to(tl.int64) * groups + group
    tl.store(_pointer(sizes, tl.float32) + wide, tl.max(tl.abs(v), 1) + lost, mask=real)
    off = wide[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    tl.store(_pointer(hidden, KIND) + off, rounded, mask=real[:, None])


@triton.jit
def moe_tensor_sizes_kernel(
    partial,
    sizes,
    ids,
    valid,
    tokens,
    topk,
    groups,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    part = tl.program_id(0)
    count = tl.load(_pointer(valid, tl.int32)) * groups
    most = tl.zeros([BLOCK], tl.float32)
    for first in tl.range(part * BLOCK, count, PARTS * BLOCK):
        at = first + tl.arange(0, BLOCK)
        place = at // groups
        number = tl.load(_pointer(ids, tl.int32) + place, mask=at < count, other=-1)
        token = number & 0xFFFFFF
        choice = (number >> 24) & 0xFF
        real = (at < count) & (token < tokens) & (choice < topk)
        line = tl.where(real, token * topk + choice, 0).to(tl.int64)
        size = tl.load(_pointer(sizes, tl.float32) + line * groups + at % groups, mask=real, other=0.0)
        most = tl.where(size > most, size, most)  # not where it is NaN
    tl.store(_pointer(partial, tl.float32) + part, tl.max(most, 0))


@triton.jit
def moe_tensor_codes_kernel(
    codes,
    scales,
    hidden,
    partial,
    ids,
    valid,
    tokens,
    topk,
    groups,
    PARTS: tl.constexpr,
    BM: tl.constexpr,
    T: tl.constexpr,
    W: tl.constexpr,
):
    CODE: tl.constexpr = _code(W)
    QMAX: tl.constexpr = _qmax(CODE)
    block = tl.program_id(0) // groups
    group = tl.program_id(0) % groups
    if block * BM >= tl.load(_pointer(valid, tl.int32)):
        return
    _, line, real = _places(ids, block, tokens, topk, BM)
    most = tl.max(tl.load(_pointer(partial, tl.float32) + tl.arange(0, PARTS)), 0)
    scale = tl.maximum(most, 1e-10) / QMAX
    wide = line.to(tl.int64) * groups + group
    lost = tl.load(_pointer(scales, tl.float32) + wide, mask=real, other=0.0) * 0.0
    off = wide[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    v = tl.load(_pointer(hidden, _element(T)) + off, mask=real[:, None], other=0.0).to(tl.float32)
    v = _quantise(v * (1.0 / scale), QMAX, CODE.is_int())
    tl.store(_pointer(scales, tl.float32) + wide, scale + lost, mask=real)
    tl.store(_pointer(codes, CODE) + off, v.to(CODE), mask=real[:, None])
