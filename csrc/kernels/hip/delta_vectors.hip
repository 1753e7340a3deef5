// The gated delta rule, token by token, with decays of rows and of columns of the state, and states of 16 bits.
//
//   h = exp(g) * exp(gk) * exp(gv) * h       of row i and column j: gk[i], gv[j]
//
// then as delta_rule.hip says, which is for g alone; beta is 1 where there is none. A wave has all K rows of 8 columns: lane l has column
// l / 8, and of each 64 rows the eight from 8 * (l % 8) on. While it works on a token the next one is loaded.
//
// Build:  T = bf16 | f16          element type of q, k, v and o
//         U = f32                 of beta
//         S = f32 | bf16          of the first states; the last ones are fp32
//         I = i64 | i32           of starts
//         CHUNKS = 2 | 4          K <= 64 * CHUNKS
// Launch: grid (cdiv(V, 8), value heads, sequences), block x = 64. K is a multiple of 8; rows of q and k begin at 16 bytes, gk and gv too;
// those and the states are contiguous.
#include "delta_rule.hpp"

namespace ap {

using f32 = float;
using beta_t = U;
using state_t = S;
using start_t = I;

// What a token has beside q, k and v; logarithms of decays.
struct weights {
  vec<float, 4> gk[CHUNKS][2];
  float g, gv, beta;
};

// Where they are of a head, with distances of tokens; null: there are none.
struct sources {
  const float *g, *gk, *gv;
  const beta_t* beta;
  i64 heads, depth, width;
};

AP_INLINE void load(weights& to, const sources& from, const rows& of, i32 t) {
  to.g = from.g ? from.g[t * from.heads] : 0.0f;
  to.gv = from.gv ? from.gv[t * from.heads * from.width] : 0.0f;
  to.beta = from.beta ? static_cast<float>(from.beta[t * from.heads]) : 1.0f;
#pragma unroll
  for (u32 c = 0; c < CHUNKS; ++c) {
    i32 row = of.row(c) < of.depth ? of.row(c) : 0;
    const float* at = from.gk + t * from.heads * from.depth + row;
#pragma unroll
    for (u32 j = 0; j < 2; ++j) to.gk[c][j] = from.gk ? *reinterpret_cast<const vec<float, 4>*>(at + 4 * j) : 0.0f;
  }
}

}  // namespace ap

// As delta_rule, with gk f32 [B, tokens, HV, K] and gv f32 [B, tokens, HV, V], contiguous; all of g, gk, gv, beta are null where there are none.
AP_KERNEL(64)
void delta_vectors(ap::elem* __restrict__ o, float* __restrict__ last, const ap::elem* __restrict__ q,
                   const ap::elem* __restrict__ k, const ap::elem* __restrict__ v, const float* __restrict__ g,
                   const float* __restrict__ gk, const float* __restrict__ gv, const ap::beta_t* __restrict__ beta,
                   const ap::state_t* __restrict__ first, const ap::start_t* __restrict__ starts, ap::i32 total,
                   ap::i32 heads, ap::i32 value_heads, ap::i32 depth, ap::i32 width, ap::i32 norm, float scale,
                   ap::i64 q_b, ap::i64 q_t, ap::i64 q_h, ap::i64 k_b, ap::i64 k_t, ap::i64 k_h, ap::i64 v_b,
                   ap::i64 v_t, ap::i64 v_h) {
  using namespace ap;
  i64 sequence = block_z();
  i32 head = static_cast<i32>(block_y()), place = static_cast<i32>(thread_x() % 8);
  i32 column = static_cast<i32>(block_x() * 8 + thread_x() / 8);
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
  i64 row = (batch * total + begin) * value_heads + head, group = head / (value_heads / heads);
  rows from;
  from.q = q + batch * q_b + begin * q_t + group * q_h;
  from.k = k + batch * k_b + begin * k_t + group * k_h;
  from.v = v + batch * v_b + begin * v_t + head * v_h + at;
  from.q_t = q_t, from.k_t = k_t, from.v_t = v_t;
  from.depth = depth, from.place = place;
  sources more;
  more.g = g ? g + row : nullptr;
  more.gk = gk ? gk + row * depth : nullptr;
  more.gv = gv ? gv + row * width + at : nullptr;
  more.beta = beta ? beta + row : nullptr;
  more.heads = value_heads, more.depth = depth, more.width = width;
  elem* to = o + row * width + at;
  i64 state = (sequence * value_heads + head) * depth * width + at;
  pair h[1][kPairs] = {};
  if (first) {
    each_row(depth, place, [&](u32 i, i32 r) {
      h[0][i / 2][i % 2] = static_cast<float>(first[state + static_cast<i64>(r) * width]);
    });
  }
  token next;
  weights after;
  if (tokens > 0) {
    load(next, from, 0);
    load(after, more, from, 0);
  }
  for (i32 t = 0; t < tokens; ++t) {
    token now = next;
    weights own = after;
    i32 later = t + 1 < tokens ? t + 1 : t;
    load(next, from, later);
    load(after, more, from, later);
    float whole = exp_of(own.g) * exp_of(own.gv);
#pragma unroll
    for (u32 i = 0; i < kPairs; ++i) {
      u32 c = 2 * i / kVec, j = 2 * i % kVec;
      pair keep = pair{exp_of(own.gk[c][j / 4][j % 4]), exp_of(own.gk[c][j / 4][j % 4 + 1])};
      h[0][i] = h[0][i] * keep * both(whole);
    }
    columns out = step(h, now, from, 1.0f, own.beta, scale, norm != 0);
    if (inside && place == 0) *reinterpret_cast<columns*>(to + static_cast<i64>(t) * value_heads * width) = out;
  }
  if (last && inside) {
    each_row(depth, place, [&](u32 i, i32 r) { last[state + static_cast<i64>(r) * width] = h[0][i / 2][i % 2]; });
  }
}
