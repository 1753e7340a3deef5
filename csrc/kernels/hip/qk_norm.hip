// RMS norms of a row of queries and of a row of keys in one launch, with what stands before and behind them: a residual that is
// added to the queries, and fp8 or int8 codes of their norm, with a scale for a row or for each group of its columns.
//
//   s[m, n] = q[m, n] + residual[m, n]                                fp32, stored rounded; the norm reads the sum itself
//   y[m, n] = s * (1 / sqrt(mean(s^2) + epsilon)) * (weight[n] + gemma)
//   scale   = max(amax(|y|), 1e-10) / qmax                            NaN is left out of amax
//   code    = saturate(round(y / scale))                              to nearest even; NaN is NaN in fp8 and 0 in int8
//
// Build:  T = bf16 | f16     element type of all but codes and scales
//         Q = fp8 | i8       codes: the target's e4m3 (qmax 240 on gfx942, 448 on gfx950), or int8 (qmax 127)
//         BLOCK = 256 | 512  threads, each of which has up to 32 columns of a row; 256 when it is left out
// Launch: grid (M, 2), y = 1 for the keys; (M, 1) without them. Block x = BLOCK. Rows of 1 to 32 * BLOCK columns.
#include "common.hpp"

#ifndef BLOCK
#define BLOCK 256
#endif

namespace ap {

using elem = T;
using quant = Q;
using pack = vec<elem, kVec>;
inline constexpr u32 kBlock = BLOCK, kSteps = 4, kStep = kBlock * kVec;
inline constexpr float kFloor = 1e-10f;  // AITER's, of amax

AP_INLINE u32 block_y() { return __builtin_amdgcn_workgroup_id_y(); }

AP_INLINE float from_lane_xor(float x, u32 distance) {
  i32 bytes = static_cast<i32>((thread_x() % kWave ^ distance) * 4);
  return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(bytes, __builtin_bit_cast(i32, x)));
}

AP_INLINE float block_sum(float x, float* shared) {
#pragma unroll
  for (u32 distance = 1; distance < kWave; distance *= 2) x += from_lane_xor(x, distance);
  if (thread_x() % kWave == 0) shared[thread_x() / kWave] = x;
  block_sync();
  float total = (shared[0] + shared[1]) + (shared[2] + shared[3]);
  if constexpr (kBlock == 512) total += (shared[4] + shared[5]) + (shared[6] + shared[7]);
  return total;
}

// First of a lane's eight columns of a step.
AP_INLINE u32 column(u32 step) { return step * kStep + thread_x() * kVec; }

// A lane past the row's end reads its last columns again, so that no load stands in a branch of its lanes. `fast`: n is a multiple
// of 8, and every row starts at 16 bytes.
AP_INLINE void load_row(pack (&held)[kSteps], const elem* __restrict__ in, u32 n, bool fast) {
  if (fast) {
#pragma unroll
    for (u32 i = 0; i < kSteps; ++i) {
      u32 c = column(i);
      if (i * kStep < n) held[i] = *reinterpret_cast<const pack*>(in + (c < n ? c : n - kVec));
    }
  } else {
#pragma unroll
    for (u32 i = 0; i < kSteps; ++i) {
#pragma unroll
      for (u32 j = 0; j < kVec; ++j) {
        u32 c = column(i) + j;
        if (i * kStep < n) held[i][j] = in[c < n ? c : n - 1];
      }
    }
  }
}

AP_INLINE void store_row(elem* __restrict__ out, const float (&f)[kSteps][kVec], u32 n, bool fast) {
#pragma unroll
  for (u32 i = 0; i < kSteps; ++i) {
    u32 c = column(i);
    if (c >= n) continue;
    pack p;
#pragma unroll
    for (u32 j = 0; j < kVec; ++j) p[j] = to_elem<elem>(f[i][j]);
    if (fast) {
      *reinterpret_cast<pack*>(out + c) = p;
    } else {
#pragma unroll
      for (u32 j = 0; j < kVec; ++j) {
        if (c + j < n) out[c + j] = p[j];
      }
    }
  }
}

AP_INLINE void store_codes(u8* __restrict__ out, const float (&f)[kVec], float inverse, u32 c, u32 n, bool fast) {
  u32 low = pack4<quant>(f[0] * inverse, f[1] * inverse, f[2] * inverse, f[3] * inverse);
  u32 high = pack4<quant>(f[4] * inverse, f[5] * inverse, f[6] * inverse, f[7] * inverse);
  if (fast) {
    if (c < n) *reinterpret_cast<vec<u32, 2>*>(out + c) = vec<u32, 2>{low, high};
  } else {
#pragma unroll
    for (u32 j = 0; j < kVec; ++j) {
      if (c + j < n) out[c + j] = static_cast<u8>((j < 4 ? low : high) >> (8 * (j % 4)));
    }
  }
}

AP_INLINE float amax8(const float (&f)[kVec]) {
  float amax = 0.0f;
#pragma unroll
  for (u32 j = 0; j < kVec; ++j) amax = max_num(amax, abs_f(f[j]));
  return amax;
}

AP_INLINE float scale_of(float amax) { return max_num(amax, kFloor) * (1.0f / quant_traits<quant>::max); }

}  // namespace ap

// q [M, q_n], q_weight [q_n], k [M, k_n], k_weight [k_n]; strides are the distances of rows in elements. Null: codes, with scales;
// q_out; residual, with residual_out. group: columns that share a scale, 8 * 2^i and at most 512, a divisor of q_n; 0: the row.
// scales f32, of row m and group g at m * scale_row + g * scale_column.
AP_KERNEL(BLOCK)
void qk_norm(ap::u8* __restrict__ codes, float* __restrict__ scales, ap::elem* __restrict__ q_out,
             ap::elem* __restrict__ residual_out, const ap::elem* __restrict__ q, const ap::elem* __restrict__ q_weight,
             const ap::elem* __restrict__ residual, ap::elem* __restrict__ k_out, const ap::elem* __restrict__ k,
             const ap::elem* __restrict__ k_weight, ap::i32 q_n, ap::i32 k_n, ap::i32 group, ap::i32 gemma,
             ap::i32 q_fast, ap::i32 k_fast, float q_epsilon, float k_epsilon, ap::i64 codes_row, ap::i64 scale_row,
             ap::i64 scale_column, ap::i64 q_out_row, ap::i64 residual_out_row, ap::i64 q_row, ap::i64 residual_row,
             ap::i64 k_out_row, ap::i64 k_row) {
  using namespace ap;
  __shared__ float sums[kBlock / kWave], largest[kBlock / kWave];
  bool keys = block_y() != 0, fast = (keys ? k_fast : q_fast) != 0;
  i64 row = block_x();
  u32 n = static_cast<u32>(keys ? k_n : q_n);
  elem* out = keys ? k_out + row * k_out_row : q_out ? q_out + row * q_out_row : nullptr;
  pack held[kSteps] = {}, weights[kSteps] = {};
  load_row(held, keys ? k + row * k_row : q + row * q_row, n, fast);
  load_row(weights, keys ? k_weight : q_weight, n, fast);
  float f[kSteps][kVec];
#pragma unroll
  for (u32 i = 0; i < kSteps; ++i) {
#pragma unroll
    for (u32 j = 0; j < kVec; ++j) f[i][j] = column(i) + j < n ? static_cast<float>(held[i][j]) : 0.0f;
  }
  if (!keys && residual) {
    load_row(held, residual + row * residual_row, n, fast);
#pragma unroll
    for (u32 i = 0; i < kSteps; ++i) {
#pragma unroll
      for (u32 j = 0; j < kVec; ++j) f[i][j] += column(i) + j < n ? static_cast<float>(held[i][j]) : 0.0f;
    }
    store_row(residual_out + row * residual_out_row, f, n, fast);
  }
  float sum = 0.0f;
#pragma unroll
  for (u32 i = 0; i < kSteps; ++i) {
#pragma unroll
    for (u32 j = 0; j < kVec; ++j) sum += f[i][j] * f[i][j];
  }
  float mean = block_sum(sum, sums) / static_cast<float>(n);
  float root = __builtin_amdgcn_rsqf(mean + (keys ? k_epsilon : q_epsilon)), one = gemma ? 1.0f : 0.0f;
  float amax = 0.0f;
#pragma unroll
  for (u32 i = 0; i < kSteps; ++i) {
    if (i * kStep >= n) continue;
#pragma unroll
    for (u32 j = 0; j < kVec; ++j) {
      float y = f[i][j] * root * (static_cast<float>(weights[i][j]) + one);
      f[i][j] = column(i) + j < n ? y : 0.0f;
    }
    amax = max_num(amax, amax8(f[i]));
  }
  if (out) store_row(out, f, n, fast);
  if (keys || !codes) return;
  codes += row * codes_row;
  scales += row * scale_row;
  if (group == 0) {
    float scale = scale_of(block_max_nonneg<kBlock>(amax, largest));
    if (thread_x() == 0) *scales = scale;
    float inverse = 1.0f / scale;
#pragma unroll
    for (u32 i = 0; i < kSteps; ++i) store_codes(codes, f[i], inverse, column(i), n, fast);
    return;
  }
  u32 lanes = static_cast<u32>(group) / kVec;
#pragma unroll
  for (u32 i = 0; i < kSteps; ++i) {
    if (i * kStep >= n) continue;
    float most = amax8(f[i]);
    for (u32 distance = 1; distance < lanes; distance *= 2) most = max_num(most, from_lane_xor(most, distance));
    float scale = scale_of(most);
    u32 c = column(i);
    if (c < n && thread_x() % lanes == 0) scales[c / static_cast<u32>(group) * scale_column] = scale;
    store_codes(codes, f[i], 1.0f / scale, c, n, fast);
  }
}
