// The gated delta rule, token by token: a state [K, V] for each head of each sequence, in registers from the first token to the last.
//
//   h  = exp(g) * h
//   u  = beta * (v - h^T k)
//   h  = h + k u^T
//   o  = h^T q * scale           fp32, rounded once
//
// With `norm` q and k are over sqrt(sum of squares + 1e-6) first. A token's two products with the state are taken at once, from the
// state before it: h^T q of the new state is exp(g) * (old h)^T q + (k . q) * u.
//
// A wave has all K rows of 8 * C columns: lane l has columns C * (l / 8) to C * (l / 8) + C - 1, and of each 64 rows the eight from
// 8 * (l % 8) on, so that a sum over rows is one over eight neighbouring lanes. While it works on a token the next AHEAD are loaded.
//
// Build:  T = bf16 | f16          element type of q, k, v and o
//         U = f32 | bf16 | f16    of beta
//         I = i64 | i32           of starts
//         C = 1 | 4               columns of a lane
//         CHUNKS = 2 | 4          K <= 64 * CHUNKS
//         AHEAD = 1 | 2 | 4
// Launch: grid (cdiv(V, 8 * C), value heads, sequences), block x = 64. K is a multiple of 8, V of C; rows of q and k begin at 16
// bytes, those of v at C elements, states are contiguous.
#include "delta_rule.hpp"

namespace ap {

using f32 = float;
using beta_t = U;
using start_t = I;

// A lane's number of `held` as all lanes see it.
AP_INLINE float of_lane(float held, i32 lane) {
  return __builtin_bit_cast(float, __builtin_amdgcn_readlane(__builtin_bit_cast(int, held), lane));
}

}  // namespace ap

// q, k [B, tokens, H, K], v, o [B, tokens, HV, V] with strides of sequences, tokens and heads; g f32 and beta
// [B, tokens, HV], initial and final f32 [sequences, HV, K, V] are contiguous; all but beta are null where there are none. starts [sequences + 1]: B is 1 and sequence n has
// the tokens from starts[n] up to starts[n + 1]; null: each of B has them all.
AP_KERNEL(64)
void delta_rule(ap::elem* __restrict__ o, float* __restrict__ last, const ap::elem* __restrict__ q,
                const ap::elem* __restrict__ k, const ap::elem* __restrict__ v, const float* __restrict__ g,
                const ap::beta_t* __restrict__ beta, const float* __restrict__ first,
                const ap::start_t* __restrict__ starts, ap::i32 total, ap::i32 heads, ap::i32 value_heads,
                ap::i32 depth, ap::i32 width, ap::i32 norm, float scale, ap::i64 q_b, ap::i64 q_t, ap::i64 q_h,
                ap::i64 k_b, ap::i64 k_t, ap::i64 k_h, ap::i64 v_b, ap::i64 v_t, ap::i64 v_h) {
  using namespace ap;
  using line = vec<float, C>;
  i64 sequence = block_z();
  i32 head = static_cast<i32>(block_y()), place = static_cast<i32>(thread_x() % 8);
  i32 column = static_cast<i32>((block_x() * 8 + thread_x() / 8) * C);
  bool inside = column < width;
  i32 at = inside ? column : 0;
  i64 batch = starts ? 0 : sequence, begin = 0;
  i32 tokens = total;
  if (starts) {
    begin = starts[sequence];
    i64 end = starts[sequence + 1];
    begin = begin < 0 ? 0 : begin;
    end = end > total ? total : end;
    tokens = end > begin ? static_cast<i32>(end - begin) : 0;
  }
  i64 row = batch * total + begin, group = head / (value_heads / heads);
  rows from;
  from.q = q + batch * q_b + begin * q_t + group * q_h;
  from.k = k + batch * k_b + begin * k_t + group * k_h;
  from.v = v + batch * v_b + begin * v_t + head * v_h + at;
  const float* decay_of = g ? g + row * value_heads + head : nullptr;
  const beta_t* beta_of = beta + row * value_heads + head;
  from.q_t = q_t, from.k_t = k_t, from.v_t = v_t;
  from.depth = depth, from.place = place;
  elem* to = o + (row * value_heads + head) * width + at;
  i64 state = (sequence * value_heads + head) * depth * width + at;
  pair h[C][kPairs] = {};
  if (first) {
    each_row(depth, place, [&](u32 i, i32 r) {
      line found = *reinterpret_cast<const line*>(first + state + static_cast<i64>(r) * width);
#pragma unroll
      for (u32 c = 0; c < C; ++c) h[c][i / 2][i % 2] = found[c];
    });
  }
  token next[AHEAD];
  if (tokens > 0) {
#pragma unroll
    for (i32 j = 0; j < AHEAD; ++j) load(next[j], from, j < tokens ? j : tokens - 1);
  }
  float decays = 1.0f, betas = 0.0f;  // of 64 tokens, one in each lane
  auto gates = [&](i32 t) {
    if (t % kWave != 0) return;
    i32 own = t + static_cast<i32>(thread_x());
    own = own < tokens ? own : tokens - 1;
    betas = static_cast<float>(beta_of[static_cast<i64>(own) * value_heads]);
    if (decay_of) decays = exp_of(decay_of[static_cast<i64>(own) * value_heads]);
  };
  auto take = [&](const token& now, i32 t) {
    columns out = step(h, now, from, of_lane(decays, t % kWave), of_lane(betas, t % kWave), scale, norm != 0);
    if (inside && place == 0) *reinterpret_cast<columns*>(to + static_cast<i64>(t) * value_heads * width) = out;
  };
  i32 t = 0;
  for (; t + AHEAD <= tokens; t += AHEAD) {
    gates(t);
#pragma unroll
    for (i32 j = 0; j < AHEAD; ++j) {
      token now = next[j];
      i32 later = t + j + AHEAD;
      load(next[j], from, later < tokens ? later : tokens - 1);
      take(now, t + j);
    }
  }
  if (t < tokens) gates(t);
#pragma unroll
  for (i32 j = 0; j < AHEAD - 1; ++j) {
    if (t + j < tokens) take(next[j], t + j);
  }
  if (last && inside) {
    each_row(depth, place, [&](u32 i, i32 r) {
      line found;
#pragma unroll
      for (u32 c = 0; c < C; ++c) found[c] = h[c][i / 2][i % 2];
      *reinterpret_cast<line*>(last + state + static_cast<i64>(r) * width) = found;
    });
  }
}
