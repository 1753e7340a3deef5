// Hyper-connections: how the four streams of a residual are mixed, from partial sums of a product and of squares, and the input of the
// layer, which is their sum by the first of these numbers; with NORM its RMSNorm.
//
// Of the sums m[n] of a token, each times rsqrt(squares / (4 * width) + rms_epsilon):
// pre[s] = sigmoid(m[s] * scale[0] + base[s]) + pre_epsilon; post[s] = sigmoid(m[4 + s] * scale[1] + base[4 + s]) * post_value;
// comb = softmax of rows of m[8 + ...] * scale[2] + base[8 + ...], plus sink_epsilon, over the sums of columns plus sink_epsilon; then
// `repeat` - 1 times over the sums of rows and of columns, each plus sink_epsilon.
//
// Build:  T = bf16 | f16          element type of residual, weight and input
//         NORM = 0 | 1            1: a block has all columns of a token, 8192 at most
// Launch: grid x = tokens * blocks, block x = 256; blocks: NORM 1: 1, else cdiv(width, 2048).
#include "common.hpp"

namespace ap {

using elem = T;
inline constexpr u32 kStreams = 4, kThreads = 256, kSums = 32, kGroups = kThreads / kSums;
inline constexpr u32 kRuns = NORM ? 4 : 1;  // of eight columns, that a thread has
using eight = vec<u16, 8>;

AP_INLINE float as_float(u16 bits) { return static_cast<float>(__builtin_bit_cast(elem, bits)); }
AP_INLINE u16 as_bits(float value) { return __builtin_bit_cast(u16, to_elem<elem>(value)); }
AP_INLINE eight load_eight(const u16* at) { return *reinterpret_cast<const eight*>(at); }

AP_INLINE float exponential(float x) { return __builtin_amdgcn_exp2f(x * 1.44269504088896340736f); }
AP_INLINE float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

template <int CTRL>
AP_INLINE float moved(float x) {
  int bits = __builtin_bit_cast(int, x);
  return __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(bits, bits, CTRL, 0xf, 0xf, false));
}

AP_INLINE float of_lane(float x, i32 lane) {
  return __builtin_bit_cast(float, __builtin_amdgcn_readlane(__builtin_bit_cast(int, x), lane));
}

// Over the four lanes of a row of a matrix of 4 x 4 in 16 lanes, and over those of a column.
AP_INLINE float row_sum(float x) {
  x += moved<0xb1>(x);  // quad_perm: lanes 1, 0, 3, 2
  return x + moved<0x4e>(x);
}
AP_INLINE float column_sum(float x) {
  x += moved<0x124>(x);  // row_ror: 4
  return x + moved<0x128>(x);
}
AP_INLINE float row_max(float x) {
  x = max_num(x, moved<0xb1>(x));
  return max_num(x, moved<0x4e>(x));
}

AP_INLINE float wave_sum(float x) {
  x = row_sum(x);
  x += moved<0x141>(x);  // row_half_mirror
  x += moved<0x140>(x);  // row_mirror
  return (of_lane(x, 0) + of_lane(x, 16)) + (of_lane(x, 32) + of_lane(x, 48));
}

}  // namespace ap

// product[(p * tokens + t) * product_row + n] and squares[p * tokens + t] are the sums of part p; outs is 4 or 24. With `repeat` 0
// post_mix and comb_mix stay as they are.
AP_KERNEL(256)
void mhc_mix(float* __restrict__ post_mix, float* __restrict__ comb_mix, ap::u16* __restrict__ input,
             const float* __restrict__ product, const float* __restrict__ squares, const float* __restrict__ scale,
             const float* __restrict__ base, const ap::u16* __restrict__ residual, const ap::u16* __restrict__ weight,
             ap::i32 tokens, ap::i32 width, ap::i32 parts, ap::i32 outs, ap::i32 blocks, ap::i64 product_row,
             ap::i64 residual_row, ap::i64 stream, float rms_epsilon, float pre_epsilon, float sink_epsilon,
             float norm_epsilon, float post_value, ap::i32 repeat) {
  using namespace ap;
  __shared__ float part_sums[kGroups][kSums];
  __shared__ float wave_sums[kThreads / kWave];
  u32 token = block_x() / static_cast<u32>(blocks), block = block_x() - token * static_cast<u32>(blocks);
  u32 thread = thread_x(), n = thread % kSums;

  float sum = 0.0f;
  bool squared = n == kSums - 1;
  if (squared || n < static_cast<u32>(outs)) {
    for (u32 p = thread / kSums; p < static_cast<u32>(parts); p += kGroups) {
      i64 row = static_cast<i64>(p) * tokens + token;
      sum += squared ? squares[row] : product[row * product_row + n];
    }
  }
  part_sums[thread / kSums][n] = sum;
  block_sync();
  auto total = [&](u32 at) {
    float all = 0.0f;
#pragma unroll
    for (u32 g = 0; g < kGroups; ++g) all += part_sums[g][at];
    return all;
  };
  u32 count = static_cast<u32>(width) * kStreams;
  float root = __builtin_amdgcn_rsqf(total(kSums - 1) / static_cast<float>(count) + rms_epsilon);

  float pre[kStreams];
#pragma unroll
  for (u32 s = 0; s < kStreams; ++s) pre[s] = sigmoid(total(s) * root * scale[0] + base[s]) + pre_epsilon;
  u16* out = input + static_cast<i64>(token) * width;
  const u16* rows = residual + token * residual_row;
  float made[kRuns][8];
  float square = 0.0f;
#pragma unroll
  for (u32 r = 0; r < kRuns; ++r) {
    u32 column = (block * kRuns + r) * kThreads * 8 + thread * 8;
    bool there = column < static_cast<u32>(width);
#pragma unroll
    for (u32 k = 0; k < 8; ++k) made[r][k] = 0.0f;
    if (there) {
#pragma unroll
      for (u32 s = 0; s < kStreams; ++s) {
        eight bits = load_eight(rows + s * stream + column);
#pragma unroll
        for (u32 k = 0; k < 8; ++k) made[r][k] += as_float(bits[k]) * pre[s];
      }
    }
#if NORM
#pragma unroll
    for (u32 k = 0; k < 8; ++k) square += made[r][k] * made[r][k];
#endif
  }
#if NORM
  square = wave_sum(square);
  if (thread % kWave == 0) wave_sums[thread / kWave] = square;
  block_sync();
  square = 0.0f;
#pragma unroll
  for (u32 w = 0; w < kThreads / kWave; ++w) square += wave_sums[w];
  float inverse = __builtin_amdgcn_rsqf(square / static_cast<float>(width) + norm_epsilon);
#endif
#pragma unroll
  for (u32 r = 0; r < kRuns; ++r) {
    u32 column = (block * kRuns + r) * kThreads * 8 + thread * 8;
    if (column >= static_cast<u32>(width)) continue;
    eight bits;
#if NORM
    eight w = load_eight(weight + column);
#pragma unroll
    for (u32 k = 0; k < 8; ++k) bits[k] = as_bits(made[r][k] * inverse * as_float(w[k]));
#else
#pragma unroll
    for (u32 k = 0; k < 8; ++k) bits[k] = as_bits(made[r][k]);
#endif
    *reinterpret_cast<eight*>(out + column) = bits;
  }

  if (block != 0 || repeat <= 0 || thread >= kWave) return;
  u32 at = thread % 16, s = thread % kStreams;
  float post = sigmoid(total(kStreams + s) * root * scale[1] + base[kStreams + s]) * post_value;
  float comb = total(2 * kStreams + at) * root * scale[2] + base[2 * kStreams + at];
  comb = exponential(comb - row_max(comb));
  comb = comb / row_sum(comb) + sink_epsilon;
  comb = comb / (column_sum(comb) + sink_epsilon);
  for (i32 i = 1; i < repeat; ++i) {
    comb = comb * __builtin_amdgcn_rcpf(row_sum(comb) + sink_epsilon);
    comb = comb * __builtin_amdgcn_rcpf(column_sum(comb) + sink_epsilon);
  }
  if (thread < kStreams) post_mix[static_cast<i64>(token) * kStreams + thread] = post;
  if (thread < 16) comb_mix[static_cast<i64>(token) * 16 + thread] = comb;
}
