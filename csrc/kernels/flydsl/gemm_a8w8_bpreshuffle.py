"""fp8 GEMM with per-token scales and a preshuffled weight, for CDNA3 (e4m3fnuz) and CDNA4 (OCP e4m3).

out[m, n] = (sum_k XQ[m, k] * WQ[n, k]) * x_scale[m] * w_scale[n], summed in fp32 by the fp8 MFMA of the
target and rounded once (to nearest even) to bf16 or fp16.

Kernel `gemm_a8w8_bpreshuffle`, arguments in kernarg order (offsets in bytes):
    out         ptr   0   T[M, N], row stride out_stride; 8-byte aligned, out_stride % 4 == 0
    xq          ptr   8   fp8[M, K], row stride xq_stride; 16-byte aligned, xq_stride % 16 == 0
    wq          ptr  16   fp8[N, wq_stride] in the layout of shuffle_weight(layout=(16, 16)); 16-byte aligned
    x_scale     ptr  24   f32[M]
    w_scale     ptr  32   f32[N]; 16-byte aligned
    m, n, k     i32  40, 44, 48   M > 0, N % 16 == 0, K > 0, K % 16 == 0
    out_stride  i32  52   elements, >= N
    xq_stride   i32  56   elements, >= K
    wq_stride   i32  60   elements: the row length the weight was shuffled with, >= K, a multiple of 32
Launch: grid (cdiv(N, BN), cdiv(M, BM), 1), block (256, 1, 1), no dynamic LDS, no workspace.
Limits: BM * xq_stride, BM * out_stride * 2 and BN * wq_stride below 2**31; products over M and N use 64 bits.
Kernarg segment: 64 bytes, no hidden arguments.

Compile-time constants:
    BM, BN   output tile, multiples of 16; BN of 16 for each of the 4 / WAVES_K waves across
    BK       slice of K staged in LDS at a time, a multiple of 128 * WAVES_K; the last slice may be partial
    WAVES_K  1, 2 or 4 of the four waves share a tile and split each slice of K (small M: more loads in
    flight)
    T        "bf16" or "f16"
    FP8      "e4m3fnuz" (CDNA3) or "e4m3fn" (CDNA4): which MFMA to use, 16x16x32 or the twice as fast
    16x16x128

How the weight is read. shuffle_weight keeps, for 16 rows n and 32 columns k, 16 bytes of one row together in
the order [k / 16][n][k % 16]; 64 columns are 1024 consecutive bytes, so lane l of a wave takes bytes 16 l ..
16 l + 15 with one access and owns row l % 16, columns 16 (l / 16) .. + 15. The two halves of those 16 bytes
feed two MFMAs (on CDNA4 two such accesses feed one). Each MFMA therefore sums columns in another order than
they stand in memory; A is read from LDS in the same order, and the order of a sum over K is free.

The weight is the first MFMA operand, so that a lane ends up with four consecutive n of one m: stores of 8
bytes.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import gpu, range_constexpr, rocdl

THREADS, WAVE, WAVES = 256, 64, 4
STEP = 64  # columns of K that one 16-byte access per lane covers
OUTPUTS = {"bf16": fx.BFloat16, "f16": fx.Float16}
Value: TypeAlias = Any  # a traced value, pointer or buffer resource: flydsl ships no types
OUT_OF_RANGE = 0x7FFFFFF0  # a byte offset past every descriptor: reads give 0, stores are dropped


def _descriptor(pointer: Value, elements: Value, length: Value) -> Value:
    """Buffer resource of `length` bytes from `pointer + elements` on (a wave-uniform address)."""
    return rocdl.get_buffer_rsrc(
        rocdl.make_buffer_ptr(pointer + elements, num_records_bytes=fx.Int64(length))
    )


def _load(resource: Value, dtype: Value, count: int, offset: Value, uniform: Value) -> Value:
    """`count` elements at byte `offset + uniform`; `uniform` is the scalar offset of the instruction."""
    kind = fx.Vector.make_type(count, dtype) if count > 1 else dtype.ir_type
    raw = rocdl.raw_ptr_buffer_load(kind, resource, fx.Int32(offset), fx.Int32(uniform))
    return fx.Vector(raw, dtype=dtype) if count > 1 else dtype(raw)


def _operands(chunks: list[Value]) -> list[Value]:
    """MFMA operands from the 16 bytes per lane of one step (two of 8 bytes) or of two steps (one of 32)."""
    if len(chunks) == 2:
        return [chunks[0].shuffle(chunks[1], list(range(8)))]
    halves = chunks[0].bitcast(fx.Int64)
    return [halves[0], halves[1]]


def _mfma(w: Value, a: Value, acc: Value) -> Value:
    """Add W A^T to acc, for 16 x 16 outputs; 32 columns of K for 8-byte operands, 128 for 32-byte ones."""
    kind = fx.Vector.make_type(4, fx.Float32)
    if isinstance(w, fx.Vector):
        # cbsz = blgp = 0: both e4m3. Constant zero scales select the instruction without block scales.
        product = rocdl.mfma_scale_f32_16x16x128_f8f6f4(
            kind, [w, a, acc, 0, 0, 0, fx.Int32(0), 0, fx.Int32(0)]
        )
    else:
        product = rocdl.mfma_f32_16x16x32_fp8_fp8(kind, [w, a, acc])
    return fx.Vector(product, dtype=fx.Float32)


class _Tile:
    """Where one thread of one workgroup stands: its output tile, its operands and its accesses to them."""

    def __init__(self, c: Mapping[str, int], pointers: tuple[Value, ...], sizes: tuple[Value, ...]) -> None:
        self.bm, self.bn, self.bk, self.waves_k = c["BM"], c["BN"], c["BK"], c["WAVES_K"]
        self.out, xq, wq, x_scale, w_scale = pointers
        m, n, self.k, self.out_stride, xq_stride, wq_stride = sizes
        self.waves_n = WAVES // self.waves_k
        self.m_blocks, self.n_blocks = self.bm // 16, self.bn // 16 // self.waves_n
        self.steps = self.bk // STEP // self.waves_k
        self.row_chunks = self.bk // 16
        self.tid = gpu.thread_idx.x
        self.lane = self.tid % WAVE
        self.wave = fx.Int32(rocdl.readfirstlane(fx.Int32.ir_type, self.tid // WAVE))
        self.m0, self.n0 = gpu.block_idx.y * self.bm, gpu.block_idx.x * self.bn
        self.rows, self.columns = fx.min(m - self.m0, self.bm), fx.min(n - self.n0, self.bn)
        self.xq_stride, self.wq_stride = xq_stride, wq_stride
        self.a = _descriptor(
            xq, fx.Int64(self.m0) * fx.Int64(xq_stride), (self.rows - 1) * xq_stride + self.k
        )
        self.b = _descriptor(wq, fx.Int64(self.n0) * fx.Int64(wq_stride), self.columns * wq_stride)
        self.x_scale = _descriptor(x_scale, self.m0, self.rows * 4)
        self.w_scale = _descriptor(w_scale, self.n0, self.columns * 4)
        chunks = fx.Array[fx.Int128, 2 * self.bm * self.row_chunks, 16]
        self.lds = fx.SharedAllocator().allocate(chunks).peek().ptr

    def load_a(self, k0: Value) -> list[Value]:
        """This thread's 16-byte chunks of the slice of XQ at k0; rows past M, columns past K read as 0."""
        chunks = []
        for index in range(self.bm * self.row_chunks // THREADS):
            chunk = self.tid + index * THREADS
            row, column = chunk // self.row_chunks, chunk % self.row_chunks * 16
            offset = (column < self.k - k0).select(row * self.xq_stride + column, fx.Int32(OUT_OF_RANGE))
            chunks.append(_load(self.a, fx.Int32, 4, offset, k0))
        return chunks

    def load_b(self, k0: Value) -> list[Value]:
        """This lane's 16 bytes of every (n block, step) of the wave, n block first.

        Columns past K read as zero: what stands there may be NaN, and NaN times the zero of A is NaN. Blocks
        past N read the last block; what comes of it is not stored. The scalar offset never passes the end of
        the buffer, so that nothing depends on how the range check treats a scalar offset beyond it.
        """
        n_block = self.wave % self.waves_n * self.n_blocks
        n_last = self.columns // 16 - 1
        k_first = k0 + self.wave // self.waves_n * (self.steps * STEP)
        loads = []
        for block in range(self.n_blocks):
            for step in range(self.steps):
                k_step = k_first + step * STEP
                inside = self.lane // 16 * 16 < self.k - k_step
                offset = inside.select(self.lane * 16, fx.Int32(OUT_OF_RANGE))
                uniform = fx.min(n_block + block, n_last) * 16 * self.wq_stride + fx.min(k_step, self.k) * 16
                loads.append(_load(self.b, fx.Int32, 4, offset, uniform))
        return loads

    def store_a(self, chunks: list[Value], buffer: Value) -> None:
        """Stage the chunks in LDS: chunk c of row r goes to place c ^ (r % 8).

        Rows are multiples of 128 bytes, which is all banks once; this puts the eight rows that a group of
        lanes reads together into eight different groups of banks.
        """
        for index, value in enumerate(chunks):
            chunk = self.tid + index * THREADS
            row, column = chunk // self.row_chunks, chunk % self.row_chunks
            fx.generic_store(self.lds + (buffer + row * self.row_chunks + (column ^ (row % 8))), value)

    def read_a(self, step: int, buffer: Value) -> list[Value]:
        """Rows lane % 16 of every m block, bytes 16 (lane / 16) .. + 15 of the wave's step."""
        column = self.lane // 16 + (self.wave // self.waves_n * self.steps + step) * 4
        place = buffer + self.lane % 16 * self.row_chunks + (column ^ (self.lane % 8))
        pointer = self.lds + place
        return [
            fx.generic_load(pointer + block * 16 * self.row_chunks, dtype=fx.Int32, count=4)
            for block in range(self.m_blocks)
        ]

    def multiply(self, acc: list[Value], b: list[Value], buffer: Value, deep: bool) -> list[Value]:
        """acc[n_block * m_blocks + m_block] += W[n block] A[m block]^T over the staged slice."""
        acc = list(acc)
        steps = 2 if deep else 1
        for step in range(0, self.steps, steps):
            a = [self.read_a(step + more, buffer) for more in range(steps)]
            a_parts = [_operands([a[more][block] for more in range(steps)]) for block in range(self.m_blocks)]
            w_parts = [
                _operands(b[block * self.steps + step : block * self.steps + step + steps])
                for block in range(self.n_blocks)
            ]
            for part in range(len(a_parts[0])):
                for n_block in range(self.n_blocks):
                    for m_block in range(self.m_blocks):
                        at = n_block * self.m_blocks + m_block
                        acc[at] = _mfma(w_parts[n_block][part], a_parts[m_block][part], acc[at])
        return acc

    def sum_waves(self, acc: list[Value]) -> list[Value]:
        """Add up what the waves that split K have, through the LDS that held A. All of them get the sum."""
        if self.waves_k == 1:
            return acc
        column = self.wave % self.waves_n
        gpu.barrier()
        for index, value in enumerate(acc):
            fx.generic_store(self.lds + ((self.wave * len(acc) + index) * WAVE + self.lane), value)
        gpu.barrier()
        sums = []
        for index in range(len(acc)):
            parts = [
                fx.generic_load(
                    self.lds + (((column + other * self.waves_n) * len(acc) + index) * WAVE + self.lane),
                    dtype=fx.Float32,
                    count=4,
                )
                for other in range(self.waves_k)
            ]
            total = parts[0]
            for part in parts[1:]:
                total = total + part
            sums.append(total)
        return sums

    def store(self, acc: list[Value], dtype: Value) -> None:
        """Scale, round to T and store: lane l has row l % 16 of a block and columns 4 (l / 16) .. + 3."""
        length = ((self.rows - 1) * self.out_stride + self.columns) * 2
        start = fx.Int64(self.m0) * fx.Int64(self.out_stride) + fx.Int64(self.n0)
        out = _descriptor(self.out, start, length)
        first = self.wave % self.waves_n * self.n_blocks
        # Of the waves that hold the same sum, one stores: for the others no column is inside.
        columns = (self.wave < self.waves_n).select(self.columns, fx.Int32(0))
        rows = [self.lane % 16 + block * 16 for block in range(self.m_blocks)]
        scales = [_load(self.x_scale, fx.Float32, 1, row * 4, 0) for row in rows]
        for n_block in range(self.n_blocks):
            column = (first + n_block) * 16 + self.lane // 16 * 4
            w_scale = _load(self.w_scale, fx.Float32, 4, column * 4, 0)
            for m_block in range(self.m_blocks):
                value = acc[n_block * self.m_blocks + m_block] * scales[m_block] * w_scale
                inside = (rows[m_block] * self.out_stride + column) * 2
                offset = (column < columns).select(inside, fx.Int32(OUT_OF_RANGE))
                words = value.to(dtype).bitcast(fx.Int32)
                rocdl.raw_ptr_buffer_store(words, out, fx.Int32(offset).ir_value(), fx.Int32(0).ir_value())


def _check(c: Mapping[str, int]) -> None:
    """Raise ValueError unless the tile can be divided among four waves as the head of this file says."""
    bm, bn, bk, waves_k = c["BM"], c["BN"], c["BK"], c["WAVES_K"]
    if waves_k not in (1, 2, 4):
        raise ValueError(f"WAVES_K: {waves_k} is not 1, 2 or 4")
    if bm % 16 or bm * bk % (16 * THREADS):
        raise ValueError(f"BM, BK: {bm} x {bk} bytes are not whole 16-byte chunks for {THREADS} threads")
    if bn % (16 * (WAVES // waves_k)):
        raise ValueError(f"BN: {bn} is not a multiple of 16 for each of {WAVES // waves_k} waves")
    if bk % (2 * STEP * waves_k):
        raise ValueError(
            f"BK: {bk} is not a multiple of {2 * STEP} for each of the {waves_k} waves that split it"
        )
    if waves_k > 1 and WAVES * WAVE * bm * bn // (256 * (WAVES // waves_k)) > 2 * bm * bk // 16:
        raise ValueError("BM, BN, BK: the partial sums of the waves do not fit the LDS that held A")


def gemm_a8w8_bpreshuffle(constants: Mapping[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """What the compile script needs: a launcher and placeholder arguments that give the types.

    Raises ValueError for constants outside the ranges in the head of this file.
    """
    c = {key: int(constants[key]) for key in ("BM", "BN", "BK", "WAVES_K")}
    dtype, deep = OUTPUTS[constants["T"]], {"e4m3fnuz": False, "e4m3fn": True}[constants["FP8"]]
    _check(c)
    half = c["BM"] * c["BK"] // 16

    @flyc.kernel(name="gemm_a8w8_bpreshuffle")
    def kernel(
        out: fx.Pointer, xq: fx.Pointer, wq: fx.Pointer, x_scale: fx.Pointer, w_scale: fx.Pointer,
        m: fx.Int32, n: fx.Int32, k: fx.Int32, out_stride: fx.Int32, xq_stride: fx.Int32, wq_stride: fx.Int32,
    ) -> None:  # fmt: skip
        tile = _Tile(c, (out, xq, wq, x_scale, w_scale), (m, n, k, out_stride, xq_stride, wq_stride))
        load_a, load_b, store_a, multiply = tile.load_a, tile.load_b, tile.store_a, tile.multiply
        zero = fx.Vector.filled(4, 0.0, fx.Float32)
        acc = [zero for _ in range_constexpr(tile.n_blocks * tile.m_blocks)]
        a, b, buffer = load_a(fx.Int32(0)), load_b(fx.Int32(0)), fx.Int32(0)
        # One barrier per slice: slice i + 2 overwrites the LDS of slice i only after the barrier of slice i +
        # 1, which every wave reaches after it has read slice i. The next slice's loads are in flight
        # meanwhile.
        for k_next in range(fx.Int32(c["BK"]), k, fx.Int32(c["BK"])):
            store_a(a, buffer)
            gpu.barrier()
            a_next, b_next = load_a(fx.Int32(k_next)), load_b(fx.Int32(k_next))
            acc = multiply(acc, b, buffer, deep)
            a, b, buffer = a_next, b_next, buffer ^ half
        store_a(a, buffer)
        gpu.barrier()
        acc = multiply(acc, b, buffer, deep)
        tile.store(tile.sum_waves(acc), dtype)

    @flyc.jit
    def launch(
        out: fx.Pointer, xq: fx.Pointer, wq: fx.Pointer, x_scale: fx.Pointer, w_scale: fx.Pointer,
        m: fx.Int32, n: fx.Int32, k: fx.Int32, out_stride: fx.Int32, xq_stride: fx.Int32, wq_stride: fx.Int32,
    ) -> None:  # fmt: skip
        kernel(out, xq, wq, x_scale, w_scale, m, n, k, out_stride, xq_stride, wq_stride).launch(
            grid=(1, 1, 1), block=(THREADS, 1, 1)
        )

    def pointer(element: Value, align: int) -> Value:
        return flyc.from_c_void_p(element, None, assumed_align=align)

    tensors = (pointer(dtype, 8), pointer(fx.Uint8, 16), pointer(fx.Uint8, 16))
    scales = (pointer(fx.Float32, 4), pointer(fx.Float32, 16))
    return launch, (*tensors, *scales, *(fx.Int32(1) for _ in range(6)))
