// Products with few rows and a weight as shuffle_weight (16, 16) leaves it: out[g, m, n] = sum over k of x[g, m, k] * w[g, n, k].
//
// That layout is one of 16 x 16 bytes: a wave reads 16 rows of the weight and 64 bytes of each with one load a lane, which is what
// two matrix instructions take. The activations are read in the same order, so that neither goes through LDS. Weights are read once
// for HEIGHT rows of a product; the waves of a block share K, block by block, and add their sums up in LDS.
//
// Build:  X = bf16 | f16 | fp8               element type of x and w
//         C = bf16 | f16                     element type of out
//         SCALES = 0 | 1 | 2                 none | one a row of x and of w | one a row of x and 128 columns, and 128 x 128 of w
//         GROUPS = 0 | 1                     valid rows of each group are given: the others are left as they are
//         HEIGHT = 16 | 32                     rows of a product for a block
//         BLOCK = 256                        threads of a block
// Launch: grid x = n / 16, y = cdiv(m, HEIGHT), z = groups, block x = BLOCK, static LDS only. n is a multiple of 16, k of 32 (SCALES 2:
//         of 128); x, w and rows of x begin at multiples of 16 bytes, out at multiples of 8.
#include "common.hpp"

namespace ap {

inline constexpr u32 kWaves = BLOCK / kWave;
inline constexpr u32 kTiles = HEIGHT / 16;
inline constexpr u32 kLine = 16;  // bytes of a lane's load
inline constexpr u32 kLoads = 2;  // of each row and block of K: 128 bytes
inline constexpr u32 kLines = 4;  // lines of a row that a wave reads at once
inline constexpr bool kFp8 = same<X, fp8>;
inline constexpr u32 kEach = kFp8 ? 16 : 8;  // elements of a line
using line = vec<u32, 4>;
using elem = C;
using sums = vec<float, 4>;

// Both halves of each lane's lines: K is split among lanes alike for w and x, so that its order does not matter.
AP_INLINE sums multiply(line w, line x, sums sum) {
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    vec<u32, 2> a = {w[2 * half], w[2 * half + 1]}, b = {x[2 * half], x[2 * half + 1]};
    if constexpr (kFp8) {
      sum = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(__builtin_bit_cast(i64, a), __builtin_bit_cast(i64, b), sum, 0,
                                                       0, 0);
    } else if constexpr (same<X, f16>) {
      using four = vec<f16, 4>;
      sum =
          __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(four, a), __builtin_bit_cast(four, b), sum, 0, 0, 0);
    } else {
      using four = vec<short, 4>;
      sum = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(four, a), __builtin_bit_cast(four, b), sum, 0,
                                                      0, 0);
    }
  }
  return sum;
}

}  // namespace ap

// x[g, m, k] with rows x_row bytes apart; w[g, n, k] shuffled; out[g, m, n]. SCALES 1: x_scale[g, m], w_scale[g, n]; 2:
// x_scale[k / 128, m], w_scale[n / 128, k / 128].
AP_KERNEL(BLOCK)
void shuffled_product(ap::elem* __restrict__ out, const ap::u8* __restrict__ x, const ap::u8* __restrict__ w,
                      const float* __restrict__ x_scale, const float* __restrict__ w_scale,
                      const ap::i32* __restrict__ valid, ap::i32 m, ap::i32 n, ap::i32 k, ap::i64 x_row) {
  using namespace ap;
  __shared__ sums shared[kWaves][kTiles][kWave];
  u32 lane = thread_x() % kWave, wave = thread_x() / kWave, column = block_x() * 16;
  u32 first = __builtin_amdgcn_workgroup_id_y() * HEIGHT, group = __builtin_amdgcn_workgroup_id_z();
  i32 rows = m;
  if constexpr (GROUPS) rows = valid[group] < m ? valid[group] : m;
  if (static_cast<i32>(first) >= rows) return;
  u32 lines = static_cast<u32>(k) / kEach, blocks = (lines + kLoads * kLines - 1) / (kLoads * kLines);
  const u8* weight = w + (static_cast<i64>(group) * (n / 16) + block_x()) * lines * (16 * kLine) + (lane % 16) * kLine;
  const u8* input[kTiles];
  u32 mine[kTiles];  // rows that are not there are the last once more, which nothing is made of
#pragma unroll
  for (u32 t = 0; t < kTiles; ++t) {
    u32 row = first + 16 * t + lane % 16;
    mine[t] = row < static_cast<u32>(rows) ? row : static_cast<u32>(rows) - 1;
    input[t] = x + (static_cast<i64>(group) * m + mine[t]) * x_row;
  }
  sums sum[kTiles] = {};
#pragma unroll 2
  for (u32 block = wave; block < blocks; block += kWaves) {
    line a[kLoads], b[kLoads][kTiles];
#pragma unroll
    for (u32 u = 0; u < kLoads; ++u) {
      u32 at = (block * kLoads + u) * kLines + lane / 16;
      bool there = SCALES == 2 || at < lines;
      a[u] =
          there
              ? __builtin_nontemporal_load(reinterpret_cast<const line*>(weight + static_cast<i64>(at) * (16 * kLine)))
              : line{};
#pragma unroll
      for (u32 t = 0; t < kTiles; ++t) b[u][t] = there ? *reinterpret_cast<const line*>(input[t] + at * kLine) : line{};
    }
    float of_weight = 1.0f;
    if constexpr (SCALES == 2) of_weight = w_scale[static_cast<i64>(column / 128) * blocks + block];
#pragma unroll
    for (u32 t = 0; t < kTiles; ++t) {
      if constexpr (SCALES == 2) {
        sums part = {};
#pragma unroll
        for (u32 u = 0; u < kLoads; ++u) part = multiply(a[u], b[u][t], part);
        sum[t] += part * (x_scale[static_cast<i64>(block) * m + mine[t]] * of_weight);
      } else {
#pragma unroll
        for (u32 u = 0; u < kLoads; ++u) sum[t] = multiply(a[u], b[u][t], sum[t]);
      }
    }
  }
#pragma unroll
  for (u32 t = 0; t < kTiles; ++t) shared[wave][t][lane] = sum[t];
  block_sync();
  if (wave >= kTiles) return;
  sums total = shared[0][wave][lane];
#pragma unroll
  for (u32 other = 1; other < kWaves; ++other) total += shared[other][wave][lane];
  // A lane has four columns of one row.
  u32 row = first + 16 * wave + lane % 16, at = column + lane / 16 * 4;
  if (static_cast<i32>(row) >= rows) return;
  if constexpr (SCALES == 1) {
    float by = x_scale[static_cast<i64>(group) * m + row];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) total[i] *= by * w_scale[static_cast<i64>(group) * n + at + i];
  }
  vec<elem, 4> rounded;
#pragma unroll
  for (u32 i = 0; i < 4; ++i) rounded[i] = to_elem<elem>(total[i]);
  elem* to = out + (static_cast<i64>(group) * m + row) * n + at;
  *reinterpret_cast<vec<elem, 4>*>(to) = rounded;
}
