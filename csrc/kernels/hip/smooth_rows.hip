// Each row times the smooth scales of its expert, as codes with a scale a row.
//
// v = input[row] * smooth[experts[row]]; scales[row] = max(amax(|v|), 1e-10) / qmax; out[row] = v / scales[row], rounded to nearest
// even and cut at qmax. A row of a negative expert, or behind the counted ones, stays as it is.
//
// Build:  T, Q, ALIGNED, BLOCK, ITERS as smooth.hpp has them
// Launch: grid x = rows, block x = BLOCK, static LDS only.
#include "smooth.hpp"

// input and out [.., n] with row strides in elements; smooth[.., n] dense; without experts all rows take the first smooth scales.
// counted: null, or one number on the device, of which `factor` times as many rows are done.
AP_KERNEL(BLOCK)
void smooth_rows(ap::u8* __restrict__ out, const ap::elem* __restrict__ input, const float* __restrict__ smooth,
                 const ap::i32* __restrict__ experts, float* __restrict__ scales, const ap::i32* __restrict__ counted,
                 ap::i32 factor, ap::i32 n, ap::i64 in_stride, ap::i64 out_stride) {
  using namespace ap;
  u32 row = block_x();
  if (counted && static_cast<i64>(row) >= static_cast<i64>(*counted) * factor) return;
  i64 expert = experts ? experts[row] : 0;
  if (expert < 0) return;
  quantise_smoothed(out + row * out_stride, input + row * in_stride, smooth + expert * n, scales + row,
                    static_cast<u32>(n), 1e-10f);
}
