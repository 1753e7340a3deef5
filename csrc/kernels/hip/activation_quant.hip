// A gated activation, quantised by a scale that is given: out[m, j] = act(input[m, j]) * input[m, d + j] / scale, computed in
// fp32, rounded once, to nearest even, and saturated; NaN stays NaN.
//
// Build:  T = bf16 | f16     element type of input
//         Q = fp8            of out
//         ACT = silu         see `activate`
//         ALIGNED = 1 | 0    1: d and both strides multiples of 8, input of 16 bytes, out of 8
//         BLOCK = 64 | 256   threads of a block; a block covers BLOCK * 8 columns of one row
// Launch: grid x = M * cdiv(d, BLOCK * 8), block x = BLOCK, no LDS.
#include "activation.hpp"
#include "quant.hpp"

// out[M, d], input[M, 2d]; strides are the distances of rows in elements; scale[1] f32, read on the device.
AP_KERNEL(BLOCK)
void scaled_act_and_mul(ap::u8* __restrict__ out, const ap::elem* __restrict__ input, const float* __restrict__ scale,
                        ap::i32 d, ap::i64 out_stride, ap::i64 in_stride) {
  using namespace ap;
  u32 width = static_cast<u32>(d);
  u32 tiles = (width + kStep - 1) / kStep;
  u32 row = block_x() / tiles;
  u32 first = (block_x() - row * tiles) * kStep;
  u32 left = width - first;
  const elem* gate = input + row * in_stride + first;
  // Both loads are on their way before either is waited for.
  pack g = load8(gate, 0, left), u = load8(gate + width, 0, left);
  // The reciprocal of a subnormal scale would be infinite, and zeros NaN: below 2^-126 both are multiplied by 2^64, which is exact.
  float by = *scale, f[kVec];
  bool tiny = by > -0x1p-126f && by < 0x1p-126f && by != 0.0f;
  float inverse = 1.0f / (tiny ? by * 0x1p64f : by), more = tiny ? 0x1p64f : 1.0f;
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
    float product = activate(static_cast<float>(g[i])) * static_cast<float>(u[i]);
    f[i] = product * inverse * more;
  }
  store_codes(out + row * out_stride + first, f, left);
}
