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
    DTYPE  "f16", "bf16" or "f32" (T)
    BLOCK  threads per workgroup, a multiple of 64
    VEC    elements per access: 16 bytes' worth, or 1. With VEC > 1 the caller guarantees that N, both row
           strides are multiples of VEC and both pointers are 16-byte aligned; VEC == 1 guarantees nothing.
    TILES  accesses in flight per thread
    CACHED 1: the row stays in registers, N <= BLOCK * VEC * TILES; 0: any N, the row is read twice
           (online maximum and sum, then the quotients).

A row of nothing but -inf, or with a NaN or a +inf in it, gives NaN in every column, as torch.softmax does.
"""

import math
from collections.abc import Mapping
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import const_expr, gpu, rocdl

WAVE = 64
LOG2E = math.log2(math.e)
DTYPES = {"f16": fx.Float16, "bf16": fx.BFloat16, "f32": fx.Float32}
NEG_INF = float("-inf")

# DPP controls that together reduce 16 lanes: quad_perm(1,0,3,2), quad_perm(2,3,0,1), row_half_mirror, row_mirror.
DPP_ROW_STEPS = (0xB1, 0x4E, 0x141, 0x140)


def _maximum(a: Any, b: Any) -> Any:
    return fx.Float32(fx.arith.maxnumf(a, b))


def _add(a: Any, b: Any) -> Any:
    return a + b


def _wave_reduce(value: Any, combine: Any) -> Any:
    """Combine an f32 over the 64 lanes; the result is uniform (it comes out of scalar registers)."""
    f32 = fx.Float32.ir_type
    for control in DPP_ROW_STEPS:
        raw = value.ir_value()
        value = combine(value, fx.Float32(rocdl.update_dpp(f32, raw, raw, control, 0xF, 0xF, True)))
    rows = [fx.Float32(rocdl.readlane(f32, value.ir_value(), lane)) for lane in (0, 16, 32, 48)]
    return combine(combine(rows[0], rows[1]), combine(rows[2], rows[3]))


def _exp2(value: Any) -> Any:
    """v_exp_f32: arguments here are <= 0 and a result below 2**-126 is zero after any rounding to 16 bits."""
    return fx.math.exp2(value, fastmath=fx.arith.FastMathFlags.afn)


def _finite_or_zero(value: Any) -> Any:
    """-inf becomes 0, so that exp2(-inf - value) is 0 and not NaN while a thread has seen nothing yet."""
    return (value == NEG_INF).select(fx.Float32(0.0), value)


class _Row:
    """A row of T seen through a buffer descriptor: accesses past its last byte read 0 and store nothing."""

    def __init__(self, pointer: Any, stride: Any, n: Any, dtype: Any, vec: int) -> None:
        self.dtype, self.vec, self.n = dtype, vec, n
        self.bytes = dtype.width // 8
        start = pointer + fx.Int64(gpu.block_idx.x) * stride
        sized = rocdl.make_buffer_ptr(start, num_records_bytes=fx.Int64(n) * self.bytes)
        self.resource = rocdl.get_buffer_rsrc(sized)

    def load(self, index: Any) -> Any:
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

    def store(self, index: Any, value: Any) -> None:
        """Round the f32 vector to T and store it; the descriptor drops what lies past the end."""
        narrow = value if self.dtype is fx.Float32 else value.to(self.dtype)
        data = narrow[0].ir_value() if self.vec == 1 else narrow.bitcast(fx.Int32)
        rocdl.raw_ptr_buffer_store(data, self.resource, (index * self.bytes).ir_value(), fx.Int32(0).ir_value())


def _thread_max(chunks: list[Any]) -> Any:
    peak = chunks[0].reduce(fx.ReductionOp.MAX)
    for chunk in chunks[1:]:
        peak = _maximum(peak, chunk.reduce(fx.ReductionOp.MAX))
    return peak


def _thread_sum(chunks: list[Any]) -> Any:
    total = chunks[0].reduce(fx.ReductionOp.ADD)
    for chunk in chunks[1:]:
        total = total + chunk.reduce(fx.ReductionOp.ADD)
    return total


def _across_waves(parts: tuple[Any, ...], waves: int) -> list[list[Any]]:
    """Every wave's wave-uniform parts, seen by every thread: [part][wave]. One barrier; no LDS for one wave.

    All lanes of a wave write the same word: the value is uniform, so no lane has to be picked.
    """
    if waves == 1:
        return [[part] for part in parts]
    slots = fx.SharedAllocator().allocate(fx.Array[fx.Float32, waves * len(parts), 16]).peek().ptr
    wave = gpu.thread_idx.x // WAVE
    for index, part in enumerate(parts):
        fx.generic_store(slots + (wave + index * waves), part)
    gpu.barrier()
    return [
        [fx.generic_load(slots + (index * waves + other)) for other in range(waves)] for index in range(len(parts))
    ]


def _fold(values: list[Any], combine: Any) -> Any:
    total = values[0]
    for value in values[1:]:
        total = combine(total, value)
    return total


def _rows_cached(row: _Row, out: _Row, block: int, tiles: int) -> None:
    """The whole row in registers: read once, two reductions, written once."""
    step, waves = block * row.vec, block // WAVE
    first = gpu.thread_idx.x * row.vec
    chunks = [row.load(first + tile * step) for tile in range(tiles)]
    peaks = _wave_reduce(_thread_max(chunks), _maximum)
    raise NotImplementedError
