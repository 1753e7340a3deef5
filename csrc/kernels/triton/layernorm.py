"""Layer norm kernels: `layernorm2d_fwd` of AITER.

    out[m, n] = round((h[m, n] - mean[m]) * rstd[m] * weight[n] + bias[n])
    mean[m]   = sum_n h[m, n] / N
    rstd[m]   = 1 / sqrt(sum_n (h[m, n] - mean[m])^2 / N + eps)

`h` is input + x_bias, which is not rounded; bias and x_bias may be missing.  T is bf16 or fp16; the arithmetic is
fp32, and the output is rounded once.  A row with a NaN or an infinity is NaN.  Rows are any length N >= 1.  Strides
are row strides in elements; the last dimension is contiguous.  All address arithmetic of a row is 64-bit.

An fp32 mean is off by its own rounding, which is much against the deviation of a row like 1000 +- 1.  So what is left of
it, the mean of h - mean, is summed beside the squares and taken off too: the error is one of the size of h - mean, and
a row of equal values gives its bias.  (In the looped form the means of the places keep their own rounding, which is
averaged over BLOCK of them.)

`layernorm_kernel` arguments, in order
    0 out *T [M, N] | 1 input *T [M, N] | 2 weight *T [N] | 3 bias *T [N] or null | 4 x_bias *T [N] or null
    5 M i32 | 6 N i32 | 7 out_stride i32 | 8 input_stride i32 | 9 has_bias i32 | 10 has_x_bias i32 | 11 eps f32
`layernorm_loop_kernel`: the same arguments.

constexprs   single pass: ROWS, BLOCK (powers of two), EVEN, LATE; looped: BLOCK, EVEN
guarantee    single pass needs N <= BLOCK; looped takes any N
grid         single pass (cdiv(M, ROWS), 1, 1); looped (M, 1, 1)
workspace    none; M == 0 must not be launched

EVEN = 1 names the aligned specialisation (`tt.divisibility` 16): every pointer that is given at 16 bytes, N and every
stride a multiple of 16 elements, so that each lane moves 16 bytes.  Indices 0..4, 6..8.  EVEN = 0 assumes nothing and
has no attribute.  The code is the same in both.

LATE = 1 asks for weight and bias when they are needed, and adds x_bias at once: the registers would keep a second workgroup off a
processor of Hopper.

A missing tensor is a load whose mask is false everywhere: a scalar test per load, no code object of its own.
"""

import triton
import triton.language as tl


@triton.jit
def _add_pairs(a, b, c, d):
    return a + c, b + d


@triton.jit
def layernorm_kernel(
    out,
    input,
    weight,
    bias,
    x_bias,
    M,
    N,
    out_stride,
    input_stride,
    has_bias,
    has_x_bias,
    eps,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
    LATE: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    # Of the tile's own shape, so that weights and biases are loaded in the layout in which they are needed: as a
    # row of their own they would come in 4-byte pieces and pass through LDS.
    col = tl.broadcast_to(tl.arange(0, BLOCK)[None, :], [ROWS, BLOCK])
    inside = col < N
    mask = (row < M) & inside
    input += row.to(tl.int64) * input_stride
    out += row.to(tl.int64) * out_stride
    x = tl.load(input + col, mask=mask, other=0.0).to(tl.float32)
    if LATE:
        if has_x_bias != 0:
            x += tl.load(x_bias + col, mask=inside, other=0.0).to(tl.float32)
        added = 0.0
    else:
        added = tl.load(x_bias + col, mask=inside & (has_x_bias != 0), other=0.0).to(tl.float32)
        # Needed last, asked for before the first use of anything.
        w = tl.load(weight + col, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(bias + col, mask=inside & (has_bias != 0), other=0.0).to(tl.float32)
    mean = tl.sum(x + added, axis=1, keep_dims=True) / N
    h = tl.where(inside, x - mean + added, 0.0)
    left, square = tl.reduce((h, h * h), 1, _add_pairs, keep_dims=True)
    left /= N
    rstd = tl.math.rsqrt(square / N - left * left + eps)
    h = (h - left) * rstd
    if LATE:
        w = tl.load(weight + col, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(bias + col, mask=inside & (has_bias != 0), other=0.0).to(tl.float32)
    tl.store(out + col, (h * w + b).to(out.dtype.element_ty), mask=mask)


@triton.jit
def layernorm_loop_kernel(
    out,
    input,
    weight,
    bias,
    x_bias,
    M,
    N,
    out_stride,
    input_stride,
    has_bias,
    has_x_bias,
    eps,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    input += row * input_stride
    out += row * out_stride
    lane = tl.arange(0, BLOCK)
    # Welford's recurrence in each place of the block, so that the row is read twice and not three times.
    mean = tl.zeros([BLOCK], tl.float32)
    square = tl.zeros([BLOCK], tl.float32)
    seen = 0.0
    for start in range(0, N, BLOCK):
        col = start + lane
        x = tl.load(input + col, mask=col < N, other=0.0).to(tl.float32)
        added = tl.load(x_bias + col, mask=(col < N) & (has_x_bias != 0), other=0.0).to(tl.float32)
        seen += 1.0
        share = 1.0 / seen
        delta = tl.where(col < N, x - mean + added, 0.0)
        mean += delta * share
        square += delta * delta * (1.0 - share)
    # A place has seen one element less if the last block of columns does not reach it.
    count = (N // BLOCK + (lane < N % BLOCK).to(tl.int32)).to(tl.float32)
    row_mean = tl.sum(mean * count, axis=0) / N
    apart = mean - row_mean
    left, square = tl.reduce((apart * count, square + apart * apart * count), 0, _add_pairs)
    left /= N
    rstd = tl.math.rsqrt(square / N - left * left + eps)
    for start in range(0, N, BLOCK):
        col = start + lane
        x = tl.load(input + col, mask=col < N, other=0.0).to(tl.float32)
        w = tl.load(weight + col, mask=col < N, other=0.0).to(tl.float32)
        b = tl.load(bias + col, mask=(col < N) & (has_bias != 0), other=0.0).to(tl.float32)
        added = tl.load(x_bias + col, mask=(col < N) & (has_x_bias != 0), other=0.0).to(tl.float32)
        h = x - row_mean + added - left
        tl.store(out + col, (h * rstd * w + b).to(out.dtype.element_ty), mask=col < N)
