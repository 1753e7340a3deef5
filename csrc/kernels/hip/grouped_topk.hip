// The k experts of a token with the largest scores, of those in its best groups; best first, of equal ones the lowest expert first,
// NaN below all. Groups are as many experts each, one after the other.
//
// A wave has a token, and lane l the experts l, l + 64, ...: their scores stay in registers. A group counts as its best expert, or
// with a bias as the sum of its two best; of equal groups the lowest goes first. Lane g then has what group g counts, and reads how
// many are better. Without a bias ranks are those of the logits, which scores grow with; rounded scores would be equal sooner.
//
// Build:  T        element type of logits and bias
//         PER      experts of a lane; 64 * PER is the most
//         TOKENS   waves of a block
// Launch: grid x = tokens / TOKENS, block x = 64 * TOKENS, no dynamic LDS.
#include "experts.hpp"

namespace ap {

// NaN stands below all numbers, and above what is not there.
AP_INLINE u32 rank_below_of(float x) { return __builtin_isnan(x) ? 1 : rank_of(x); }

AP_INLINE float counted_of(u32 rank) { return rank > 1 ? number_of(rank) : -__builtin_inff(); }

// What a group counts: of its ranks, one lane's each, the largest; or the sum of the two largest, whose second is `next` where both
// are of one lane.
AP_INLINE u32 group_of(u32 best, u32 next, bool pairs) {
  u32 largest = wave_max_of(best);
  if (!pairs) return largest;
  u64 holders = __builtin_amdgcn_ballot_w64(best == largest);
  i32 lane = static_cast<i32>(thread_x()) % kWave;
  u32 second = wave_max_of(lane == __builtin_ctzll(holders) ? next : best);
  return rank_below_of(counted_of(largest) + counted_of(second));
}

// Ranks of the experts of all groups but the `kept` best become 0. `count` experts are a group.
template <int COUNT>
AP_INLINE void keep_best(u32 (&rank)[COUNT], i32 groups, i32 kept, i32 count, bool pairs, i32 lane) {
  u32 group[COUNT];  // half an expert away from a border, further than a reciprocal is off
#pragma unroll
  for (i32 j = 0; j < COUNT; ++j) {
    float place = static_cast<float>(j * kWave + lane) + 0.5f;
    group[j] = static_cast<u32>(place * __builtin_amdgcn_rcpf(static_cast<float>(count)));
  }
  u32 mine = 0;
  for (i32 g = 0; g < groups; ++g) {
    u32 best = 0, next = 0;
#pragma unroll
    for (i32 j = 0; j < COUNT; ++j) {
      u32 here = group[j] == static_cast<u32>(g) ? rank[j] : 0;
      u32 less = here < best ? here : best;
      next = less > next ? less : next;
      best = here > best ? here : best;
    }
    u32 value = group_of(best, next, pairs);
    if (lane == g) mine = value;
  }
  i32 better = 0;
  for (i32 g = 0; g < groups; ++g) {
    u32 other = static_cast<u32>(__builtin_amdgcn_readlane(static_cast<int>(mine), g));
    better += other > mine || (other == mine && g < lane);
  }
  u64 in = __builtin_amdgcn_ballot_w64(better < kept);
#pragma unroll
  for (i32 j = 0; j < COUNT; ++j) rank[j] = in >> (group[j] & 63) & 1 ? rank[j] : 0;
}

}  // namespace ap

// logits[tokens, experts], weights and ids have rows that lie apart; bias[experts] dense, null: none.
AP_KERNEL(64 * TOKENS)
void grouped_topk(float* weights, ap::i32* ids, const ap::T* logits, const ap::T* bias, ap::i32 tokens, ap::i32 experts,
                  ap::i32 k, ap::i64 w_row, ap::i64 i_row, ap::i64 g_row, ap::i32 groups, ap::i32 kept,
                  ap::i32 function, ap::i32 renorm, float factor) {
  using namespace ap;
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
      rank[j] = rank_below_of(score[j]);
      u32 found = rank_of(score[j]);  // a NaN is the row's largest, and the sum NaN then
      best = found > best ? found : best;
    }
  }
  if (function == kSoftmax) {
    softmax_of(score, rank, number_of(wave_max_of(best)));
  } else {
#pragma unroll
    for (i32 j = 0; j < PER; ++j) score[j] = score_of(score[j], kSigmoid);
  }
  if (bias) {
#pragma unroll
    for (i32 j = 0; j < PER; ++j) {
      i32 expert = j * kWave + lane;
      if (expert < experts) rank[j] = rank_below_of(score[j] + static_cast<float>(bias[expert]));
    }
  }
  if (kept < groups) keep_best(rank, groups, kept, experts / groups, bias != nullptr, lane);
  chosen own = choose(rank, score, k, lane);
  if (lane < k) {
    if (renorm) factor /= own.total;
    weights[token * w_row + lane] = own.weight * factor;
    ids[token * i_row + lane] = own.id;
  }
}
