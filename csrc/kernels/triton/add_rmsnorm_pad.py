"""RMS norm of a sum whose rows are made longer by zeros: `fused_add_rmsnorm_pad` of AITER.

    s[m, n]     = input[m, n] + residual[m, n]              fp32; the last if it is given
    total[m, n] = round(s)                                  if residual is given
    out[m, n]   = round(s * rstd[m] * weight[n])            n < N, rstd = 1 / sqrt(mean(s^2) + eps)
    out[m, n]   = 0                                         N <= n < N_out

T is bf16 or fp16, sums are fp32.  What is written is contiguous.

Arguments of both kernels, in order
    0 out *T [M, N_out] | 1 total *T [M, N] or null | 2 input *T [M, N] | 3 residual *T [M, N] or null | 4 weight *T [N]
    5 N i32 | 6 N_out i32 | 7 input_stride i32 | 8 residual_stride i32 | 9 has_residual i32 | 10 eps f32
    strides of rows, in elements; the last dimension is contiguous

constexprs   BLOCK (a power of two), EVEN
guarantee    single pass needs N_out <= BLOCK; looped takes any
grid         (M, 1, 1)
workspace    none

EVEN = 1 names the aligned specialisation (`tt.divisibility` 16): every pointer in use at 16 bytes, N, N_out and the strides of
rows multiples of 16 elements.  EVEN = 0 assumes nothing.
"""

import triton
import triton.language as tl


@triton.jit
def _sum_of(input, residual, col, inside, has_residual):
    s = tl.load(input + col, mask=inside, other=0.0).to(tl.float32)
    return s + tl.load(residual + col, mask=inside & (has_residual != 0), other=0.0).to(tl.float32)


@triton.jit
def _normed(s, weight, col, inside, rstd):
    """Zero behind a row, also where the row's own factor is no number."""
    y = s * rstd * tl.load(weight + col, mask=inside, other=0.0).to(tl.float32)
    return tl.where(inside, y, 0.0).to(weight.dtype.element_ty)


@triton.jit
def add_rmsnorm_pad_kernel(
    out,
    total,
    input,
    residual,
    weight,
    N,
    N_out,
    input_stride,
    residual_stride,
    has_residual,
    eps,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    inside = col < N
    s = _sum_of(input + row * input_stride, residual + row * residual_stride, col, inside, has_residual)
    tl.store(total + row * N + col, s.to(input.dtype.element_ty), mask=inside & (has_residual != 0))
    rstd = tl.math.rsqrt(tl.sum(s * s, axis=0) / N + eps)
    tl.store(out + row * N_out + col, _normed(s, weight, col, inside, rstd), mask=col < N_out)


@triton.jit
def add_rmsnorm_pad_loop_kernel(
    out,
    total,
    input,
    residual,
    weight,
    N,
    N_out,
    input_stride,
    residual_stride,
    has_residual,
    eps,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    input += row * input_stride
    residual += row * residual_stride
    square = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        col = start + lane
        s = _sum_of(input, residual, col, col < N, has_residual)
        square += s * s
    rstd = tl.math.rsqrt(tl.sum(square, axis=0) / N + eps)
    for start in range(0, N_out, BLOCK):
        col = start + lane
        inside = col < N
        s = _sum_of(input, residual, col, inside, has_residual)
        tl.store(total + row * N + col, s.to(input.dtype.element_ty), mask=inside & (has_residual != 0))
        tl.store(out + row * N_out + col, _normed(s, weight, col, inside, rstd), mask=col < N_out)
