"""A mixture of experts over the lists of `moe_sorting_place` or `moe_lists.py`: two products of rows with the matrices of their
block's expert.

    stage 1: inter[t, c] = act(x[t] @ gate^T + bias, x[t] @ up^T + bias)      gate, up: the halves of w[expert of (t, c)]
    stage 2: parts[t, c] = inter[t, c] @ w[expert of (t, c)]^T + bias
    sum:     out[t]      = parts[t, 0] + parts[t, 1] + ...           in this order, in fp32, of the experts that are here

x, w and the results are bf16 or fp16 (one type T), sums are fp32 on the matrix units, and each result is rounded once.

`moe_stage1_kernel` and `moe_stage2_kernel` arguments, in order
    0 out *T [tokens * topk, N] | 1 x *T, of the first [tokens, K], of the second [tokens * topk, K]
    2 w *T, of the first [E, 2 * N, K]: rows of gate, then rows of up; of the second [E, N, K]
    3 ids *i32: choice << 24 | token of each place; a choice of topk or more is padding | 4 weights *f32 of each place
    5 experts *i32: of each block of BM places | 6 valid *i32: how many places count
    7 tokens i32 | 8 topk i32 | 9 E i32 | 10 N i32 | 11 K i32 | 12 blocks i32
    13 shuffled i32: 1 where w lies as `shuffle_weight` (16, 16) has it, tiles of 16 rows and 32 columns, 8 columns of all rows
       one behind the other; 0 where its rows are contiguous
    14 weighted i32: 1 multiplies each row by its weight, of the first the sums, of the second what they are with bias
    15 bias *f32, of the first [E, 2 * N], of the second [E, N]; not read where 16 biased i32 is 0
    of the first: 17 activation i32: act(g, u) is SiLU(g) * u (0), GELU(g) * u in its erf form (1), or
       g * sigmoid(1.702 * g) * (u + 1) (2) | 18 limit f32: before it g is at most that, u that or its negative; 0: as they are
  constexprs  BM, BN1 or BN2, BK, GROUP_M, XCDS
  grid        (blocks * cdiv(N, BN1 or BN2), 1, 1)
  Rows of a block whose expert is none of E become 0.

`moe_sum_kernel` arguments, in order
    0 out *T [tokens, N] | 1 parts *T [tokens * topk, N] | 2 topk_ids *i32 [tokens, topk]
    3 mask *i32 [experts]: 0 where an expert is not here; not read where masked is 0
    4 local *i32 [1]: so many of the tokens are there, the rows of the others become 0; not read where limited is 0
    5 tokens i32 | 6 topk i32 | 7 experts i32 | 8 N i32 | 9 masked i32 | 10 limited i32
  constexprs  BLOCK
  grid        (tokens * cdiv(N, BLOCK), 1, 1)

guarantee   all pointers to T at 16 bytes; N and K multiples of 32; tokens * topk * K, tokens * topk * N and 2 * N * K below 2^30

XCDS is the number of dies workgroups are dealt out to in turn: GROUP_M blocks follow one another on one die, whose L2 has the
tile of the weights that those of one expert share; the same rows of x come again for the next tile.
"""

import triton
import triton.language as tl
from gemm import _renumber, _tile_of


@triton.jit
def _lines(n, k, K, shuffled, UNIT: tl.constexpr = 8):
    """Where the elements (n, k) of a matrix of K columns lie, n [1, BN] and k [BK, 1]: of UNIT columns, 16 bytes, in one run."""
    row = tl.where(shuffled != 0, 1, K // UNIT)
    tile = tl.where(shuffled != 0, 512 // UNIT, 32 // UNIT)
    part = tl.where(shuffled != 0, 16, 1)
    unit = n // 16 * (16 // UNIT * K) + n % 16 * row + (k // 32 * tile + k % 32 // UNIT * part)
    # Past 32 columns the compiler does not see it, and would load one element at a time.
    return tl.max_contiguous(tl.multiple_of(unit * UNIT + k % UNIT, [UNIT, 1]), [UNIT, 1])


@triton.jit
def _gated(gate, up, activation, limit):
    """What the sums of both halves become; a NaN stays one."""
    if limit > 0:
        gate = tl.where(gate > limit, limit, gate)
        up = tl.where(up > limit, limit, tl.where(up < -limit, -limit, up))
    active = gate / (1 + tl.exp(gate * tl.where(activation == 2, -1.702, -1.0)))
    if activation == 1:
        active = gate * 0.5 * (1 + tl.erf(gate * 0.7071067811865476))
    return active * tl.where(activation == 2, up + 1, up)


@triton.jit
def _stage(
    out,
    x,
    w,
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
    activation,
    limit,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
    GATED: tl.constexpr,
):
    # A workspace has no element type of its own.
    out = tl.multiple_of(out.to(tl.pointer_type(w.dtype.element_ty)), 16)
    x = tl.multiple_of(x.to(tl.pointer_type(w.dtype.element_ty)), 16)
    ids = ids.to(tl.pointer_type(tl.int32))
    weights = weights.to(tl.pointer_type(tl.float32))
    experts = experts.to(tl.pointer_type(tl.int32))
    valid = valid.to(tl.pointer_type(tl.int32))

    tiles = tl.cdiv(N, BN)
    pid = _renumber(tl.program_id(0), blocks * tiles, XCDS)
    block, tile_n = _tile_of(pid, blocks, tiles, GROUP_M)
    n0 = tile_n * BN
    if block * BM >= tl.load(valid):
        return
    expert = tl.load(experts + block)
    known = (expert >= 0) & (expert < E)
    expert = tl.where(known, expert, 0).to(tl.int64)

    place = block * BM + tl.arange(0, BM)
    number = tl.load(ids + place)
    token = number & 0xFFFFFF
    choice = (number >> 24) & 0xFF
    real = (token < tokens) & (choice < topk)
    line = tl.where(real, token * topk + choice, 0)
    source = tl.where(real, token, 0) if GATED else line

    # A row past the end repeats the last one: its load needs no mask of rows, and the store drops it.
    rn = n0 + tl.arange(0, BN)
    row = tl.minimum(rn, N - 1)
    rk = tl.arange(0, BK)
    off_x = source[:, None] * K + rk[None, :]
    off_w = _lines(row[None, :], rk[:, None], K, shuffled)
    step = tl.where(shuffled != 0, BK // 32 * 512, BK)
    w += expert * (2 if GATED else 1) * N * K
    half = N * K  # of whole tiles of 16 rows, in either layout

    acc = tl.zeros([BM, BN], tl.float32)
    acc_up = tl.zeros([BM, BN], tl.float32)
    for k0 in tl.range(0, K, BK):
        keep = rk < K - k0
        tile = tl.load(x + off_x, mask=keep[None, :], other=0.0)
        acc = tl.dot(tile, tl.load(w + off_w, mask=keep[:, None], other=0.0), acc)
        if GATED:
            acc_up = tl.dot(tile, tl.load(w + (off_w + half), mask=keep[:, None], other=0.0), acc_up)
        x += BK
        w += step

    factor = tl.full([BM], 1.0, tl.float32)
    if weighted != 0:
        factor = tl.load(weights + place)
    if GATED:
        acc *= factor[:, None]
        acc_up *= factor[:, None]
    if biased != 0:
        bias += expert * (2 if GATED else 1) * N
        acc += tl.load(bias + row)[None, :]
        if GATED:
            acc_up += tl.load(bias + (row + N))[None, :]
    if GATED:
        acc = _gated(acc, acc_up, activation, limit)
    else:
        acc *= factor[:, None]
    acc = tl.where(known, acc, 0.0)
    off = line.to(tl.int64)[:, None] * N + rn[None, :]
    tl.store(out + off, acc.to(out.dtype.element_ty), mask=real[:, None] & (rn < N)[None, :])


@triton.jit
def moe_stage1_kernel(
    out,
    x,
    w,
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
    activation,
    limit,
    BM: tl.constexpr,
    BN1: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
):
    _stage(
        out,
        x,
        w,
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
        activation,
        limit,
        BM,
        BN1,
        BK,
        GROUP_M,
        XCDS,
        1,
    )


@triton.jit
def moe_stage2_kernel(
    out,
    x,
    w,
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
    BM: tl.constexpr,
    BN2: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
    XCDS: tl.constexpr,
):
    _stage(
        out,
        x,
        w,
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
        0,
        0.0,
        BM,
        BN2,
        BK,
        GROUP_M,
        XCDS,
        0,
    )


@triton.jit
def moe_sum_kernel(
    out,
    parts,
    topk_ids,
    mask,
    local,
    tokens,
    topk,
    experts,
    N,
    masked,
    limited,
    BLOCK: tl.constexpr,
):
    parts = tl.multiple_of(parts.to(tl.pointer_type(out.dtype.element_ty)), 16)
    pieces = tl.cdiv(N, BLOCK)
    row = tl.program_id(0) // pieces
    col = tl.program_id(0) % pieces * BLOCK + tl.arange(0, BLOCK)
    count = tokens
    if limited != 0:
        count = tl.minimum(tl.load(local), tokens)
    choices = tl.where(row < count, topk, 0)
    acc = tl.zeros([BLOCK], tl.float32)
    for choice in range(choices):
        expert = tl.load(topk_ids + row * topk + choice)
        here = (expert >= 0) & (expert < experts)
        if masked != 0:
            here &= tl.load(mask + tl.where(here, expert, 0)) != 0
        if here:
            at = (row * topk + choice).to(tl.int64) * N + col
            acc += tl.load(parts + at, mask=col < N, other=0.0).to(tl.float32)
    tl.store(out + row.to(tl.int64) * N + col, acc.to(out.dtype.element_ty), mask=col < N)
