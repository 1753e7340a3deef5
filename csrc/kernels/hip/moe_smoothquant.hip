// Each token times the smooth scales of each of its experts, as codes with a scale a row: rows of the first choice, then of the next.
//
// Row k * tokens + t: v = input[t] * smooth[experts[t, k]]; scales[row] = amax(|v|) / qmax; out[row] = v / scales[row], rounded to
// nearest even and cut at qmax. NaN is left out of amax, and its code is -qmax.
//
// Build:  T, Q, ALIGNED, BLOCK, ITERS as smooth.hpp has them
// Launch: grid x = tokens, y = choices, block x = BLOCK, static LDS only.
#include "smooth.hpp"

namespace ap {

AP_INLINE u32 block_y() { return __builtin_amdgcn_workgroup_id_y(); }

}  // namespace ap

// input[tokens, n] and out[choices * tokens, n] with row strides in elements; smooth[.., n] and experts[tokens, choices] dense;
// without experts all rows take the first smooth scales.
AP_KERNEL(BLOCK)
void moe_smoothquant(ap::u8* __restrict__ out, const ap::elem* __restrict__ input, const float* __restrict__ smooth,
                     const ap::i32* __restrict__ experts, float* __restrict__ scales, ap::i32 tokens, ap::i32 n,
                     ap::i32 choices, ap::i64 in_stride, ap::i64 out_stride) {
  using namespace ap;
  u32 token = block_x(), choice = block_y(), cols = static_cast<u32>(n);
  i64 row = static_cast<i64>(choice) * tokens + token;
  if (cols == 0) {
    if (thread_x() == 0) scales[row] = 1.0f;
    return;
  }
  i64 expert = experts ? experts[static_cast<i64>(token) * choices + choice] : 0;
  quantise_smoothed(out + row * out_stride, input + token * in_stride, smooth + expert * n, scales + row, cols, 0.0f);
}
