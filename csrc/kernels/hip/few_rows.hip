// Products with few rows: out[n, m] = sum over k of weight[m, k] * input[n, k], in fp32, rounded once; of fp8 times both scales.
// What takes time is reading the weights: a wave reads kTile rows of them once, 16 bytes a lane, and HEIGHT rows of the input.
//
// Build:  T = bf16 | f16                    element type of out
//         FP8 = 0 | 1                       weight and input are of type T, or of the target's fp8
//         HEIGHT = 1 | 2 | 4                rows of the input for a block
//         BLOCK = 256                       threads of a block
// Launch: grid x = cdiv(m, BLOCK / 64 * kTile), y = cdiv(n, HEIGHT), block x = BLOCK, no LDS. Rows begin at multiples of 16 bytes, and
//         k is a multiple of those elements.
#include "common.hpp"

namespace ap {

using elem = T;
inline constexpr bool kFp8 = FP8;
inline constexpr u32 kTile = 2;              // rows of the weights for a wave
inline constexpr u32 kAhead = 4;             // loads of each row that are under way
inline constexpr u32 kPack = kFp8 ? 16 : 8;  // elements of 16 bytes
inline constexpr u32 kStep = kWave * kPack;  // elements of a row that a wave reads at once
using line = vec<u32, 4>;

template <bool BYTES>
struct cell_of {
  using type = T;
};
template <>
struct cell_of<true> {
  using type = u8;
};
using cell = cell_of<kFp8>::type;

// Two of the eight numbers, or four of the sixteen, of one word.
AP_INLINE float dot(u32 a, u32 b, float sum) {
  if constexpr (kFp8) {
    auto a0 = __builtin_amdgcn_cvt_pk_f32_fp8(a, false), a1 = __builtin_amdgcn_cvt_pk_f32_fp8(a, true);
    auto b0 = __builtin_amdgcn_cvt_pk_f32_fp8(b, false), b1 = __builtin_amdgcn_cvt_pk_f32_fp8(b, true);
    sum = __builtin_fmaf(a0[0], b0[0], sum);
    sum = __builtin_fmaf(a0[1], b0[1], sum);
    sum = __builtin_fmaf(a1[0], b1[0], sum);
    return __builtin_fmaf(a1[1], b1[1], sum);
  } else {
    auto x = __builtin_bit_cast(vec<elem, 2>, a), y = __builtin_bit_cast(vec<elem, 2>, b);
    sum = __builtin_fmaf(static_cast<float>(x[0]), static_cast<float>(y[0]), sum);
    return __builtin_fmaf(static_cast<float>(x[1]), static_cast<float>(y[1]), sum);
  }
}

template <int CTRL, int ROW_MASK>
AP_INLINE float dpp_add(float x) {
  int moved = __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x), CTRL, ROW_MASK, 0xf, false);
  return x + __builtin_bit_cast(float, moved);
}

// The sum of 64 lanes, in a scalar register. Lanes that a DPP step leaves out read 0.
AP_INLINE float wave_sum(float x) {
  x = dpp_add<0x111, 0xf>(x);  // row_shr:1
  x = dpp_add<0x112, 0xf>(x);  // row_shr:2
  x = dpp_add<0x114, 0xf>(x);  // row_shr:4
  x = dpp_add<0x118, 0xf>(x);  // row_shr:8   lane 15 of each row of 16 holds its row
  x = dpp_add<0x142, 0xa>(x);  // row_bcast:15 into rows 1 and 3
  x = dpp_add<0x143, 0xc>(x);  // row_bcast:31 into rows 2 and 3
  return __builtin_bit_cast(float, __builtin_amdgcn_readlane(__builtin_bit_cast(int, x), 63));
}

}  // namespace ap

// Rows of weight and input lie a stride apart, in elements; scales are read of fp8 alone.
AP_KERNEL(BLOCK)
void few_rows(ap::elem* out, const ap::cell* weight, const ap::cell* input, const float* weight_scale,
              const float* input_scale, ap::i32 m, ap::i32 n, ap::i32 k, ap::i64 weight_row, ap::i64 input_row) {
  using namespace ap;
  u32 lane = thread_x() % kWave, first = (block_x() * (BLOCK / kWave) + thread_x() / kWave) * kTile;
  u32 row = __builtin_amdgcn_workgroup_id_y() * HEIGHT, columns = static_cast<u32>(k);
  u32 last_m = static_cast<u32>(m) - 1, last_n = static_cast<u32>(n) - 1;
  if (first > last_m) return;
  const cell* from[kTile];
  const cell* with[HEIGHT];
  // Past the end the last row again, which nothing is made of.
#pragma unroll
  for (u32 i = 0; i < kTile; ++i) from[i] = weight + (first + i > last_m ? last_m : first + i) * weight_row;
#pragma unroll
  for (u32 j = 0; j < HEIGHT; ++j) with[j] = input + (row + j > last_n ? last_n : row + j) * input_row;
  float sum[HEIGHT][kTile] = {};
  for (u32 at = lane * kPack; at < columns; at += kStep * kAhead) {
    line a[kAhead][kTile], b[kAhead][HEIGHT];
#pragma unroll
    for (u32 u = 0; u < kAhead; ++u) {
      u32 column = at + u * kStep;
      bool there = column < columns;
#pragma unroll
      for (u32 i = 0; i < kTile; ++i)
        a[u][i] = there ? __builtin_nontemporal_load(reinterpret_cast<const line*>(from[i] + column)) : line{};
#pragma unroll
      for (u32 j = 0; j < HEIGHT; ++j) b[u][j] = there ? *reinterpret_cast<const line*>(with[j] + column) : line{};
    }
#pragma unroll
    for (u32 u = 0; u < kAhead; ++u)
#pragma unroll
      for (u32 j = 0; j < HEIGHT; ++j)
#pragma unroll
        for (u32 i = 0; i < kTile; ++i)
#pragma unroll
          for (u32 w = 0; w < 4; ++w) sum[j][i] = dot(a[u][i][w], b[u][j][w], sum[j][i]);
  }
  float scale = 1.0f;
  if constexpr (kFp8) scale = *weight_scale * *input_scale;
#pragma unroll
  for (u32 j = 0; j < HEIGHT; ++j)
#pragma unroll
    for (u32 i = 0; i < kTile; ++i) {
      float total = wave_sum(sum[j][i]);
      if constexpr (kFp8) total *= scale;
      if (lane == 0 && first + i <= last_m && row + j <= last_n)
        out[static_cast<i64>(row + j) * m + (first + i)] = to_elem<elem>(total);
    }
}
