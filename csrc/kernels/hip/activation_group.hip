// A gated activation and fp8 codes with a scale for each group of columns: v = silu(input[m, j]) * input[m, d + j] in fp32, the
// scale of a group is its largest |v|, 1e-10 at least, over the largest code; out = v / scale, rounded to nearest even, cut.
//
// A lane has eight neighbouring columns, a group GROUP / 8 lanes beside each other, which a few DPP steps ask for their largest.
//
// Build:  T = bf16 | f16           element type of input
//         Q = fp8                  of out
//         ACT = silu               see `activate`
//         GROUP = 32 | 64 | 128    columns of a group, of which d is a multiple
//         BLOCK = 64 | 256         threads of a block; a block covers BLOCK * 8 columns of one row
// Launch: grid x = M * cdiv(d, BLOCK * 8), block x = BLOCK, no LDS. Rows of input begin at 16 bytes, those of out at 8.
#include "activation.hpp"

namespace ap {

using elem = T;
using pack = vec<elem, kVec>;
inline constexpr u32 kTile = BLOCK * kVec;

template <int CTRL>
AP_INLINE float larger(float x) {
  int moved = __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x), CTRL, 0xf, 0xf, false);
  return max_num(x, __builtin_bit_cast(float, moved));
}

// Largest of the lanes of a group, in each of them.
AP_INLINE float group_max(float x) {
  x = larger<0xb1>(x);                             // quad_perm: lanes 1, 0, 3, 2
  x = larger<0x4e>(x);                             // quad_perm: lanes 2, 3, 0, 1
  if constexpr (GROUP > 32) x = larger<0x141>(x);  // row_half_mirror
  if constexpr (GROUP > 64) x = larger<0x140>(x);  // row_mirror
  return x;
}

}  // namespace ap

// out[M, d], input[M, 2d]; strides are the distances of rows in elements. limit > 0: the gate is cut at +limit, rounded to the
// element type, the other half at +-limit. The scale of group g of row m stands at m * s_row + g * s_group.
AP_KERNEL(BLOCK)
void act_and_mul_quant(ap::u8* __restrict__ out, const ap::elem* __restrict__ input, float* __restrict__ scales,
                       ap::i32 d, ap::i64 out_stride, ap::i64 in_stride, ap::i64 s_row, ap::i64 s_group, float limit) {
  using namespace ap;
  u32 width = static_cast<u32>(d);
  u32 tiles = (width + kTile - 1) / kTile;
  u32 row = block_x() / tiles;
  u32 column = (block_x() - row * tiles) * kTile + thread_x() * kVec;
  // Whole groups leave.
  if (column >= width) return;
  const elem* gate = input + row * in_stride + column;
  pack g = *reinterpret_cast<const pack*>(gate), u = *reinterpret_cast<const pack*>(gate + width);
  float bound = static_cast<float>(to_elem<elem>(limit));
  float v[kVec], amax = 1e-10f;
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
    float x = static_cast<float>(g[i]), y = static_cast<float>(u[i]);
    if (limit > 0.0f) {
      x = min_keep_nan(x, bound);
      y = clamp_keep_nan(y, -limit, limit);
    }
    v[i] = activate(x) * y;
    amax = max_num(amax, abs_f(v[i]));
  }
  float scale = group_max(amax) * (1.0f / quant_traits<fp8>::max);
  if (column % GROUP == 0) scales[row * s_row + column / GROUP * s_group] = scale;
  float inverse = 1.0f / scale;
#pragma unroll
  for (int i = 0; i < kVec; ++i) v[i] *= inverse;
  u8* to = out + row * out_stride + column;
  vec<u32, 2> w = {pack4<fp8>(v[0], v[1], v[2], v[3]), pack4<fp8>(v[4], v[5], v[6], v[7])};
  *reinterpret_cast<vec<u32, 2>*>(to) = w;
}
