"""Row softmax for CDNA3/CDNA4: out[m, n] = exp(x[m, n] - max_n x[m, :]) / sum_n exp(x[m, n] - max_n x[m, :]).

One workgroup per row; fp32 maths; one rounding (to nearest even) to the output type.

Kernel `softmax_rows`, arguments in kernarg order (offsets in bytes):
    out         ptr   0   T[M, N], row stride out_stride elements
    x           ptr   8   T[M, N], row stride x_stride elements, unit column stride
    n           i32  16   N, 1 <= N <= 2**28 (byte offsets in a row must fit 32 bits)
    out_stride  i64  24   elements
    x_stride    i64  32   elements
Launch: grid (M, 1, 1), block (BLOCK, 1, 1), no dynamic LDS, no workspace.

Compile-time constants:
    T      "f16", "bf16" or "f32"
    BLOCK  threads per workgroup, a multiple of 64
    WIDE   1: accesses of 16 bytes; N and, if M > 1, both row strides are then multiples of 16 / sizeof(T) and
    both
           pointers are 16-byte aligned. 0: accesses of one element, no condition.
    TILES  accesses in flight per thread
    CACHED 1: the row stays in registers, so N <= BLOCK * TILES * (elements per access). 0: any N, the row is
           read twice (running maximum and sum, then the quotients)

A row of nothing but -inf, or with a NaN or a +inf in it, gives NaN in every column, as torch.softmax does.
"""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import gpu, range_constexpr, rocdl
from flydsl.expr.typing import ReductionOp

WAVE = 64
LOG2E = math.log2(math.e)
DTYPES = {"f16": fx.Float16, "bf16": fx.BFloat16, "f32": fx.Float32}
NEG_INF = float("-inf")
Value: TypeAlias = Any  # a traced value, pointer or buffer resource: flydsl ships no types

# DPP controls that together reduce 16 lanes: quad_perm(1,0,3,2), quad_perm(2,3,0,1), row_half_mirror,
# row_mirror.
DPP_ROW_STEPS = (0xB1, 0x4E, 0x141, 0x140)


def _maximum(a: Value, b: Value) -> Value:
    return fx.Float32(fx.arith.maxnumf(a, b))


def _add(a: Value, b: Value) -> Value:
    return a + b


def _wave_reduce(value: Value, combine: Value) -> Value:
    """Combine an f32 over the 64 lanes; the result is uniform (it comes out of scalar registers)."""
    f32 = fx.Float32.ir_type
    for control in DPP_ROW_STEPS:
        raw = value.ir_value()
        value = combine(value, fx.Float32(rocdl.update_dpp(f32, raw, raw, control, 0xF, 0xF, True)))
    rows = [fx.Float32(rocdl.readlane(f32, value.ir_value(), lane)) for lane in (0, 16, 32, 48)]
    return combine(combine(rows[0], rows[1]), combine(rows[2], rows[3]))


def _exp2(value: Value) -> Value:
    """v_exp_f32: arguments here are <= 0 and a result below 2**-126 is zero after any rounding to 16 bits."""
    return fx.math.exp2(value, fastmath=fx.arith.FastMathFlags.afn)


def _finite_or_zero(value: Value) -> Value:
    """-inf becomes 0, so that exp2(-inf - value) is 0 and not NaN while a thread has seen nothing yet."""
    return (value == NEG_INF).select(fx.Float32(0.0), value)


class _Row:
    """A row of T seen through a buffer descriptor: accesses past its last byte read 0 and store nothing."""

    def __init__(self, pointer: Value, stride: Value, n: Value, dtype: Value, vec: int) -> None:
        self.dtype, self.vec, self.n = dtype, vec, n
        self.bytes = dtype.width // 8
        start = pointer + fx.Int64(gpu.block_idx.x) * stride
        sized = rocdl.make_buffer_ptr(start, num_records_bytes=fx.Int64(n) * self.bytes)
        self.resource = rocdl.get_buffer_rsrc(sized)

    def load(self, index: Value) -> Value:
        """f32 vector of the `vec` elements from `index` on; -inf where the row has ended."""
        offset = index * self.bytes
        if self.vec == 1:
            one = rocdl.raw_ptr_buffer_load(self.dtype.ir_type, self.resource, offset, 0)
            value = fx.Vector.from_elements([self.dtype(one)], self.dtype)
        else:
            words = rocdl.raw_ptr_buffer_load(fx.Vector.make_type(4, fx.Int32), self.resource, offset, 0)
            value = fx.Vector(words, dtype=fx.Int32).bitcast(self.dtype)
        wide = value if self.dtype is fx.Float32 else value.to(fx.Float32)
        ended = fx.Vector.filled(self.vec, NEG_INF, fx.Float32)
        return fx.Vector(fx.arith.select(index < self.n, wide, ended), dtype=fx.Float32)

    def store(self, index: Value, value: Value) -> None:
        """Round the f32 vector to T and store it; the descriptor drops what lies past the end."""
        narrow = value if self.dtype is fx.Float32 else value.to(self.dtype)
        data = narrow[0].ir_value() if self.vec == 1 else narrow.bitcast(fx.Int32)
        rocdl.raw_ptr_buffer_store(
            data, self.resource, fx.Int32(index * self.bytes).ir_value(), fx.Int32(0).ir_value()
        )


def _thread_max(chunks: list[Value]) -> Value:
    peak = chunks[0].reduce(ReductionOp.MAX)
    for chunk in chunks[1:]:
        peak = _maximum(peak, chunk.reduce(ReductionOp.MAX))
    return peak


def _thread_sum(chunks: list[Value]) -> Value:
    total = chunks[0].reduce(ReductionOp.ADD)
    for chunk in chunks[1:]:
        total = total + chunk.reduce(ReductionOp.ADD)
    return total


class _Slots:
    """LDS words through which the waves of a workgroup exchange wave-uniform values."""

    def __init__(self, waves: int, exchanges: int) -> None:
        self.waves, self.used = waves, 0
        if waves > 1:
            words = fx.Array[fx.Float32, waves * exchanges, 16]
            self.base = fx.SharedAllocator().allocate(words).peek().ptr

    def exchange(self, *parts: Value) -> list[list[Value]]:
        """Every wave's parts, seen by every thread: [part][wave]. One barrier; none for a single wave.

        All lanes of a wave write the same word: the value is uniform, so no lane has to be picked. Each
        exchange has words of its own, so that no second barrier is needed before the next one.
        """
        if self.waves == 1:
            return [[part] for part in parts]
        wave = gpu.thread_idx.x // WAVE
        starts = [self.used + index * self.waves for index in range(len(parts))]
        self.used += len(parts) * self.waves
        for start, part in zip(starts, parts, strict=True):
            fx.generic_store(self.base + (wave + start), part)
        gpu.barrier()
        return [[fx.generic_load(self.base + (start + w)) for w in range(self.waves)] for start in starts]


def _fold(values: list[Value], combine: Value) -> Value:
    total = values[0]
    for value in values[1:]:
        total = combine(total, value)
    return total


def _build_cached(name: str, dtype: Value, block: int, vec: int, tiles: int) -> Value:
    """Kernel that holds the row in registers: one read, two reductions, one write."""
    step, waves = block * vec, block // WAVE

    @flyc.kernel(name=name)
    def rows(out: fx.Pointer, x: fx.Pointer, n: fx.Int32, out_stride: fx.Int64, x_stride: fx.Int64) -> None:
        load, store = _Row(x, x_stride, n, dtype, vec).load, _Row(out, out_stride, n, dtype, vec).store
        slots = _Slots(waves, 2)
        first = gpu.thread_idx.x * vec
        chunks = [load(first + tile * step) for tile in range(tiles)]
        peak = _fold(slots.exchange(_wave_reduce(_thread_max(chunks), _maximum))[0], _maximum)
        powers = [_exp2((chunk - peak) * LOG2E) for chunk in chunks]
        total = _fold(slots.exchange(_wave_reduce(_thread_sum(powers), _add))[0], _add)
        scale = 1.0 / total
        for tile in range_constexpr(tiles):
            store(first + tile * step, powers[tile] * scale)

    return rows


def _build_streamed(name: str, dtype: Value, block: int, vec: int, tiles: int) -> Value:
    """Kernel for any length: a running maximum and sum per thread, then a second read for the quotients."""
    step, waves = block * vec, block // WAVE

    @flyc.kernel(name=name)
    def rows(out: fx.Pointer, x: fx.Pointer, n: fx.Int32, out_stride: fx.Int64, x_stride: fx.Int64) -> None:
        load, store = _Row(x, x_stride, n, dtype, vec).load, _Row(out, out_stride, n, dtype, vec).store
        slots = _Slots(waves, 2)
        first = gpu.thread_idx.x * vec
        peak, total = fx.Float32(NEG_INF), fx.Float32(0.0)
        for base in range(fx.Int32(0), n, fx.Int32(step * tiles)):
            chunks = [load(base + first + tile * step) for tile in range(tiles)]
            higher = _maximum(peak, _thread_max(chunks))
            level = _finite_or_zero(higher)
            fresh = _thread_sum([_exp2((chunk - level) * LOG2E) for chunk in chunks])
            total = total * _exp2((peak - level) * LOG2E) + fresh
            peak = higher
        wave_peak = _wave_reduce(peak, _maximum)
        wave_total = _wave_reduce(total * _exp2((peak - _finite_or_zero(wave_peak)) * LOG2E), _add)
        peaks, totals = slots.exchange(wave_peak, wave_total)
        row_peak = _fold(peaks, _maximum)
        level = _finite_or_zero(row_peak)
        parts = [
            total_w * _exp2((peak_w - level) * LOG2E) for peak_w, total_w in zip(peaks, totals, strict=True)
        ]
        scale = 1.0 / _fold(parts, _add)
        for base in range(fx.Int32(0), n, fx.Int32(step * tiles)):
            again = [load(base + first + tile * step) for tile in range(tiles)]
            for tile in range_constexpr(tiles):
                store(base + first + tile * step, _exp2((again[tile] - row_peak) * LOG2E) * scale)

    return rows


def softmax_rows(constants: Mapping[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """What the compile script needs: a launcher and placeholder arguments that give the types.

    Raises ValueError for constants outside the ranges in the head of this file.
    """
    dtype = DTYPES[constants["T"]]
    block, tiles = int(constants["BLOCK"]), int(constants["TILES"])
    vec = 128 // dtype.width if int(constants["WIDE"]) else 1
    if block % WAVE or not 0 < block <= 1024:
        raise ValueError(f"BLOCK: {block} is not a multiple of {WAVE} in 64..1024")
    if tiles < 1:
        raise ValueError(f"TILES: {tiles} is below 1")
    build = _build_cached if int(constants["CACHED"]) else _build_streamed
    rows = build("softmax_rows", dtype, block, vec, tiles)

    @flyc.jit
    def launch(out: fx.Pointer, x: fx.Pointer, n: fx.Int32, out_stride: fx.Int64, x_stride: fx.Int64) -> None:
        rows(out, x, n, out_stride, x_stride).launch(grid=(1, 1, 1), block=(block, 1, 1))

    pointer = flyc.from_c_void_p(dtype, None, assumed_align=dtype.width // 8 * vec)
    return launch, (pointer, pointer, fx.Int32(1), fx.Int64(1), fx.Int64(1))
