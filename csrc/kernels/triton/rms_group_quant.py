"""RMS norms behind which fp8 codes are made, with a second norm beside them: `fused_rms_fp8_*_quant` of AITER.

    s[m, n]        = input[m, n] + residual[m, n]                       fp32; the last if it is given
    total          = round(s)                                           if residual is given
    y[m, n]        = s[m, n] * rstd[m] * weight[n]                      rstd = 1 / sqrt(mean(s^2) + eps)
    normed         = round(y)                                           if it is given
    scales[m, g]   = max(max_n |y[m, n]|, 1e-10) / QMAX                 STATIC = 0: over the GROUP columns of group g
    codes[m, n]    = saturate(round(y[m, n] * (1 / scale)))             to nearest even; STATIC: of the one scale that is given
    second_out     = round(second * rstd2 * second_weight)              if second is given, of as many rows and other columns

T is bf16 or fp16, the codes are the target's e4m3 (QMAX 240 on gfx942, 448 on gfx950); sums are fp32.  NaN is left out of a
maximum and gets the code -QMAX.  With `rounds` the codes are those of round(y).  What is written is contiguous.

Arguments of both kernels, in order
    0 codes *Q [M, N] | 1 scales *f32 [M, groups], or [1] and read | 2 normed *T [M, N] or null | 3 second_out *T [M, N2] or null
    4 total *T [M, N] or null | 5 input *T [M, N] | 6 weight *T [N] | 7 second *T [M, N2] or null | 8 second_weight *T [N2]
    9 residual *T [M, N] or null | 10 N i32 | 11 N2 i32 | 12 input_stride i32 | 13 second_stride i32 | 14 residual_stride i32
    15 scale_row i32 | 16 scale_group i32 | 17 has_normed i32 | 18 has_residual i32 | 19 rounds i32 | 20 eps f32
    21 second_eps f32; strides of rows, in elements; the last dimension is contiguous

constexprs   STATIC, GROUP, BLOCK (powers of two, GROUP <= BLOCK), EVEN
guarantee    single pass needs N <= BLOCK, and N2 <= BLOCK where second is given; looped takes any
grid         (M, 1 or 2, 1): the programs with y = 1 do the second norm
workspace    none

EVEN = 1 names the aligned specialisation (`tt.divisibility` 16): every pointer in use at 16 bytes, N, N2 and the strides of
rows multiples of 16 elements.  EVEN = 0 assumes nothing.
"""

import triton
import triton.language as tl


@triton.constexpr_function
def _qmax(dtype):
    """Largest finite code of an output type, as a float."""
    return {"fp8e4b8": 240.0, "fp8e4nv": 448.0}[dtype.name]


@triton.jit
def _columns(BLOCK: tl.constexpr, GROUP: tl.constexpr):
    """Columns of a block, a row of the tile for each group."""
    return tl.arange(0, BLOCK // GROUP)[:, None] * GROUP + tl.arange(0, GROUP)[None, :]


@triton.jit
def _total(input, residual, col, inside, has_residual):
    s = tl.load(input + col, mask=inside, other=0.0).to(tl.float32)
    return s + tl.load(residual + col, mask=inside & (has_residual != 0), other=0.0).to(tl.float32)


@triton.jit
def _sum(x):
    return tl.sum(tl.sum(x, axis=1), axis=0)


@triton.jit
def _quantise(
    y,
    codes,
    scales,
    start,
    col,
    inside,
    columns,
    scale_group,
    QMAX: tl.constexpr,
    STATIC: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Codes of a block of a row, and the scales of its groups."""
    if STATIC:
        inverse = tl.math.div_rn(1.0, tl.load(scales))
    else:
        y = tl.where(inside, y, 0.0)
        scale = tl.maximum(tl.max(tl.abs(y), axis=1), 1e-10) / QMAX
        group = start // GROUP + tl.arange(0, y.shape[0])
        tl.store(scales + group.to(tl.int64) * scale_group, scale, mask=group * GROUP < columns)
        inverse = (1.0 / scale)[:, None]
    v = tl.minimum(tl.maximum(y * inverse, -QMAX), QMAX)
    tl.store(codes + col, v.to(codes.dtype.element_ty), mask=inside)


@triton.jit
def rms_group_quant_kernel(
    codes,
    scales,
    normed,
    second_out,
    total,
    input,
    weight,
    second,
    second_weight,
    residual,
    N,
    N2,
    input_stride,
    second_stride,
    residual_stride,
    scale_row,
    scale_group,
    has_normed,
    has_residual,
    rounds,
    eps,
    second_eps,
    STATIC: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):
    QMAX: tl.constexpr = _qmax(codes.dtype.element_ty)
    row = tl.program_id(0).to(tl.int64)
    col = _columns(BLOCK, GROUP)
    if tl.program_id(1) == 0:
        inside = col < N
        s = _total(input + row * input_stride, residual + row * residual_stride, col, inside, has_residual)
        tl.store(total + row * N + col, s.to(input.dtype.element_ty), mask=inside & (has_residual != 0))
        rstd = tl.math.rsqrt(_sum(s * s) / N + eps)
        y = s * rstd * tl.load(weight + col, mask=inside, other=0.0).to(tl.float32)
        near = y.to(input.dtype.element_ty)
        tl.store(normed + row * N + col, near, mask=inside & (has_normed != 0))
        if STATIC:
            y = tl.where(rounds != 0, near.to(tl.float32), y)
        else:
            scales += row * scale_row
        _quantise(y, codes + row * N, scales, 0, col, inside, N, scale_group, QMAX, STATIC, GROUP)
    else:
        inside = col < N2
        x = tl.load(second + row * second_stride + col, mask=inside, other=0.0).to(tl.float32)
        rstd = tl.math.rsqrt(_sum(x * x) / N2 + second_eps)
        y = x * rstd * tl.load(second_weight + col, mask=inside, other=0.0).to(tl.float32)
        tl.store(second_out + row * N2 + col, y.to(input.dtype.element_ty), mask=inside)


@triton.jit
def rms_group_quant_loop_kernel(
    codes,
    scales,
    normed,
    second_out,
    total,
    input,
    weight,
    second,
    second_weight,
    residual,
    N,
    N2,
    input_stride,
    second_stride,
    residual_stride,
    scale_row,
    scale_group,
    has_normed,
    has_residual,
    rounds,
    eps,
    second_eps,
    STATIC: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):
    QMAX: tl.constexpr = _qmax(codes.dtype.element_ty)
    row = tl.program_id(0).to(tl.int64)
    lane = _columns(BLOCK, GROUP)
    square = tl.zeros([BLOCK // GROUP, GROUP], tl.float32)
    if tl.program_id(1) == 0:
        input += row * input_stride
        residual += row * residual_stride
        for start in range(0, N, BLOCK):
            col = start + lane
            s = _total(input, residual, col, col < N, has_residual)
            square += s * s
        rstd = tl.math.rsqrt(_sum(square) / N + eps)
        for start in range(0, N, BLOCK):
            col = start + lane
            inside = col < N
            s = _total(input, residual, col, inside, has_residual)
            tl.store(total + row * N + col, s.to(input.dtype.element_ty), mask=inside & (has_residual != 0))
            y = s * rstd * tl.load(weight + col, mask=inside, other=0.0).to(tl.float32)
            near = y.to(input.dtype.element_ty)
            tl.store(normed + row * N + col, near, mask=inside & (has_normed != 0))
            places = scales
            if STATIC:
                y = tl.where(rounds != 0, near.to(tl.float32), y)
            else:
                places += row * scale_row
            _quantise(y, codes + row * N, places, start, col, inside, N, scale_group, QMAX, STATIC, GROUP)
    else:
        second += row * second_stride
        for start in range(0, N2, BLOCK):
            col = start + lane
            x = tl.load(second + col, mask=col < N2, other=0.0).to(tl.float32)
            square += x * x
        rstd = tl.math.rsqrt(_sum(square) / N2 + second_eps)
        for start in range(0, N2, BLOCK):
            col = start + lane
            x = tl.load(second + col, mask=col < N2, other=0.0).to(tl.float32)
            y = x * rstd * tl.load(second_weight + col, mask=col < N2, other=0.0).to(tl.float32)
            tl.store(second_out + row * N2 + col, y.to(input.dtype.element_ty), mask=col < N2)
