// RMSNorm of each head of queries and keys, and rotary embedding of the whole head, of one stream of tokens or of two that come one
// behind the other in each sequence, in one launch.
//
// Of a head x: x * rsqrt(mean(x^2) + epsilon) * weight; then of each pair x' = x * cos - y * sin, y' = y * cos + x * sin; all in fp32,
// rounded once. A token's row of the table is that of its place in its stream.
//
// Build:  T = bf16 | f16           element type of heads and weights
//         F = T | f32              type of the tables
//         LANES = 8 | 16 | 32      lanes of a head of 8 * LANES elements; all tensors 16-byte aligned
//               = 64               any even size of a head up to 512, any address
// Launch: grid x = cdiv(batch * (tokens_0 + tokens_1) * (heads_q + heads_k), 256 / LANES); block x = 256.
#include "rope_head.hpp"

namespace ap {

using f32 = float;
using entry = F;

// A row: cosines of all pairs, then sines.
AP_INLINE void turn_head(const share& own, float* e, const entry* row) {
  if constexpr (kAny) {
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
      u32 p = own.pair + j * kWave;
      if (p >= own.half) continue;
      float c = static_cast<float>(row[p]), s = static_cast<float>(row[own.half + p]);
      turn(e[j], e[4 + j], c, s, c, s);
    }
  } else {
    vec<entry, 4> cos = *reinterpret_cast<const vec<entry, 4>*>(row + own.pair);
    vec<entry, 4> sin = *reinterpret_cast<const vec<entry, 4>*>(row + own.half + own.pair);
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
      float c = static_cast<float>(cos[j]), s = static_cast<float>(sin[j]);
      if (own.split)
        turn(e[j], e[4 + j], c, s, c, s);
      else
        turn(e[2 * j], e[2 * j + 1], c, s, c, s);
    }
  }
}

}  // namespace ap

// Queries and keys [batch, tokens, heads, size] of each stream; both results have tokens_0 + tokens_1 tokens a sequence.
AP_KERNEL(256)
void norm_rope(const ap::u16* __restrict__ q_0, const ap::u16* __restrict__ k_0, const ap::u16* __restrict__ q_1,
               const ap::u16* __restrict__ k_1, const ap::u16* __restrict__ q_weight_0,
               const ap::u16* __restrict__ k_weight_0, const ap::u16* __restrict__ q_weight_1,
               const ap::u16* __restrict__ k_weight_1, const ap::entry* __restrict__ table_0,
               const ap::entry* __restrict__ table_1, ap::u16* __restrict__ q_out, ap::u16* __restrict__ k_out,
               ap::i32 batch, ap::i32 tokens_0, ap::i32 tokens_1, ap::i32 heads_q, ap::i32 heads_k, ap::i32 size,
               ap::i32 neox, float epsilon) {
  using namespace ap;
  u32 heads = static_cast<u32>(heads_q + heads_k), tokens = static_cast<u32>(tokens_0 + tokens_1);
  u32 place = block_x() * (256 / kLanes) + thread_x() / kLanes;
  u32 token = place / heads;
  if (token >= static_cast<u32>(batch) * tokens) return;
  u32 head = place - token * heads;
  bool query = head < static_cast<u32>(heads_q);
  head -= query ? 0 : static_cast<u32>(heads_q);
  u32 of_kind = static_cast<u32>(query ? heads_q : heads_k);

  u32 sequence = token / tokens, at = token - sequence * tokens;
  bool second = at >= static_cast<u32>(tokens_0);
  at -= second ? static_cast<u32>(tokens_0) : 0;
  u32 row = sequence * static_cast<u32>(second ? tokens_1 : tokens_0) + at;
  const u16* in = second ? (query ? q_1 : k_1) : (query ? q_0 : k_0);
  const u16* weight = second ? (query ? q_weight_1 : k_weight_1) : (query ? q_weight_0 : k_weight_0);
  u32 half = static_cast<u32>(size) / 2;
  share own = share_of(thread_x() % kLanes, half, static_cast<u32>(size), true, neox != 0);

  float e[8], w[8];
  load(in + (static_cast<i64>(row) * of_kind + head) * size, own, e);
  load(weight, own, w);
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += e[i] * e[i];
  sum = over_head(sum, [](float a, float b) { return a + b; });
  float root = __builtin_amdgcn_rsqf(sum / static_cast<float>(size) + epsilon);
#pragma unroll
  for (int i = 0; i < 8; ++i) e[i] = e[i] * root * w[i];
  turn_head(own, e, (second ? table_1 : table_0) + static_cast<i64>(at) * size);
  store((query ? q_out : k_out) + (static_cast<i64>(token) * of_kind + head) * size, own, e);
}
