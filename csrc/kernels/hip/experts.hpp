// What the kernels share that choose experts: numbers as ranks, reductions over a wave, scores of logits.
#pragma once
#include "common.hpp"

namespace ap {

using f32 = float;

enum : i32 { kSoftmax, kSigmoid, kSqrtSoftplus };

// As large as the number is, in unsigned order; NaN above all. No number gives 0, which stands for none.
AP_INLINE u32 rank_of(float x) {
  u32 bits = __builtin_bit_cast(u32, x);
  if (x == 0.0f) bits = 0;
  u32 rank = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return __builtin_isnan(x) ? 0xffffffffu : rank;
}

template <int CTRL, int ROWS>
AP_INLINE u32 dpp_max_of(u32 x) {
  u32 moved = static_cast<u32>(__builtin_amdgcn_update_dpp(0, static_cast<int>(x), CTRL, ROWS, 0xf, false));
  return x > moved ? x : moved;
}

// Largest of 64 lanes, in a scalar register. Lanes that a DPP step leaves out read 0, the identity.
AP_INLINE u32 wave_max_of(u32 x) {
  x = dpp_max_of<0x111, 0xf>(x);  // row_shr:1
  x = dpp_max_of<0x112, 0xf>(x);  // row_shr:2
  x = dpp_max_of<0x114, 0xf>(x);  // row_shr:4
  x = dpp_max_of<0x118, 0xf>(x);  // row_shr:8   lane 15 of each row of 16 holds its row
  x = dpp_max_of<0x142, 0xa>(x);  // row_bcast:15 into rows 1 and 3
  x = dpp_max_of<0x143, 0xc>(x);  // row_bcast:31 into rows 2 and 3
  return static_cast<u32>(__builtin_amdgcn_readlane(static_cast<int>(x), 63));
}

template <int CTRL, int ROWS>
AP_INLINE float dpp_add_of(float x) {
  int moved = __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x), CTRL, ROWS, 0xf, false);
  return x + __builtin_bit_cast(float, moved);
}

AP_INLINE float wave_sum_of(float x) {
  x = dpp_add_of<0x111, 0xf>(x);
  x = dpp_add_of<0x112, 0xf>(x);
  x = dpp_add_of<0x114, 0xf>(x);
  x = dpp_add_of<0x118, 0xf>(x);
  x = dpp_add_of<0x142, 0xa>(x);
  x = dpp_add_of<0x143, 0xc>(x);
  return __builtin_bit_cast(float, __builtin_amdgcn_readlane(__builtin_bit_cast(int, x), 63));
}

// exp(x) as 2^(high + low), high + low = x / ln 2 to twice the bits: rounded once, the argument would lose a bit of the result for
// each power of two that it is large. Past the clamps the result is 0 or infinite anyway, and low would be a NaN.
AP_INLINE float exp_of(float x) {
  constexpr float log2e = 1.44269504f, rest = 1.92596299e-8f, ln2 = 0.693147181f;
  x = clamp_keep_nan(x, -200.0f, 100.0f);
  float high = x * log2e;
  float low = __builtin_fmaf(x, rest, __builtin_fmaf(x, log2e, -high));
  return __builtin_amdgcn_exp2f(high) * __builtin_fmaf(low, ln2, 1.0f);
}

// log(1 + exp(x)): x itself where the 1 is lost; a series where exp(x) would be lost beside the 1.
AP_INLINE float softplus(float x) {
  constexpr float ln2 = 0.693147181f;
  float e = exp_of(x < 20.0f ? x : 20.0f);
  float series = e * (1.0f + e * (-1.0f / 2 + e * (1.0f / 3 + e * (-1.0f / 4 + e * (1.0f / 5 + e * (-1.0f / 6))))));
  float u = 1.0f + e;
  float whole = __builtin_amdgcn_logf(u) * ln2 + (e - (u - 1.0f)) / u;
  float small = e < 0.0625f ? series : whole;
  return x > 20.0f || __builtin_isnan(x) ? x : small;
}

AP_INLINE float score_of(float x, i32 function) {
  if (function == kSigmoid) return 1.0f / (1.0f + exp_of(-x));
  constexpr float largest = 3.40282347e38f;  // an infinite score would leave nothing of the others
  return __builtin_sqrtf(softplus(x == __builtin_inff() ? largest : x));
}

// What a lane has of its wave's choice: the weight and the expert of the round that is its number, and the sum of all weights.
struct chosen {
  float weight, total;
  i32 id;
};

// The k experts of the largest ranks, of equal ones the lowest first; expert j * 64 + lane is lane's j-th. Each round is two
// reductions over the wave. At least k ranks are not 0; those of what is chosen are 0 afterwards.
template <int COUNT>
AP_INLINE chosen choose(u32 (&rank)[COUNT], const float (&score)[COUNT], i32 k, i32 lane) {
  chosen own = {0.0f, 0.0f, 0};
  for (i32 round = 0; round < k; ++round) {
    u32 best = 0, place = 0;
#pragma unroll
    for (i32 j = 0; j < COUNT; ++j) {
      place = rank[j] > best ? j : place;
      best = rank[j] > best ? rank[j] : best;
    }
    u32 largest = wave_max_of(best);
    u32 first = ~wave_max_of(best == largest ? ~(place * kWave + static_cast<u32>(lane)) : 0);
    float mine = 0.0f;
#pragma unroll
    for (u32 j = 0; j < COUNT; ++j) {
      if (first != j * kWave + static_cast<u32>(lane)) continue;
      mine = score[j];
      rank[j] = 0;
    }
    float taken = __builtin_bit_cast(float, __builtin_amdgcn_readlane(__builtin_bit_cast(int, mine), first % kWave));
    own.total += taken;
    if (lane == round) {
      own.weight = taken;
      own.id = static_cast<i32>(first);
    }
  }
  return own;
}

// Scores of a softmax: powers of what stands in `score`, of `largest` 1, over their sum. Ranks of 0 have none.
template <int COUNT>
AP_INLINE void softmax_of(float (&score)[COUNT], const u32 (&rank)[COUNT], float largest) {
  float sum = 0.0f;
#pragma unroll
  for (i32 j = 0; j < COUNT; ++j) {
    score[j] = rank[j] ? exp_of(score[j] - largest) : 0.0f;
    sum += score[j];
  }
  sum = wave_sum_of(sum);
#pragma unroll
  for (i32 j = 0; j < COUNT; ++j) score[j] /= sum;
}

// The number that has this rank.
AP_INLINE float number_of(u32 rank) {
  return __builtin_bit_cast(float, rank & 0x80000000u ? rank & 0x7fffffffu : ~rank);
}

}  // namespace ap
