"""A mixture of experts in 8 bits, over the lists of `moe_sorting_place`: two products of codes with the matrices of their block's
expert. Scales are of rows, or of 128 columns of a row of x and of 128 rows by 128 columns of w.

    v[t, c]     = act(x[t] @ gate^T + bias, x[t] @ up^T + bias)   gate, up: the halves of w[expert of (t, c)]
    stage 1     scales[t, c, g] = max(largest |v[t, c]| of the 128 columns of group g, 1e-10) / QMAX, or the static one
                codes[t, c] = saturate(round(v[t, c] / scales[t, c, g])) to nearest even
    stage 2     parts[t, c] = (codes * scales)[t, c] @ w[expert of (t, c)]^T + bias
    with x, gate, up and w their codes times their scales

fp8 is the target's own e4m3.  Sums of fp8 are fp32 on the matrix units, those of int8 are int32 and exact, up to 2^17 columns.
A group with an infinity or NaN has the scale NaN.

Both kernels' arguments, in order
    stage 1: 0 codes *W [tokens * topk, G * 128], 0 behind column N | 1 scales *f32 [tokens * topk, G], G = cdiv(N, 128)
    stage 2: 0 parts *T [tokens * topk, N]
    x *W, of the first [tokens, K], of the second what the first wrote, G = cdiv(K, 128) | x_scales *f32
    w *W, of the first [E, 2 * N, K]: rows of gate, then rows of up; of the second [E, N, K] | w_scales *f32
    ids *i32: choice << 24 | token of each place; a choice of topk or more is padding | weights *f32 of each place
    experts *i32: of each block of BM places | valid *i32: how many places count
    tokens i32 | topk i32 | E i32 | N i32 | K i32 | blocks i32
    shuffled i32: 1 where w lies as `shuffle_weight` (16, 16) has it, tiles of 16 rows and 32 columns, 16 columns of all rows one
       behind the other; 0 where its rows are contiguous
    weighted i32: 1 multiplies each row by its weight, of the first the sums, of the second what they are with bias
    bias *f32, of the first [E, 2 * N], of the second [E, N]; not read where biased i32 is 0
    expert_scales i32: scales of w of one expert | row_scale i32: 0 where all its rows have one, else 1; not used with BLOCKS
    of the first: token_scale i32: 0 where all tokens have one scale, else 1; not used with BLOCKS
       activation i32, limit f32: as `moe_gemm.py` has them | static *f32, one scale; not read where fixed i32 is 0
  constexprs  BM, GROUP_M, XCDS, BLOCKS (1: scales of blocks of 128), of the second T ("bf16" or "f16")
  grid        (blocks * cdiv(N, 128), 1, 1)
  Rows of a block whose expert is none of E become 0.

  With BLOCKS gate's rows and up's have blocks of their own; the last of N rows, and in the second of K columns, may be a part.

guarantee   x and w at 16 bytes; N and K multiples of 16, K of 32 with shuffled, with BLOCKS K of the first and N of the second
            of 128; of the first tokens * K, tokens * topk * G * 128 and 2 * N * K below 2^31

GROUP_M and XCDS: as in `moe_gemm.py`.
"""

import triton
import triton.language as tl
from gemm import _renumber, _tile_of
from moe_gemm import _gated, _lines
from quant import _qmax, _quantise

#: Columns of a tile, and of what shares a scale.
GROUP: tl.constexpr = tl.constexpr(128)


@triton.constexpr_function
def _element(name):
    """The element type of a name."""
    return {"bf16": tl.bfloat16, "f16": tl.float16}[name]


@triton.jit
def _pointer(address, KIND: tl.constexpr):
    """A workspace has no element type of its own. What is said of a pointer to bytes, which it may be, is lost."""
    return tl.multiple_of(address.to(tl.pointer_type(tl.float32)), 16).to(tl.pointer_type(KIND))


@triton.jit
def _places(ids, block, tokens, topk, BM: tl.constexpr):
    """(tokens of a block's places, their lines of the result, which are there); those that are not are as the first."""
    number = tl.load(_pointer(ids, tl.int32) + block * BM + tl.arange(0, BM))
    token = number & 0xFFFFFF
    choice = (number >> 24) & 0xFF
    real = (token < tokens) & (choice < topk)
    return tl.where(real, token, 0), tl.where(real, token * topk + choice, 0), real


@triton.jit
def _expert(experts, block, E):
    """(a block's expert, whether it is one)."""
    expert = tl.load(_pointer(experts, tl.int32) + block)
    known = (expert >= 0) & (expert < E)
    return tl.where(known, expert, 0).to(tl.int64), known


@triton.jit
def moe_scaled_stage1_kernel(
    codes,
    scales,
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
    static,
    fixed,
    BM: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    CODE: tl.constexpr = w.dtype.element_ty
    SUM: tl.constexpr = tl.int32 if CODE.is_int() else tl.float32
    QMAX: tl.constexpr = _qmax(CODE)
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

    if BLOCKS:
        parts = K // GROUP
        token_scales = x_scales + token * parts
        gate_scales = w_scales + group * parts
        up_scales = gate_scales + groups * parts
        gate = tl.zeros([BM, GROUP], tl.float32)
        up = tl.zeros([BM, GROUP], tl.float32)
        for part in tl.range(0, parts):
            tile = tl.load(x + off_x)
            own = tl.load(token_scales + part)
            gate += tl.dot(tile, tl.load(w + off_w)) * (own * tl.load(gate_scales + part))[:, None]
            up += tl.dot(tile, tl.load(w + (off_w + half))) * (own * tl.load(up_scales + part))[:, None]
            x += GROUP
            w += step
    else:
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
    lost = tl.sum(v * 0.0, 1)  # NaN if a number of the group is none, or infinite

    scale = tl.maximum(tl.max(tl.abs(v), 1), 1e-10) / QMAX
    if fixed != 0:
        scale = tl.zeros([BM], tl.float32) + tl.load(static)
    v = _quantise(v * (1.0 / scale)[:, None], QMAX, CODE.is_int())
    wide = line.to(tl.int64) * groups + group
    tl.store(_pointer(scales, tl.float32) + wide, scale + lost, mask=real)
    off = wide[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    tl.store(_pointer(codes, CODE) + off, v.to(CODE), mask=real[:, None])


@triton.jit
def moe_scaled_stage2_kernel(
    parts,
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
    BM: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
    BLOCKS: tl.constexpr,
    T: tl.constexpr,
):
    CODE: tl.constexpr = w.dtype.element_ty
    SUM: tl.constexpr = tl.int32 if CODE.is_int() else tl.float32
    N = N // 16 * 16
    K = K // 16 * 16
    tiles = tl.cdiv(N, GROUP)
    pid = _renumber(tl.program_id(0), blocks * tiles, XCDS)
    block, tile_n = _tile_of(pid, blocks, tiles, GROUP_M)
    if block * BM >= tl.load(_pointer(valid, tl.int32)):
        return
    expert, known = _expert(experts, block, E)
    _, line, real = _places(ids, block, tokens, topk, BM)

    rn = tile_n * GROUP + tl.arange(0, GROUP)
    row = tl.minimum(rn, N - 1)
    rk = tl.arange(0, GROUP)
    groups = tl.cdiv(K, GROUP)
    x = _pointer(x, CODE)
    off_x = line[:, None] * (groups * GROUP) + rk[None, :]
    off_w = _lines(row[None, :], rk[:, None], K, shuffled, 16)
    step = tl.where(shuffled != 0, GROUP // 32 * 512, GROUP)
    w += expert * N * K
    w_scales += expert * expert_scales
    line_scales = _pointer(x_scales, tl.float32) + line * groups

    acc = tl.zeros([BM, GROUP], tl.float32)
    if K >= GROUP:
        for group in tl.range(0, K // GROUP):
            own = tl.load(line_scales + group)
            if BLOCKS:
                own *= tl.load(w_scales + tile_n * groups + group)
            product = tl.dot(tl.load(x + off_x), tl.load(w + off_w), out_dtype=SUM)
            acc += product.to(tl.float32) * own[:, None]
            x += GROUP
            w += step
    if K % GROUP > 0:
        # Codes behind the last column are 0.
        last = tl.load(w + off_w, mask=(rk < K % GROUP)[:, None], other=0.0)
        rest = tl.dot(tl.load(x + off_x), last, out_dtype=SUM)
        own = tl.load(line_scales + (groups - 1))
        if BLOCKS:
            own *= tl.load(w_scales + tile_n * groups + (groups - 1))
        acc += rest.to(tl.float32) * own[:, None]
    if not BLOCKS:
        acc *= tl.load(w_scales + row * row_scale)[None, :]

    if biased != 0:
        acc += tl.load(bias + expert * N + row)[None, :]
    if weighted != 0:
        acc *= tl.load(_pointer(weights, tl.float32) + block * BM + tl.arange(0, BM))[:, None]
    acc = tl.where(known, acc, 0.0)
    off = line.to(tl.int64)[:, None] * N + rn[None, :]
    tl.store(_pointer(parts, _element(T)) + off, acc.to(_element(T)), mask=real[:, None] & (rn < N)[None, :])
