// The k experts of a token with the largest scores, best first; of equal ones the lowest expert first, NaN above all.
//
// A wave has a token, and lane l the experts l, l + 64, ...: their scores stay in registers. Each round finds the best of
// what is left in two reductions over the wave, of its rank and of its expert. Without a bias ranks are those of the logits,
// which scores grow with; rounded scores would be equal sooner.
//
// Build:  T, B     element types of logits and bias
//         PER      experts of a lane; 64 * PER is the most
//         TOKENS   waves of a block
//         SHARED   1: softmax alone, without a bias (and B); the logits of experts that every token takes stand behind those of
//                  the others, and their sigmoids are written behind the k weights; choices are numbered
// Launch: grid x = tokens / TOKENS, block x = 64 * TOKENS, no dynamic LDS.
#include "common.hpp"

namespace ap {

using f32 = float;

inline constexpr float kLog2e = 1.44269504f, kLn2 = 0.693147181f;

enum : i32 { kSoftmax, kSigmoid, kSqrtSoftplus };

// As large as the number is, in unsigned order. No number gives 0, which stands for none.
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

AP_INLINE float exp_of(float x) { return __builtin_amdgcn_exp2f(x * kLog2e); }

// log(1 + exp(x)): x itself where the 1 is lost; a series where exp(x) would be lost beside the 1.
AP_INLINE float softplus(float x) {
  float e = exp_of(x < 20.0f ? x : 20.0f);
  float series = e * (1.0f + e * (-1.0f / 2 + e * (1.0f / 3 + e * (-1.0f / 4 + e * (1.0f / 5 + e * (-1.0f / 6))))));
  float u = 1.0f + e;
  float whole = __builtin_amdgcn_logf(u) * kLn2 + (e - (u - 1.0f)) / u;
  float small = e < 0.0625f ? series : whole;
  return x > 20.0f || __builtin_isnan(x) ? x : small;
}

AP_INLINE float score_of(float x, i32 function) {
  if (function == kSigmoid) return 1.0f / (1.0f + exp_of(-x));
  constexpr float largest = 3.40282347e38f;  // an infinite score would leave nothing of the others
  return __builtin_sqrtf(softplus(x == __builtin_inff() ? largest : x));
}

}  // namespace ap

AP_KERNEL(64 * TOKENS)
#ifdef SHARED
void topk_gating(float* weights, ap::i32* ids, ap::i32* choices, const ap::T* logits, ap::i32 tokens, ap::i32 experts,
                 ap::i32 k, ap::i64 w_row, ap::i64 i_row, ap::i64 c_row, ap::i64 g_row, ap::i32 renorm,
                 ap::i32 shared) {
  using namespace ap;
  constexpr i32 function = kSoftmax;
  const float* bias = nullptr;
  float factor = 1.0f;
#else
void topk_gating(float* weights, ap::i32* ids, const ap::T* logits, const ap::B* bias, ap::i32 tokens, ap::i32 experts,
                 ap::i32 k, ap::i64 w_row, ap::i64 i_row, ap::i64 g_row, ap::i32 function, ap::i32 renorm,
                 float factor) {
  using namespace ap;
#endif
  i32 lane = static_cast<i32>(thread_x()) % kWave;
  i32 token = __builtin_amdgcn_readfirstlane(static_cast<i32>(block_x() * TOKENS + thread_x() / kWave));
  if (token >= tokens) return;
  logits += token * g_row;
  float score[PER];
  u32 rank[PER];
  u32 best = 0;
#pragma unroll
  for (i32 j = 0; j < PER; ++j) {
    i32 expert = j * kWave + lane;
    rank[j] = 0;
    score[j] = 0.0f;
    if (expert < experts) {
      score[j] = static_cast<float>(logits[expert]);
      rank[j] = rank_of(score[j]);
    }
    best = rank[j] > best ? rank[j] : best;
  }
  if (function == kSoftmax) {
    u32 found = wave_max_of(best);
    float largest = __builtin_bit_cast(float, found & 0x80000000u ? found & 0x7fffffffu : ~found);
    float sum = 0.0f;
#pragma unroll
    for (i32 j = 0; j < PER; ++j) {
      score[j] = rank[j] ? exp_of(score[j] - largest) : 0.0f;
      sum += score[j];
    }
    sum = wave_sum_of(sum);
#pragma unroll
    for (i32 j = 0; j < PER; ++j) score[j] /= sum;
  } else {
#pragma unroll
    for (i32 j = 0; j < PER; ++j) score[j] = score_of(score[j], function);
  }
  if (bias) {
#pragma unroll
    for (i32 j = 0; j < PER; ++j) {
      i32 expert = j * kWave + lane;
      if (expert < experts) rank[j] = rank_of(score[j] + static_cast<float>(bias[expert]));
    }
  }
  float total = 0.0f, weight = 0.0f;
  i32 id = 0;
  for (i32 round = 0; round < k; ++round) {
    u32 own = 0, place = 0;
#pragma unroll
    for (i32 j = 0; j < PER; ++j) {
      place = rank[j] > own ? j : place;
      own = rank[j] > own ? rank[j] : own;
    }
    u32 largest = wave_max_of(own);
    u32 first = ~wave_max_of(own == largest ? ~(place * kWave + static_cast<u32>(lane)) : 0);
    float mine = 0.0f;
#pragma unroll
    for (u32 j = 0; j < PER; ++j) {
      if (first != j * kWave + static_cast<u32>(lane)) continue;
      mine = score[j];
      rank[j] = 0;
    }
    float taken = __builtin_bit_cast(float, __builtin_amdgcn_readlane(__builtin_bit_cast(int, mine), first % kWave));
    total += taken;
    if (lane == round) {
      weight = taken;
      id = static_cast<i32>(first);
    }
  }
  if (lane < k) {
    constexpr float smallest = 1e-20f;  // the sum of weights, where all of them are nothing
    if (renorm) factor /= total < smallest ? smallest : total;
    weights[token * w_row + lane] = weight * factor;
    ids[token * i_row + lane] = id;
#ifdef SHARED
    choices[token * c_row + lane] = lane * tokens + token;
#endif
  }
#ifdef SHARED
  if (lane < shared) weights[token * w_row + k + lane] = score_of(static_cast<float>(logits[experts + lane]), kSigmoid);
#endif
}
