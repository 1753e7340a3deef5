// Activations without a gate: out[m, n] = act(input[m, n]), computed in fp32, rounded once.
//
// Build:  T = bf16 | f16         element type of input and out
//         ACT = silu | gelu | gelu_tanh
//         ALIGNED = 1 | 0        1: N and both strides multiples of 8, both pointers of 16 bytes
//         BLOCK = 64 | 256       threads of a block; a block covers BLOCK * 8 columns of one row
// Launch: grid x = M * cdiv(N, BLOCK * 8), block x = BLOCK, no LDS. Dense rows are best launched as one row of M * N columns:
//         then no block ends with a part of a row.
#include "activation.hpp"
#include "columns.hpp"

// out[M, N], input[M, N]; strides are the distances of rows in elements. out may be input itself: a lane reads its elements
// before it writes them, and nobody else reads them.
AP_KERNEL(BLOCK)
void act_elementwise(ap::elem* out, const ap::elem* input, ap::i32 n, ap::i64 out_stride, ap::i64 in_stride) {
  using namespace ap;
  u32 columns = static_cast<u32>(n);
  u32 steps = (columns + kStep - 1) / kStep;
  u32 row = block_x() / steps;
  u32 first = (block_x() - row * steps) * kStep;
  pack p = load8(input + row * in_stride + first, 0, columns - first);
#pragma unroll
  for (int i = 0; i < kVec; ++i) p[i] = to_elem<elem>(activate(static_cast<float>(p[i])));
  store8(out + row * out_stride + first, p, columns - first);
}
