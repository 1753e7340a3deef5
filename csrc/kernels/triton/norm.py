"""RMS norm kernels: `rms_norm` and `rmsnorm2d_fwd_with_add` of AITER.

    out[m, n] = round(h[m, n] * rstd[m] * (weight[n] + gemma_norm))
    rstd[m]   = 1 / sqrt(sum_n h[m, n]^2 / N + eps)

`h` is the input, or `residual_out = round(input + residual_in)` in the add form: the norm reads the rounded value, as AITER does.
T is bf16, fp16 or fp32; sums and products are fp32, and the output is rounded once.  With `sensitive` h * rstd is rounded to T
before the weight multiplies it, as T5 has it.  Rows are any length N >= 1.  Strides are row strides in elements; the last
dimension is contiguous.  All address arithmetic that involves a row is 64-bit.

`rms_norm_kernel` arguments, in order
    0 out *T [M, N] | 1 input *T [M, N] | 2 weight *T [N] | 3 M i32 | 4 N i32
    5 out_stride i32 | 6 input_stride i32 | 7 sensitive i32 (0 or 1) | 8 eps f32
`rmsnorm_add_kernel` arguments, in order
    0 out *T | 1 input *T | 2 residual_in *T | 3 residual_out *T (all [M, N]) | 4 weight *T [N]
    5 M i32 | 6 N i32 | 7 out_stride i32 | 8 input_stride i32 | 9 residual_in_stride i32
    10 residual_out_stride i32 | 11 gemma_norm i32 (0 or 1) | 12 sensitive i32 (0 or 1) | 13 eps f32
`rms_norm_loop_kernel`, `rmsnorm_add_loop_kernel`: the same arguments.

constexprs   single pass: ROWS, BLOCK (powers of two), EVEN; looped: BLOCK, EVEN
guarantee    single pass needs N <= BLOCK; looped takes any N
grid         single pass (cdiv(M, ROWS), 1, 1); looped (M, 1, 1)
workspace    none; M == 0 must not be launched

EVEN = 1 names the aligned specialisation (`tt.divisibility` 16): every pointer at 16 bytes, N and every
stride a multiple of 16 elements, so that each lane moves 16 bytes.  Indices: rms_norm 0, 1, 2, 4, 5, 6;
add 0..4, 6..10.  EVEN = 0 assumes nothing and has no attribute.  The code is the same in both.

`gemma_norm` and `sensitive` are run-time scalars and not constexprs: each costs an instruction or two per
element of a row that is bound by memory, and halves the number of code objects.
In the add form out may alias input and residual_out may alias residual_in: each element is read
before the same program writes it, and the looped form writes only in its second pass.
"""

import triton
import triton.language as tl


@triton.jit
def scaled(h, rstd, sensitive, T: tl.constexpr):
    """Scale h by rstd, rounded to T where `sensitive` says so."""
    n = h * rstd
    return tl.where(sensitive != 0, n.to(T).to(tl.float32), n)


@triton.jit
def rms_norm_kernel(
    out,
    input,
    weight,
    M,
    N,
    out_stride,
    input_stride,
    sensitive,
    eps,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, BLOCK)[None, :]
    mask = (row < M) & (col < N)
    wide = row.to(tl.int64)
    x = tl.load(input + wide * input_stride + col, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(weight + col, mask=col < N, other=0.0).to(tl.float32)
    rstd = tl.math.rsqrt(tl.sum(x * x, axis=1, keep_dims=True) / N + eps)
    y = scaled(x, rstd, sensitive, out.dtype.element_ty) * w
    tl.store(out + wide * out_stride + col, y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def rms_norm_loop_kernel(
    out,
    input,
    weight,
    M,
    N,
    out_stride,
    input_stride,
    sensitive,
    eps,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    input += row * input_stride
    out += row * out_stride
    lane = tl.arange(0, BLOCK)
    square = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        col = start + lane
        x = tl.load(input + col, mask=col < N, other=0.0).to(tl.float32)
        square += x * x
    rstd = tl.math.rsqrt(tl.sum(square, axis=0) / N + eps)
    for start in range(0, N, BLOCK):
        col = start + lane
        x = tl.load(input + col, mask=col < N, other=0.0).to(tl.float32)
        w = tl.load(weight + col, mask=col < N, other=0.0).to(tl.float32)
        y = scaled(x, rstd, sensitive, out.dtype.element_ty) * w
        tl.store(out + col, y.to(out.dtype.element_ty), mask=col < N)


@triton.jit
def rmsnorm_add_kernel(
    out,
    input,
    residual_in,
    residual_out,
    weight,
    M,
    N,
    out_stride,
    input_stride,
    residual_in_stride,
    residual_out_stride,
    gemma_norm,
    sensitive,
    eps,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, BLOCK)[None, :]
    mask = (row < M) & (col < N)
    wide = row.to(tl.int64)
    x = tl.load(input + wide * input_stride + col, mask=mask, other=0.0).to(tl.float32)
    r = tl.load(residual_in + wide * residual_in_stride + col, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(weight + col, mask=col < N, other=0.0).to(tl.float32) + gemma_norm.to(tl.float32)
    rounded = (x + r).to(residual_out.dtype.element_ty)
    tl.store(residual_out + wide * residual_out_stride + col, rounded, mask=mask)
    h = rounded.to(tl.float32)
    rstd = tl.math.rsqrt(tl.sum(h * h, axis=1, keep_dims=True) / N + eps)
    y = scaled(h, rstd, sensitive, out.dtype.element_ty) * w
    tl.store(out + wide * out_stride + col, y.to(out.dtype.element_ty), mask=mask)


@triton.jit
def rmsnorm_add_loop_kernel(
    out,
    input,
    residual_in,
    residual_out,
    weight,
    M,
    N,
    out_stride,
    input_stride,
    residual_in_stride,
    residual_out_stride,
    gemma_norm,
    sensitive,
    eps,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    input += row * input_stride
    out += row * out_stride
    residual_in += row * residual_in_stride
    residual_out += row * residual_out_stride
    lane = tl.arange(0, BLOCK)
    square = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        col = start + lane
        x = tl.load(input + col, mask=col < N, other=0.0).to(tl.float32)
        r = tl.load(residual_in + col, mask=col < N, other=0.0).to(tl.float32)
        h = (x + r).to(residual_out.dtype.element_ty).to(tl.float32)
        square += h * h
    rstd = tl.math.rsqrt(tl.sum(square, axis=0) / N + eps)
    offset = gemma_norm.to(tl.float32)
    # The sum is formed again and not read back: a lane would otherwise depend on stores that
    # another lane of the same workgroup made in the first loop.
    for start in range(0, N, BLOCK):
        col = start + lane
        x = tl.load(input + col, mask=col < N, other=0.0).to(tl.float32)
        r = tl.load(residual_in + col, mask=col < N, other=0.0).to(tl.float32)
        w = tl.load(weight + col, mask=col < N, other=0.0).to(tl.float32) + offset
        rounded = (x + r).to(residual_out.dtype.element_ty)
        tl.store(residual_out + col, rounded, mask=col < N)
        y = scaled(rounded.to(tl.float32), rstd, sensitive, out.dtype.element_ty) * w
        tl.store(out + col, y.to(out.dtype.element_ty), mask=col < N)
