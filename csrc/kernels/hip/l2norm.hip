// Rows over the square root of their sum of squares and epsilon: y = x * r, r = 1 / sqrt(sum(x * x) + eps), in fp32, rounded once.
//
// LANES lanes have a row, eight neighbouring columns each at a time; where that is all of it, a row is read once.
//
// Build:  T = bf16 | f16 | f32    element type of x and y
//         LANES = 16 | 64         16: at most 128 columns
//         WIDE = 1 | 0            1: rows of x begin at 16 bytes, those of y, too, columns are a multiple of 8
// Launch: grid x = cdiv(rows * LANES, 256), block x = 256, no LDS.
#include "common.hpp"

namespace ap {

using f32 = float;
using elem = T;
inline constexpr i32 kStep = LANES * static_cast<i32>(kVec);

template <int CTRL>
AP_INLINE float plus(float x) {
  return x + __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x), CTRL, 0xf, 0xf, true));
}

AP_INLINE float of_lane(float x, i32 lane) {
  return __builtin_bit_cast(float, __builtin_amdgcn_readlane(__builtin_bit_cast(int, x), lane));
}

// The sum over the lanes of a row, in each of them.
AP_INLINE float over_row(float x) {
  x = plus<0x140>(plus<0x141>(plus<0x4e>(plus<0xb1>(x))));  // pairs, quads, half a row of 16, all of it
  if constexpr (LANES == 64) x = (of_lane(x, 0) + of_lane(x, 16)) + (of_lane(x, 32) + of_lane(x, 48));
  return x;
}

AP_INLINE void load(float (&v)[kVec], const elem* row, i32 column, i32 width) {
#if WIDE
  constexpr u32 kPack = 16 / sizeof(elem);
  bool there = column < width;
#pragma unroll
  for (u32 k = 0; k < kVec; k += kPack) {
    vec<elem, kPack> p = *reinterpret_cast<const vec<elem, kPack>*>(row + (there ? column : 0) + k);
#pragma unroll
    for (u32 i = 0; i < kPack; ++i) v[k + i] = there ? static_cast<float>(p[i]) : 0.0f;
  }
#else
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) {
    i32 at = column + static_cast<i32>(i);
    v[i] = at < width ? static_cast<float>(row[at]) : 0.0f;
  }
#endif
}

AP_INLINE void store(elem* row, const float (&v)[kVec], i32 column, i32 width) {
#if WIDE
  constexpr u32 kPack = 16 / sizeof(elem);
  if (column >= width) return;
#pragma unroll
  for (u32 k = 0; k < kVec; k += kPack) {
    vec<elem, kPack> p;
#pragma unroll
    for (u32 i = 0; i < kPack; ++i) p[i] = to_elem<elem>(v[k + i]);
    *reinterpret_cast<vec<elem, kPack>*>(row + column + k) = p;
  }
#else
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) {
    i32 at = column + static_cast<i32>(i);
    if (at < width) row[at] = to_elem<elem>(v[i]);
  }
#endif
}

AP_INLINE float squares(const float (&v)[kVec]) {
  float sum = 0.0f;
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) sum = __builtin_fmaf(v[i], v[i], sum);
  return sum;
}

AP_INLINE void scale(float (&v)[kVec], float by) {
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) v[i] *= by;
}

}  // namespace ap

// x [rows, width] with its distance of rows, y contiguous; r f32 [rows], or null.
AP_KERNEL(256)
void l2norm(ap::elem* __restrict__ y, float* __restrict__ r, const ap::elem* __restrict__ x, ap::i32 rows, ap::i32 width,
            ap::i64 x_row, float eps) {
  using namespace ap;
  i64 lane = static_cast<i64>(block_x()) * 256 + thread_x(), row = lane / LANES;
  // All lanes of a row leave.
  if (row >= rows) return;
  i32 own = static_cast<i32>(lane % LANES) * static_cast<i32>(kVec);
  const elem* from = x + row * x_row;
  elem* to = y + row * width;
  float first[kVec], v[kVec];
  load(first, from, own, width);
  float sum = squares(first);
  for (i32 column = own + kStep; column - own < width; column += kStep) {
    load(v, from, column, width);
    sum += squares(v);
  }
  float inverse = __builtin_amdgcn_rsqf(over_row(sum) + eps);
  scale(first, inverse);
  store(to, first, own, width);
  for (i32 column = own + kStep; column - own < width; column += kStep) {
    load(v, from, column, width);
    scale(v, inverse);
    store(to, v, column, width);
  }
  if (r && own == 0) r[row] = inverse;
}
