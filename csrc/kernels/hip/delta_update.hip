// The gated delta rule of one token or a few, behind states in a pool that are read and written in place: a server's decode step.
//
//   h  = exp(g) * h,  u = beta * (v - h^T k),  h = h + k u^T,  o = h^T q * scale        fp32, rounded once
//
// A sequence has a row of `places` slots in the pool. It begins with the state in the first of them, or in that of the last token
// that was accepted of those before, and leaves the state behind token t in slot t; a row that is shorter keeps in its last slot the
// state behind the last token. So what is drafted in vain is dropped by counting what was accepted.
//
// A wave has all K rows of 8 * C columns (delta_rule.hip says how they lie in lanes), reads them once and writes them once a token.
//
// Build:  T = bf16 | f16          element type of q, k, v and o
//         U = f32 | bf16 | f16    of beta; with GATES of the bias
//         I = i64 | i32           of starts
//         C = 1 | 4, CHUNKS = 2 | 4
//         GATES = 0               g (f32) and beta are given
//         GATES = 1               g = -exp(a_log) * softplus(a + bias), beta = 1 / (1 + exp(-b)) of a and b, of type T
// Launch: grid (cdiv(V, 8 * C), value heads, sequences), block x = 64. K is a multiple of 8, V of C; rows of q, k and states begin at
// 16 bytes, those of v at C elements.
#include "delta_rule.hpp"

namespace ap {

using f32 = float;
using start_t = I;
#if GATES
using decay_in = elem;
using beta_in = elem;
using bias_t = U;
#else
using decay_in = float;
using beta_in = U;
#endif

struct gates {
  float decay, beta;
};

// A head's part of a state between memory and registers, for this lane: V numbers of a row side by side, or K of a column.
template <bool WRITE>
AP_INLINE void move_state(pair (&h)[C][kPairs], float* at, i32 depth, i32 width, i32 place, bool by_column) {
  using line = vec<float, C>;
  using quad = vec<float, 4>;
#pragma unroll
  for (u32 chunk = 0; chunk < CHUNKS; ++chunk) {
    i32 row = (static_cast<i32>(chunk) * 8 + place) * static_cast<i32>(kVec);
    if (row >= depth) continue;
    if (by_column) {
#pragma unroll
      for (u32 i = 0; i < 2 * C; ++i) {
        auto* p = reinterpret_cast<quad*>(at + static_cast<i64>(i / 2) * depth + row + i % 2 * 4);
        pair *low = &h[i / 2][(chunk * kVec + i % 2 * 4) / 2], *high = low + 1;
        if constexpr (WRITE) {
          *p = quad{(*low)[0], (*low)[1], (*high)[0], (*high)[1]};
        } else {
          quad found = *p;
          *low = pair{found[0], found[1]}, *high = pair{found[2], found[3]};
        }
      }
    } else {
#pragma unroll
      for (u32 j = 0; j < kVec; ++j) {
        u32 i = chunk * kVec + j;
        auto* p = reinterpret_cast<line*>(at + static_cast<i64>(row + static_cast<i32>(j)) * width);
        line own;
        if constexpr (!WRITE) own = *p;
#pragma unroll
        for (u32 c = 0; c < C; ++c) {
          if constexpr (WRITE)
            own[c] = h[c][i / 2][i % 2];
          else
            h[c][i / 2][i % 2] = own[c];
        }
        if constexpr (WRITE) *p = own;
      }
    }
  }
}

}  // namespace ap

// q, k [B, tokens, H, K], v, o [B, tokens, HV, V]; g and beta [B * tokens, HV], rows g_t and b_t elements apart (beta null: 1);
// states f32 [slots, HV, K, V], or [slots, HV, V, K] `by_column`, s_n elements apart; slot_of [sequences, places], accepted
// [sequences] or null; starts as of delta_rule. A sequence of a slot that there is not is left alone; with GATES it begins with
// zeros, and its state is dropped.
AP_KERNEL(64)
void delta_update(ap::elem* __restrict__ o, float* __restrict__ states, const ap::elem* __restrict__ q,
                  const ap::elem* __restrict__ k, const ap::elem* __restrict__ v, const ap::decay_in* __restrict__ g,
                  const ap::beta_in* __restrict__ beta,
#if GATES
                  const float* __restrict__ a_log, const ap::bias_t* __restrict__ bias, float slope, float threshold,
#endif
                  const ap::i32* __restrict__ slot_of, const ap::i32* __restrict__ accepted,
                  const ap::start_t* __restrict__ starts, ap::i32 total, ap::i32 heads, ap::i32 value_heads,
                  ap::i32 depth, ap::i32 width, ap::i32 slots, ap::i32 places, ap::i32 by_column, ap::i32 norm,
                  float scale, ap::i64 q_b, ap::i64 q_t, ap::i64 q_h, ap::i64 k_b, ap::i64 k_t, ap::i64 k_h,
                  ap::i64 v_b, ap::i64 v_t, ap::i64 v_h, ap::i64 g_t, ap::i64 b_t, ap::i64 s_n, ap::i64 slot_n,
                  ap::i64 slot_t) {
  using namespace ap;
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
  if (tokens == 0) return;
  i32 first = accepted ? accepted[sequence] - 1 : 0;
  first = first < 0 ? 0 : first >= places ? places - 1 : first;
  const i32* own_slots = slot_of + sequence * slot_n;
  i32 slot = own_slots[first * slot_t];
  bool held = slot >= 0 && slot < slots;
  if (!GATES && !held) return;
  i64 row = batch * total + begin, group = head / (value_heads / heads);
  rows from;
  from.q = q + batch * q_b + begin * q_t + group * q_h;
  from.k = k + batch * k_b + begin * k_t + group * k_h;
  from.v = v + batch * v_b + begin * v_t + head * v_h + at;
  from.q_t = q_t, from.k_t = k_t, from.v_t = v_t;
  from.depth = depth, from.place = place;
  const decay_in* decay_of = g + row * g_t + head;
  const beta_in* beta_of = beta ? beta + row * b_t + head : nullptr;
  elem* to = o + (row * value_heads + head) * width + at;
  float* pool = states + static_cast<i64>(head) * depth * width + (by_column ? static_cast<i64>(at) * depth : at);
  token next;
  load(next, from, 0);
  pair h[C][kPairs] = {};
  if (held) move_state<false>(h, pool + slot * s_n, depth, width, place, by_column != 0);
  for (i32 t = 0; t < tokens; ++t) {
    gates now;
#if GATES
    float x = static_cast<float>(decay_of[t * g_t]) + static_cast<float>(bias[head]), y = slope * x;
    now.decay = exp_of(-exp_of(a_log[head]) * (y <= threshold ? log1p_exp(y) / slope : x));
    now.beta = __builtin_amdgcn_rcpf(1.0f + exp_of(-static_cast<float>(beta_of[t * b_t])));
#else
    now.decay = exp_of(decay_of[t * g_t]);
    now.beta = beta_of ? static_cast<float>(beta_of[t * b_t]) : 1.0f;
#endif
    token current = next;
    if (t + 1 < tokens) load(next, from, t + 1);
    columns out = step(h, current, from, now.decay, now.beta, scale, norm != 0);
    if (inside && place == 0) *reinterpret_cast<columns*>(to + static_cast<i64>(t) * value_heads * width) = out;
    if (t + 1 < places || t + 1 == tokens) {
      i32 into = own_slots[(t < places ? t : places - 1) * slot_t];
      if (inside && into >= 0 && into < slots)
        move_state<true>(h, pool + into * s_n, depth, width, place, by_column != 0);
    }
  }
}
