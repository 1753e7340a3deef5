"""A gated activation and fp8 codes by groups of columns: `act_mul_and_fp8_group_quant` of AITER.

    v[m, i]       = act(input[m, i]) * input[m, I + i]              fp32
    scales[m, g]  = max(max_i |v[m, i]|, 1e-10) / QMAX              over the GROUP columns of group g
    codes[m, i]   = saturate(round(v[m, i] * (1 / scales[m, g])))   to nearest even

    silu        x / (1 + exp(-x))
    gelu        x / 2 * (1 + erf(x / sqrt(2)))
    gelu_tanh   x / 2 * (1 + tanh(y)) = x / (1 + exp(-2 * y)),  y = sqrt(2 / pi) * (x + 0.044715 * x^3)

T is bf16 or fp16, the codes are the target's e4m3 (QMAX 240 on gfx942, 448 on gfx950).  NaN is left out of the maximum and
gets the code -QMAX; so does the infinity of a group whose scale it makes infinite, where all other codes are 0.  The last
group may have fewer columns.

`act_group_quant_kernel` arguments, in order
    0 codes *Q [M, I] contiguous | 1 scales *f32 [M, groups] contiguous | 2 input *T [M, 2 * I] | 3 half i32: I
    4 groups i32 | 5 input_stride i32, of rows, in elements | 6 act i32: 0 silu, 1 gelu, 2 gelu_tanh

constexprs   GROUP columns a group, GROUPS groups a program (powers of two), EVEN
grid         (M, cdiv(groups, GROUPS), 1)
workspace    none

EVEN = 1 names the aligned specialisation (`tt.divisibility` 16): codes and input at 16 bytes, I and the stride multiples of
16 elements, so that a lane moves 16 bytes of input.  EVEN = 0 assumes nothing.  The code is the same in both.
"""

import triton
import triton.language as tl


@triton.constexpr_function
def _qmax(dtype):
    """Largest finite code of an output type, as a float."""
    return {"fp8e4b8": 240.0, "fp8e4nv": 448.0}[dtype.name]


@triton.jit
def _gate(x, act):
    """The activation; which one is the same in all lanes."""
    if act == 1:
        y = 0.5 * x * (1.0 + tl.math.erf(x * 0.7071067811865476))
    else:
        slope = x
        if act == 2:
            slope = 1.5957691216057308 * (x + 0.044715 * (x * x * x))
        y = x / (1.0 + tl.math.exp2(slope * -1.4426950408889634))
    return y


@triton.jit
def act_group_quant_kernel(
    codes,
    scales,
    input,
    half,
    groups,
    input_stride,
    act,
    GROUP: tl.constexpr,
    GROUPS: tl.constexpr,
    EVEN: tl.constexpr,
):
    QMAX: tl.constexpr = _qmax(codes.dtype.element_ty)
    row = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1) * GROUPS + tl.arange(0, GROUPS)[:, None]
    col = group * GROUP + tl.arange(0, GROUP)[None, :]
    inside = col < half
    input += row * input_stride
    x = tl.load(input + col, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(input + half + col, mask=inside, other=0.0).to(tl.float32)
    v = _gate(x, act) * up
    scale = tl.maximum(tl.max(tl.abs(v), axis=1, keep_dims=True), 1e-10) / QMAX
    tl.store(scales + row * groups + group, scale, mask=group < groups)
    v = tl.minimum(tl.maximum(v * (1.0 / scale), -QMAX), QMAX)
    tl.store(codes + row * half + col, v.to(codes.dtype.element_ty), mask=inside)
