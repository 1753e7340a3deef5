"""Norms with what stands before and behind them in a model: a residual to be added, a quantisation of the result.

`layernorm2d_fwd_with_*` and `rmsnorm2d_fwd_with_*quant` of AITER, in one kernel with switches.

    s[m, n]        = input[m, n] + x_bias[n] + residual_in[m, n]        fp32; the last with ADD
    residual_out   = round(s)                                           with ADD; the norm reads s itself
    y[m, n]        = (s - mean) * rstd * weight[n] + bias[n]            LAYER = 1, as in layernorm.py
    y[m, n]        = s * rstd * weight[n]                               LAYER = 0, as in norm.py
    unquantised    = round(y)                                           if it is given
    v[m, n]        = y * x_scale[n] with SMOOTH, else y
    y_scale[m]     = max_n |v[m, n]| / QMAX                             of 8-bit out
    out[m, n]      = saturate(round(v / y_scale))                       of 8-bit out, else round(y)

T is bf16 or fp16, Q is int8 (QMAX 127) or the target's e4m3 (240 on gfx942, 448 on gfx950); the arithmetic is fp32.  Of a
row of zeros, and of one whose y are all NaN, the scale is 1; no scale is below 2^-126.  NaN gets the code -QMAX.  Rows are
any length N >= 1.  Strides are row strides in elements; the last dimension is contiguous.

Arguments of both kernels, in order; what the switches leave out is never used, and may be any pointer
    0 out *Q or *T [M, N] | 1 input *T [M, N] | 2 residual_in *T [M, N] | 3 residual_out *T [M, N]
    4 unquantised *T [M, N] contiguous, or null | 5 x_scale *f32 [N] | 6 y_scale *f32 [M] contiguous | 7 weight *T [N]
    8 bias *T [N] | 9 x_bias *T [N] or null | 10 M i32 | 11 N i32 | 12 out_stride i32 | 13 input_stride i32
    14 residual_in_stride i32 | 15 residual_out_stride i32 | 16 has_unquantised i32 | 17 has_x_bias i32 | 18 eps f32

constexprs   LAYER, ADD, SMOOTH; single pass: ROWS, BLOCK (powers of two), EVEN; looped: BLOCK, EVEN
guarantee    single pass needs N <= BLOCK; looped takes any N
grid         single pass (cdiv(M, ROWS), 1, 1); looped (M, 1, 1)
workspace    none; M == 0 must not be launched

EVEN = 1 names the aligned specialisation (`tt.divisibility` 16): every pointer in use at 16 bytes, N and every stride in use
a multiple of 16 elements.  EVEN = 0 assumes nothing and has no attribute.  The code is the same in both.
"""

import triton
import triton.language as tl


@triton.constexpr_function
def _qmax(dtype):
    """Largest finite code of an output type, as a float; 0 for a type that is no code."""
    return {"int8": 127.0, "fp8e4b8": 240.0, "fp8e4nv": 448.0}.get(dtype.name, 0.0)


@triton.jit
def _add_pairs(a, b, c, d):
    return a + c, b + d


@triton.jit
def _row_scale(amax, QMAX: tl.constexpr):
    """Scale of rows with the given absolute maxima."""
    SMALLEST: tl.constexpr = 1.1754943508222875e-38
    return tl.where(amax > 0.0, tl.maximum(tl.math.div_rn(amax, QMAX), SMALLEST), 1.0)


@triton.jit
def _code(v, QMAX: tl.constexpr, INT8: tl.constexpr):
    """Saturated; for int8 rounded to nearest even by the sum with 1.5 * 2^23."""
    v = tl.minimum(tl.maximum(v, -QMAX), QMAX)
    if INT8:
        MAGIC: tl.constexpr = 12582912.0
        v = (v + MAGIC) - MAGIC
    return v


@triton.jit
def _total(input, residual_in, x_bias, col, mask, inside, has_x_bias, LAYER: tl.constexpr, ADD: tl.constexpr):
    """What is normed: 0 outside."""
    s = tl.load(input + col, mask=mask, other=0.0).to(tl.float32)
    if LAYER:
        s += tl.load(x_bias + col, mask=inside & (has_x_bias != 0), other=0.0).to(tl.float32)
    if ADD:
        s += tl.load(residual_in + col, mask=mask, other=0.0).to(tl.float32)
    return s


@triton.jit
def _scaled(h, rstd, weight, bias, col, inside, LAYER: tl.constexpr):
    """The norm of h, from which the mean is taken already."""
    y = h * rstd * tl.load(weight + col, mask=inside, other=0.0).to(tl.float32)
    if LAYER:
        y += tl.load(bias + col, mask=inside, other=0.0).to(tl.float32)
    return y


@triton.jit
def _smoothed(y, x_scale, col, inside, SMOOTH: tl.constexpr):
    if SMOOTH:
        y *= tl.load(x_scale + col, mask=inside, other=0.0)
    return tl.where(inside, y, 0.0)


@triton.jit
def norm_quant_kernel(
    out,
    input,
    residual_in,
    residual_out,
    unquantised,
    x_scale,
    y_scale,
    weight,
    bias,
    x_bias,
    M,
    N,
    out_stride,
    input_stride,
    residual_in_stride,
    residual_out_stride,
    has_unquantised,
    has_x_bias,
    eps,
    LAYER: tl.constexpr,
    ADD: tl.constexpr,
    SMOOTH: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):
    QMAX: tl.constexpr = _qmax(out.dtype.element_ty)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    wide = row.to(tl.int64)
    col = tl.broadcast_to(tl.arange(0, BLOCK)[None, :], [ROWS, BLOCK])
    inside = col < N
    mask = (row < M) & inside
    s = _total(
        input + wide * input_stride,
        residual_in + wide * residual_in_stride,
        x_bias,
        col,
        mask,
        inside,
        has_x_bias,
        LAYER,
        ADD,
    )
    if ADD:
        rounded = s.to(residual_out.dtype.element_ty)
        tl.store(residual_out + wide * residual_out_stride + col, rounded, mask=mask)
    if LAYER:
        mean = tl.sum(s, axis=1, keep_dims=True) / N
        h = tl.where(inside, s - mean, 0.0)
        left, square = tl.reduce((h, h * h), 1, _add_pairs, keep_dims=True)
        left /= N
        h -= left
        rstd = tl.math.rsqrt(square / N - left * left + eps)
    else:
        h = s
        rstd = tl.math.rsqrt(tl.sum(s * s, axis=1, keep_dims=True) / N + eps)
    y = _scaled(h, rstd, weight, bias, col, inside, LAYER)
    if QMAX > 0:
        if not LAYER:
            kept = mask & (has_unquantised != 0)
            tl.store(unquantised + wide * N + col, y.to(unquantised.dtype.element_ty), mask=kept)
        v = _smoothed(y, x_scale, col, inside, SMOOTH)
        scale = _row_scale(tl.max(tl.abs(v), axis=1, keep_dims=True), QMAX)
        tl.store(y_scale + wide, scale, mask=row < M)
        y = _code(v * tl.math.div_rn(1.0, scale), QMAX, out.dtype.element_ty == tl.int8)
    tl.store(out + wide * out_stride + col, y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def norm_quant_loop_kernel(
    out,
    input,
    residual_in,
    residual_out,
    unquantised,
    x_scale,
    y_scale,
    weight,
    bias,
    x_bias,
    M,
    N,
    out_stride,
    input_stride,
    residual_in_stride,
    residual_out_stride,
    has_unquantised,
    has_x_bias,
    eps,
    LAYER: tl.constexpr,
    ADD: tl.constexpr,
    SMOOTH: tl.constexpr,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):
    QMAX: tl.constexpr = _qmax(out.dtype.element_ty)
    row = tl.program_id(0).to(tl.int64)
    input += row * input_stride
    residual_in += row * residual_in_stride
    residual_out += row * residual_out_stride
    unquantised += row * N
    out += row * out_stride
    lane = tl.arange(0, BLOCK)
    # The mean of each place by Welford's recurrence, as in layernorm.py.
    mean = tl.zeros([BLOCK], tl.float32)
    square = tl.zeros([BLOCK], tl.float32)
    seen = 0.0
    for start in range(0, N, BLOCK):
        col = start + lane
        inside = col < N
        s = _total(input, residual_in, x_bias, col, inside, inside, has_x_bias, LAYER, ADD)
        if LAYER:
            seen += 1.0
            share = 1.0 / seen
            delta = tl.where(inside, s - mean, 0.0)
            mean += delta * share
            square += delta * delta * (1.0 - share)
        else:
            square += s * s
    if LAYER:
        count = (N // BLOCK + (lane < N % BLOCK).to(tl.int32)).to(tl.float32)
        row_mean = tl.sum(mean * count, axis=0) / N
        apart = mean - row_mean
        left, total = tl.reduce((apart * count, square + apart * apart * count), 0, _add_pairs)
        left /= N
        rstd = tl.math.rsqrt(total / N - left * left + eps)
    else:
        row_mean = 0.0
        left = 0.0
        rstd = tl.math.rsqrt(tl.sum(square, axis=0) / N + eps)
    inverse = 1.0
    if QMAX > 0:
        amax = tl.zeros([BLOCK], tl.float32)
        for start in range(0, N, BLOCK):
            col = start + lane
            inside = col < N
            s = _total(input, residual_in, x_bias, col, inside, inside, has_x_bias, LAYER, ADD)
            y = _scaled(s - row_mean - left, rstd, weight, bias, col, inside, LAYER)
            amax = tl.maximum(amax, tl.abs(_smoothed(y, x_scale, col, inside, SMOOTH)))
        scale = _row_scale(tl.max(amax, axis=0), QMAX)
        tl.store(y_scale + row, scale)
        inverse = tl.math.div_rn(1.0, scale)
    # The sum is formed again and not read back: another lane may have stored it.
    for start in range(0, N, BLOCK):
        col = start + lane
        inside = col < N
        s = _total(input, residual_in, x_bias, col, inside, inside, has_x_bias, LAYER, ADD)
        if ADD:
            tl.store(residual_out + col, s.to(residual_out.dtype.element_ty), mask=inside)
        y = _scaled(s - row_mean - left, rstd, weight, bias, col, inside, LAYER)
        if QMAX > 0:
            if not LAYER:
                kept = inside & (has_unquantised != 0)
                tl.store(unquantised + col, y.to(unquantised.dtype.element_ty), mask=kept)
            v = _smoothed(y, x_scale, col, inside, SMOOTH)
            y = _code(v * inverse, QMAX, out.dtype.element_ty == tl.int8)
        tl.store(out + col, y.to(out.dtype.element_ty), mask=inside)
