"""Collectives of 2 to 8 devices of one host that can touch each other's memory: all-reduce, all-reduce with add and RMS
norm, all-gather, reduce-scatter.

The protocol is that of `csrc/kernels/hip/peers.hip`, which says what a block is and why a half of the data may be written again
two calls later; both offer the same regions and tell the same steps. This text is for NVIDIA GPUs.

Memory order
    tell    All threads' stores to the region come before the barrier, and the exchange with release semantics at system scope
            behind it covers them: what a thread saw through a barrier is released with its own stores (PTX, causality order).
    hear    The add of nothing with acquire semantics at system scope reads the other rank's exchange, and the barrier behind it
            hands that on to all threads. The acquire also empties the multiprocessor's first-level cache.
    reads   Other ranks' regions are read with `volatile`: such a load is never moved, merged or served by a first-level cache, in
            which lines of peers' memory may lie since the last call.
Ordinary device memory is enough: peers' loads of it are served by the cache of the device that it belongs to.

Sums are in the order of the ranks, in fp32, rounded once: every rank has the same bits.

`peer_all_reduce_kernel` arguments, in order
    out *T | input *T | data0..data7 *T | signals0..signals7 *i32 | rank i32 | groups i32
    region, packs, share i64: of 16 bytes, of a region, of the input, of a program's part
`peer_all_reduce_rmsnorm_kernel`: out, residual_out, input, residual_in, weight *T, the same from data0 on, then
    row i64 packs of a row | inverse_width f32 | epsilon f32 | gemma_norm i32 (0 or 1); `share` is whole rows
`peer_all_gather_kernel` (words: T is i32), `peer_reduce_scatter_kernel` (packs and share are those of the result): those of
    peer_all_reduce_kernel, then row i64

constexprs   WORLD ranks, LANES packs of 16 bytes that a program takes at once, OP as there
grid         as many programs as parts, at most `groups`; all of them must be resident, since they wait for other devices'
alignment    every pointer of T at 16 bytes; those of ranks that there are not are null
"""

import triton
import triton.language as tl

SLOTS = tl.constexpr(8)


@triton.jit
def _of_rank(all, rank):
    found = all[0]
    for r in tl.static_range(1, 8):
        found = tl.where(rank == r, all[r], found)
    return found


@triton.jit
def _exchange(signals, rank, groups, step, WORLD: tl.constexpr):
    """Tell this program of every other rank that what this one wrote is there; wait until all of them have told this one."""
    group = tl.program_id(0)
    ranks = tl.arange(0, SLOTS)
    others = (ranks < WORLD) & (ranks != rank)
    tl.debug_barrier()
    told = _of_rank(signals, ranks) + (rank.to(tl.int64) * groups + group)
    tl.atomic_xchg(told, step, mask=others, sem="release", scope="sys")
    heard = _of_rank(signals, rank) + (ranks.to(tl.int64) * groups + group)
    behind = 1
    while behind > 0:
        seen = tl.atomic_add(heard, 0, mask=others, sem="acquire", scope="sys")
        # The difference, not the order, is compared: steps may wrap.
        behind = tl.max(tl.where(others & (seen - step < 0), 1, 0))
    tl.debug_barrier()


@triton.jit
def _sum(data, base, at, mask, WORLD: tl.constexpr):
    """The sum of elements `at` of all ranks' regions. All loads stand before the first addition: they are under way together."""
    parts = ()
    for r in tl.static_range(WORLD):
        parts += (tl.load(data[r] + base + at, mask=mask, other=0.0, volatile=True),)
    total = parts[0].to(tl.float32)
    for r in tl.static_range(1, WORLD):
        total += parts[r].to(tl.float32)
    return total


@triton.jit
def _part(signals, rank, groups, region, packs, share, WORLD: tl.constexpr, PACK: tl.constexpr):
    """(first element of this program's part, how many there are, where they lie in the data, calls before this one)."""
    group = tl.program_id(0).to(tl.int64)
    first = group * share
    calls = tl.load(_of_rank(signals, rank) + (WORLD * groups + group))
    base = ((calls & 1) * groups.to(tl.int64) + group) * region
    return first * PACK, tl.minimum(share, packs - first) * PACK, base * PACK, calls


@triton.jit
def _offer(own, input, here, STEP: tl.constexpr):
    lane = tl.arange(0, STEP)
    for start in range(0, here, STEP):
        at = start + lane
        tl.store(own + at, tl.load(input + at, mask=at < here), mask=at < here)


@triton.jit
def _end(signals, rank, groups, calls, WORLD: tl.constexpr):
    tl.store(_of_rank(signals, rank) + (WORLD * groups + tl.program_id(0)), calls + 1)


@triton.jit
def peer_all_reduce_kernel(
    out,
    input,
    data0,
    data1,
    data2,
    data3,
    data4,
    data5,
    data6,
    data7,
    signals0,
    signals1,
    signals2,
    signals3,
    signals4,
    signals5,
    signals6,
    signals7,
    rank,
    groups,
    region,
    packs,
    share,
    WORLD: tl.constexpr,
    LANES: tl.constexpr,
    OP: tl.constexpr,
):
    PACK: tl.constexpr = 128 // out.dtype.element_ty.primitive_bitwidth
    data = (data0, data1, data2, data3, data4, data5, data6, data7)
    signals = (signals0, signals1, signals2, signals3, signals4, signals5, signals6, signals7)
    first, here, base, calls = _part(signals, rank, groups, region, packs, share, WORLD, PACK)
    own = _of_rank(data, rank) + base
    out += first
    _offer(own, input + first, here, LANES * PACK)
    _exchange(signals, rank, groups, 2 * calls + 1, WORLD)
    lane = tl.arange(0, LANES * PACK)
    if OP == "reduce2":
        # A part is WORLD equal ones; the sums go where this rank's own lay, which no other rank reads before.
        each = (share // WORLD) * PACK
        begin = rank * each
        end = tl.minimum(begin + each, here)
        for start in range(begin, end, LANES * PACK):
            at = start + lane
            total = _sum(data, base, at, at < end, WORLD).to(out.dtype.element_ty)
            tl.store(own + at, total, mask=at < end)
            tl.store(out + at, total, mask=at < end)
        _exchange(signals, rank, groups, 2 * calls + 2, WORLD)
        for start in range(0, each, LANES * PACK):
            at = start + lane
            parts = ()
            for r in tl.static_range(WORLD):
                there = (at < each) & (r * each + at < here) & (rank != r)
                parts += (tl.load(data[r] + base + r * each + at, mask=there, volatile=True),)
            for r in tl.static_range(WORLD):
                there = (at < each) & (r * each + at < here) & (rank != r)
                tl.store(out + r * each + at, parts[r], mask=there)
    else:
        for start in range(0, here, LANES * PACK):
            at = start + lane
            total = _sum(data, base, at, at < here, WORLD)
            tl.store(out + at, total.to(out.dtype.element_ty), mask=at < here)
    _end(signals, rank, groups, calls, WORLD)


@triton.jit
def peer_all_reduce_rmsnorm_kernel(
    out,
    residual_out,
    input,
    residual_in,
    weight,
    data0,
    data1,
    data2,
    data3,
    data4,
    data5,
    data6,
    data7,
    signals0,
    signals1,
    signals2,
    signals3,
    signals4,
    signals5,
    signals6,
    signals7,
    rank,
    groups,
    region,
    packs,
    share,
    row,
    inverse_width,
    epsilon,
    gemma_norm,
    WORLD: tl.constexpr,
    LANES: tl.constexpr,
    OP: tl.constexpr,
):
    PACK: tl.constexpr = 128 // out.dtype.element_ty.primitive_bitwidth
    data = (data0, data1, data2, data3, data4, data5, data6, data7)
    signals = (signals0, signals1, signals2, signals3, signals4, signals5, signals6, signals7)
    first, here, base, calls = _part(signals, rank, groups, region, packs, share, WORLD, PACK)
    _offer(_of_rank(data, rank) + base, input + first, here, LANES * PACK)
    _exchange(signals, rank, groups, 2 * calls + 1, WORLD)
    lane = tl.arange(0, LANES * PACK)
    more = gemma_norm.to(tl.float32)
    width = row * PACK
    for start in range(0, here, width):
        squares = tl.zeros([LANES * PACK], tl.float32)
        for column in range(0, width, LANES * PACK):
            mask = column + lane < width
            at = start + column + lane
            total = _sum(data, base, at, mask, WORLD)
            total += tl.load(residual_in + first + at, mask=mask, other=0.0).to(tl.float32)
            rounded = total.to(residual_out.dtype.element_ty)
            tl.store(residual_out + first + at, rounded, mask=mask)
            squares += rounded.to(tl.float32) * rounded.to(tl.float32)
        # The norm is of the rounded sum, which is read again; the sum's own barrier may stand before the stores.
        scale = tl.math.rsqrt(tl.sum(squares, axis=0) * inverse_width + epsilon)
        tl.debug_barrier()
        for column in range(0, width, LANES * PACK):
            mask = column + lane < width
            at = first + start + column + lane
            total = tl.load(residual_out + at, mask=mask, other=0.0).to(tl.float32)
            factor = tl.load(weight + column + lane, mask=mask, other=0.0).to(tl.float32) + more
            tl.store(out + at, (total * scale * factor).to(out.dtype.element_ty), mask=mask)
    _end(signals, rank, groups, calls, WORLD)


@triton.jit
def _of_row(start, first, row, WORLD: tl.constexpr, LANES: tl.constexpr, PACK: tl.constexpr):
    """(pack of this part, its first element where rows of all ranks lie one after the other, elements of a pack), per lane."""
    pack = start + tl.arange(0, LANES)[:, None]
    line = (first + pack) // row
    return pack, (line * (WORLD - 1) * row + first + pack) * PACK, tl.arange(0, PACK)[None, :]


@triton.jit
def peer_all_gather_kernel(
    out,
    input,
    data0,
    data1,
    data2,
    data3,
    data4,
    data5,
    data6,
    data7,
    signals0,
    signals1,
    signals2,
    signals3,
    signals4,
    signals5,
    signals6,
    signals7,
    rank,
    groups,
    region,
    packs,
    share,
    row,
    WORLD: tl.constexpr,
    LANES: tl.constexpr,
    OP: tl.constexpr,
    sizeof_T: tl.constexpr,
):
    PACK: tl.constexpr = 16 // sizeof_T
    data = (data0, data1, data2, data3, data4, data5, data6, data7)
    signals = (signals0, signals1, signals2, signals3, signals4, signals5, signals6, signals7)
    first, here, base, calls = _part(signals, rank, groups, region, packs, share, WORLD, PACK)
    _offer(_of_rank(data, rank) + base, input + first, here, LANES * PACK)
    _exchange(signals, rank, groups, 2 * calls + 1, WORLD)
    for start in range(0, here // PACK, LANES):
        pack, there, inner = _of_row(start, first // PACK, row, WORLD, LANES, PACK)
        mask = (pack < here // PACK) & (inner < PACK)
        parts = ()
        for r in tl.static_range(WORLD):
            parts += (tl.load(data[r] + base + (pack * PACK + inner), mask=mask, volatile=True),)
        for r in tl.static_range(WORLD):
            tl.store(out + (there + r * row * PACK + inner), parts[r], mask=mask)
    _end(signals, rank, groups, calls, WORLD)


@triton.jit
def peer_reduce_scatter_kernel(
    out,
    input,
    data0,
    data1,
    data2,
    data3,
    data4,
    data5,
    data6,
    data7,
    signals0,
    signals1,
    signals2,
    signals3,
    signals4,
    signals5,
    signals6,
    signals7,
    rank,
    groups,
    region,
    packs,
    share,
    row,
    WORLD: tl.constexpr,
    LANES: tl.constexpr,
    OP: tl.constexpr,
):
    PACK: tl.constexpr = 128 // out.dtype.element_ty.primitive_bitwidth
    data = (data0, data1, data2, data3, data4, data5, data6, data7)
    signals = (signals0, signals1, signals2, signals3, signals4, signals5, signals6, signals7)
    first, here, base, calls = _part(signals, rank, groups, region, packs, share, WORLD, PACK)
    own = _of_rank(data, rank) + base
    # A region holds the parts of all ranks, [WORLD, share].
    for start in range(0, here // PACK, LANES):
        pack, there, inner = _of_row(start, first // PACK, row, WORLD, LANES, PACK)
        mask = (pack < here // PACK) & (inner < PACK)
        for r in tl.static_range(WORLD):
            offered = tl.load(input + (there + r * row * PACK + inner), mask=mask)
            tl.store(own + ((r * share + pack) * PACK + inner), offered, mask=mask)
    _exchange(signals, rank, groups, 2 * calls + 1, WORLD)
    lane = tl.arange(0, LANES * PACK)
    for start in range(0, here, LANES * PACK):
        at = start + lane
        total = _sum(data, base + rank * share * PACK, at, at < here, WORLD)
        tl.store(out + first + at, total.to(out.dtype.element_ty), mask=at < here)
    _end(signals, rank, groups, calls, WORLD)
