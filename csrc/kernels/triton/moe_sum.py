"""The sum of what a token's experts gave: `moe_sum` of AITER, for any number of experts.

    out[m, n] = round(input[m, 0, n] + input[m, 1, n] + ...)        in this order, in fp32

T is bf16, fp16 or fp32.  Everything is contiguous; any M, K, N >= 1.

Arguments, in order
    0 out *T [M, N] | 1 input *T [M, K, N] | 2 K i32 | 3 N i32
  constexprs  BLOCK, EVEN
  grid        (M * cdiv(N, BLOCK), 1, 1)
  workspace   none

EVEN = 1 names the aligned specialisation (`tt.divisibility` 16): both pointers at 16 bytes, N a multiple of 16 elements, so that
each lane moves 16 bytes.  EVEN = 0 assumes nothing.
"""

import triton
import triton.language as tl


@triton.jit
def moe_sum_rows_kernel(out, input, K, N, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    blocks = tl.cdiv(N, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    col = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside = col < N
    input += row * K * N
    acc = tl.zeros([BLOCK], tl.float32)
    for _ in range(K):
        acc += tl.load(input + col, mask=inside, other=0.0).to(tl.float32)
        input += N
    tl.store(out + row * N + col, acc.to(out.dtype.element_ty), mask=inside)
