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
//                  2: the same of shared experts with any function and a bias; choices are not numbered
//         NUMBERS_FIRST  1: a score that is NaN is chosen after all numbers, and the weight of a NaN logit is 0
// Launch: grid x = tokens / TOKENS, block x = 64 * TOKENS, no dynamic LDS.
#include "experts.hpp"

#ifndef NUMBERS_FIRST
#define NUMBERS_FIRST 0
#endif

namespace ap {

// The rank of NaN, below that of every number; 0 stands for none.
constexpr u32 kUnordered = 1;

AP_INLINE u32 numbers_first(float x) { return NUMBERS_FIRST && __builtin_isnan(x) ? kUnordered : rank_of(x); }

// As softmax_of, of numbers alone: infinite logits have all of it, and a row without a number has none.
template <int COUNT>
AP_INLINE void softmax_of_numbers(float (&score)[COUNT], const u32 (&rank)[COUNT], float largest) {
  constexpr float smallest = 1e-20f;
  float sum = 0.0f;
#pragma unroll
  for (i32 j = 0; j < COUNT; ++j) {
    float power = score[j] == largest ? 1.0f : exp_of(score[j] - largest);  // inf - inf is NaN
    score[j] = rank[j] > kUnordered ? power : 0.0f;
    sum += score[j];
  }
  sum = wave_sum_of(sum);
  sum = sum < smallest ? smallest : sum;
#pragma unroll
  for (i32 j = 0; j < COUNT; ++j) score[j] /= sum;
}

}  // namespace ap

AP_KERNEL(64 * TOKENS)
#if defined(SHARED) && SHARED == 1
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
#ifdef SHARED
                 float factor, ap::i32 shared) {
#else
                 float factor) {
#endif
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
      rank[j] = numbers_first(score[j]);
    }
    best = rank[j] > best ? rank[j] : best;
  }
  if (function == kSoftmax) {
    float largest = number_of(wave_max_of(best));
    if constexpr (NUMBERS_FIRST) {
      softmax_of_numbers(score, rank, largest);
    } else {
      softmax_of(score, rank, largest);
    }
  } else {
#pragma unroll
    for (i32 j = 0; j < PER; ++j)
      score[j] = NUMBERS_FIRST && rank[j] == kUnordered ? 0.0f : score_of(score[j], function);
  }
  if (bias) {
#pragma unroll
    for (i32 j = 0; j < PER; ++j) {
      i32 expert = j * kWave + lane;
      if (expert < experts && !(NUMBERS_FIRST && rank[j] == kUnordered))
        rank[j] = numbers_first(score[j] + static_cast<float>(bias[expert]));
    }
  }
  chosen own = choose(rank, score, k, lane);
  if (lane < k) {
    constexpr float smallest = 1e-20f;  // the sum of weights, where all of them are nothing
    if (renorm) factor /= own.total < smallest ? smallest : own.total;
    weights[token * w_row + lane] = own.weight * factor;
    ids[token * i_row + lane] = own.id;
#if defined(SHARED) && SHARED == 1
    choices[token * c_row + lane] = lane * tokens + token;
#endif
  }
#ifdef SHARED
  if (lane < shared) weights[token * w_row + k + lane] = score_of(static_cast<float>(logits[experts + lane]), kSigmoid);
#endif
}
