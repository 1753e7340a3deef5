// Hyper-connections: four streams of a residual, which are mixed before and behind each layer.
//
// mhc_post: out[t, o] = x[t] * post[t, o] + sum over s of residual[t, s] * comb[t, s, o], in fp32, rounded once.
// mhc_product: partial sums of x[t] * fn[n] over parts of the columns, and of x[t]^2, in fp32 by matrix instructions.
//
// Build:  T = bf16 | f16          element type of x, residual and out
// Launch: mhc_post: grid x = tokens * cdiv(width, 1024), block x = 128. mhc_product: grid x = cdiv(rows, 64) * parts, block x = 256.
#include "common.hpp"

namespace ap {

using elem = T;
inline constexpr u32 kStreams = 4;
using eight = vec<u16, 8>;
using f32x4 = vec<float, 4>;

AP_INLINE float as_float(u16 bits) { return static_cast<float>(__builtin_bit_cast(elem, bits)); }
AP_INLINE u16 as_bits(float value) { return __builtin_bit_cast(u16, to_elem<elem>(value)); }
AP_INLINE eight load_eight(const u16* at) { return *reinterpret_cast<const eight*>(at); }

AP_INLINE float from_lane(float x, u32 distance) {
  int lane = static_cast<int>((thread_x() % kWave) ^ distance);
  return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(lane * 4, __builtin_bit_cast(int, x)));
}

// Sums of 16 rows, one of each lane of 16, and 16 columns of fn: eight steps of a matrix instruction, whose order of k is any.
AP_INLINE f32x4 add_product(const float* a, const float* fn, f32x4 sum) {
  f32x4 low = *reinterpret_cast<const f32x4*>(fn), high = *reinterpret_cast<const f32x4*>(fn + 4);
#pragma unroll
  for (u32 j = 0; j < 8; ++j)
    sum = __builtin_amdgcn_mfma_f32_16x16x4f32(a[j], j < 4 ? low[j] : high[j - 4], sum, 0, 0, 0);
  return sum;
}

}  // namespace ap

// The four streams of a token lie side by side in out.
AP_KERNEL(128)
void mhc_post(ap::u16* __restrict__ out, const ap::u16* __restrict__ x, const ap::u16* __restrict__ residual,
              const float* __restrict__ post, const float* __restrict__ comb, ap::i32 width, ap::i32 blocks,
              ap::i64 x_row, ap::i64 residual_row, ap::i64 stream) {
  using namespace ap;
  u32 token = block_x() / static_cast<u32>(blocks);
  u32 column = (block_x() - token * static_cast<u32>(blocks)) * 1024 + thread_x() * 8;
  if (column >= static_cast<u32>(width)) return;
  const u16* rows = residual + token * residual_row + column;
  eight own = load_eight(x + token * x_row + column), other[kStreams];
#pragma unroll
  for (u32 s = 0; s < kStreams; ++s) other[s] = load_eight(rows + s * stream);
  const float* scales = post + static_cast<i64>(token) * kStreams;
  const float* mix = comb + static_cast<i64>(token) * kStreams * kStreams;
#pragma unroll
  for (u32 o = 0; o < kStreams; ++o) {
    eight made;
#pragma unroll
    for (u32 k = 0; k < 8; ++k) {
      float sum = as_float(own[k]) * scales[o];
#pragma unroll
      for (u32 s = 0; s < kStreams; ++s) sum += as_float(other[s][k]) * mix[s * kStreams + o];
      made[k] = as_bits(sum);
    }
    *reinterpret_cast<eight*>(out + (static_cast<i64>(token) * kStreams + o) * width + column) = made;
  }
}

// Part p has width / parts columns of each of `streams` runs of `width` columns, a multiple of 32. Part p of row t is written to
// out[(p * rows + t) * out_row + n], n < outs <= 32, and to squares[p * rows + t].
AP_KERNEL(256)
void mhc_product(float* __restrict__ out, float* __restrict__ squares, const ap::u16* __restrict__ x,
                 const float* __restrict__ fn, ap::i32 rows, ap::i32 outs, ap::i32 width, ap::i32 streams,
                 ap::i32 parts, ap::i64 x_row, ap::i64 fn_row, ap::i64 out_row) {
  using namespace ap;
  u32 tiles = (static_cast<u32>(rows) + 63) / 64;
  u32 part = block_x() / tiles;
  u32 lane = thread_x() % kWave, wave = thread_x() / kWave;
  u32 first = (block_x() - part * tiles) * 64 + wave * 16, last = static_cast<u32>(rows) - 1;
  if (first > last) return;
  u32 row = first + lane % 16, own = lane % 16, behind = own + 16, end = static_cast<u32>(outs);
  u32 size = static_cast<u32>(width) / static_cast<u32>(parts);
  // Rows and columns that are not there read the last one, and write nothing.
  const u16* in = x + (row > last ? last : row) * x_row + part * size + lane / 16 * 8;
  const float* low = fn + (own < end ? own : end - 1) * fn_row + part * size + lane / 16 * 8;
  const float* high = fn + (behind < end ? behind : end - 1) * fn_row + part * size + lane / 16 * 8;
  f32x4 sum = {}, more = {};
  float square = 0.0f;
  for (u32 stream = 0; stream < static_cast<u32>(streams); ++stream) {
    i64 begin = static_cast<i64>(stream) * width;
    for (u32 k = 0; k < size; k += 32) {
      eight bits = load_eight(in + begin + k);
      float a[8];
#pragma unroll
      for (u32 j = 0; j < 8; ++j) a[j] = as_float(bits[j]), square += a[j] * a[j];
      sum = add_product(a, low + begin + k, sum);
      if (end > 16) more = add_product(a, high + begin + k, more);
    }
  }
  square += from_lane(square, 16);
  square += from_lane(square, 32);
  i64 place = static_cast<i64>(part) * rows;
  if (lane < 16 && row <= last) squares[place + row] = square;
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    u32 to = first + lane / 16 * 4 + i;
    if (to > last) continue;
    if (own < end) out[(place + to) * out_row + own] = sum[i];
    if (behind < end) out[(place + to) * out_row + behind] = more[i];
  }
}
