"""Smooth quantisation: `smoothquant_fwd` of AITER.

    y[m, n]    = input[m, n] * x_scale[n]                      fp32
    y_scale[m] = max_n |y[m, n]| / QMAX                        fp32
    out[m, n]  = saturate(round(y[m, n] / y_scale[m]))         int8 or fp8

int8: QMAX 127, nearest even.  fp8: e4m3fnuz (Triton fp8e4b8, QMAX 240) on gfx942, e4m3fn (fp8e4nv,
QMAX 448) on gfx950 and sm_90, nearest even.  Both saturate at +-QMAX.

A row of zeros stores y_scale 1 and codes 0: AITER's torch reference (`pertoken_quant`) does so, and
ck_tile's kernel divides 0 by 0 there.  Any other scale below 2^-126 is raised to it: the reciprocal
of a subnormal scale would be infinite.  The codes are consistent with the scale that is stored.
The quotient is y times the rounded reciprocal of the scale, one division a row: it differs from a
true division by at most one unit in the last place of fp32, thus only where y sits on a tie.

`smoothquant_kernel` arguments, in order (T bf16 or fp16, Q i8, fp8e4b8 or fp8e4nv)
    0 out *Q [M, N] | 1 input *T [M, N] | 2 x_scale *f32 [N] | 3 y_scale *f32 [M] contiguous
    4 M i32 | 5 N i32 | 6 out_stride i32 | 7 input_stride i32
`smoothquant_loop_kernel`: the same arguments, any N.

constexprs   single pass: ROWS, BLOCK, EVEN; looped: BLOCK, EVEN.  QMAX follows from Q.
guarantee    single pass needs N <= BLOCK; looped takes any N
grid         single pass (cdiv(M, ROWS), 1, 1); looped (M, 1, 1)
workspace    none; M == 0 must not be launched

EVEN = 1 names the aligned specialisation (`tt.divisibility` 16 on 0, 1, 2, 5, 6, 7): 16-byte pointers,
N and strides multiples of 16 elements.  y_scale needs its own element alignment only.  EVEN = 0 assumes
nothing and has no attribute.  The code is the same in both.
"""

import triton
import triton.language as tl


@triton.constexpr_function
def _qmax(dtype):
    """Largest finite code of an output type, as a float."""
    return {"int8": 127.0, "fp8e4b8": 240.0, "fp8e4nv": 448.0}[dtype.name]


@triton.jit
def _row_scale(amax, QMAX: tl.constexpr):
    """Scale of rows with the given absolute maxima: see the module text for 0 and for tiny values."""
    SMALLEST: tl.constexpr = 1.1754943508222875e-38
    return tl.where(amax > 0.0, tl.maximum(tl.math.div_rn(amax, QMAX), SMALLEST), 1.0)


@triton.jit
def _quantise(y, QMAX: tl.constexpr, INT8: tl.constexpr):
    """Round to nearest even and saturate; y is already divided by its scale."""
    y = tl.minimum(tl.maximum(y, -QMAX), QMAX)
    if INT8:
        # Adding and subtracting 1.5 * 2^23 leaves an fp32 of this size rounded to nearest even to an
        # integer; the conversion itself truncates.  It holds with and without FMA contraction, since
        # there is no product next to it.
        MAGIC: tl.constexpr = 12582912.0
        y = (y + MAGIC) - MAGIC
    return y


@triton.jit
def smoothquant_kernel(
    out,
    input,
    x_scale,
    y_scale,
    M,
    N,
    out_stride,
    input_stride,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):
    QMAX: tl.constexpr = _qmax(out.dtype.element_ty)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, BLOCK)[None, :]
    mask = (row < M) & (col < N)
    wide = row.to(tl.int64)
    x = tl.load(input + wide * input_stride + col, mask=mask, other=0.0).to(tl.float32)
    s = tl.load(x_scale + col, mask=col < N, other=0.0)
    y = x * s
    scale = _row_scale(tl.max(tl.abs(y), axis=1, keep_dims=True), QMAX)
    tl.store(y_scale + wide, scale, mask=row < M)
    q = _quantise(y * tl.math.div_rn(1.0, scale), QMAX, out.dtype.element_ty == tl.int8)
    tl.store(out + wide * out_stride + col, q.to(out.dtype.element_ty), mask=mask)


@triton.jit
def smoothquant_loop_kernel(
    out,
    input,
    x_scale,
    y_scale,
    M,
    N,
    out_stride,
    input_stride,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):
    QMAX: tl.constexpr = _qmax(out.dtype.element_ty)
    row = tl.program_id(0).to(tl.int64)
    input += row * input_stride
    out += row * out_stride
    lane = tl.arange(0, BLOCK)
    amax = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        col = start + lane
        x = tl.load(input + col, mask=col < N, other=0.0).to(tl.float32)
        s = tl.load(x_scale + col, mask=col < N, other=0.0)
        amax = tl.maximum(amax, tl.abs(x * s))
    scale = _row_scale(tl.max(amax, axis=0), QMAX)
    tl.store(y_scale + row, scale)
    inverse = tl.math.div_rn(1.0, scale)
    for start in range(0, N, BLOCK):
        col = start + lane
        x = tl.load(input + col, mask=col < N, other=0.0).to(tl.float32)
        s = tl.load(x_scale + col, mask=col < N, other=0.0)
        q = _quantise(x * s * inverse, QMAX, out.dtype.element_ty == tl.int8)
        tl.store(out + col, q.to(out.dtype.element_ty), mask=col < N)
