// RMSNorm and rotary embedding of one head of a token, by the lanes that hold it (rope_head.hpp).
#pragma once
#include "rope_head.hpp"

namespace ap {

// Weights of norms; rows of the table have `half` cosines, then as many sines.
struct turning {
  const u16 *q_weight, *k_weight, *table;
  const i64* positions;
  u32 half, size;
  bool neox;
  i32 max_position;
  float epsilon;
};

// A lane's elements of the head at `in`: x * rsqrt(mean(x^2) + epsilon) * weight, of which the first 2 * half are turned.
AP_INLINE void turned_head(float (&e)[8], const share& own, const u16* in, const u16* weight, u32 token,
                           const turning& by) {
  float w[8], sum = 0.0f;
  load(in, own, e);
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += e[i] * e[i];
  sum = over_head(sum, [](float a, float b) { return a + b; });
  float root = __builtin_amdgcn_rsqf(sum / static_cast<float>(by.size) + by.epsilon);
  load(weight, own, w);
#pragma unroll
  for (int i = 0; i < 8; ++i) e[i] = e[i] * root * w[i];
  i64 position = by.positions[token];
  position = position < 0 ? 0 : position >= by.max_position ? by.max_position - 1 : position;
  const u16* cos = by.table + position * (2 * by.half);
#pragma unroll
  for (u32 j = 0; j < 4; ++j) {
    u32 p = kAny ? own.pair + j * kWave : own.pair + j;
    if (p >= own.half) continue;
    float c = as_float(cos[p]), s = as_float(cos[p + own.half]);
    if (own.split)
      turn(e[j], e[4 + j], c, s, c, s);
    else
      turn(e[2 * j], e[2 * j + 1], c, s, c, s);
  }
}

// The head is overwritten. Largest size of the lane's elements; NaN is left out.
AP_INLINE float turn_in_place(u16* head, const u16* weight, u32 token, const turning& by) {
  share own = share_of(thread_x() % kLanes, by.half, by.size, true, by.neox);
  float e[8], amax = 0.0f;
  turned_head(e, own, head, weight, token, by);
  store(head, own, e);
#pragma unroll
  for (int i = 0; i < 8; ++i) amax = max_num(amax, abs_f(e[i]));
  return amax;
}

}  // namespace ap
