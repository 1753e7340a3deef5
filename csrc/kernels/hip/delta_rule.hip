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
#include "common.hpp"

namespace ap {

using f32 = float;
using elem = T;
using beta_t = U;
using start_t = I;
using pack = vec<elem, kVec>;
using columns = vec<elem, C>;
using pair = vec<float, 2>;

inline constexpr u32 kPairs = CHUNKS * kVec / 2;  // pairs of rows of a lane

AP_INLINE u32 block_y() { return __builtin_amdgcn_workgroup_id_y(); }
AP_INLINE u32 block_z() { return __builtin_amdgcn_workgroup_id_z(); }

template <int CTRL>
AP_INLINE float moved(float x) {
  return __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x), CTRL, 0xf, 0xf, true));
}

// The sum over the eight lanes that have the rows of a column, in each of them.
AP_INLINE float over_rows(float x) {
  x += moved<0xb1>(x);         // quad_perm [1, 0, 3, 2]
  x += moved<0x4e>(x);         // quad_perm [2, 3, 0, 1]
  return x + moved<0x141>(x);  // row_half_mirror: the other four of eight
}

AP_INLINE float sum(pair x) { return over_rows(x[0] + x[1]); }
AP_INLINE pair both(float x) { return pair{x, x}; }
AP_INLINE pair fma2(pair a, pair b, pair c) { return __builtin_elementwise_fma(a, b, c); }
AP_INLINE float exp_of(float x) { return __builtin_amdgcn_exp2f(x * 1.44269504088896341f); }

struct token {
  pack q[CHUNKS], k[CHUNKS];
  columns v;
};

struct rows {  // of one sequence and head, at its first token; distances of tokens
  const elem *q, *k, *v;
  const float* g;
  const beta_t* beta;
  i64 q_t, k_t, v_t, gate_t;
  i32 depth, place;  // K, the lane's place among eight

  // The lane's first row of 64.
  __device__ __attribute__((always_inline)) i32 row(u32 chunk) const {
    return (static_cast<i32>(chunk) * 8 + place) * static_cast<i32>(kVec);
  }
};

// A lane past the last row or column reads what is there; its rows count as 0 where they are used, so that no load is waited for here.
AP_INLINE void load(token& to, const rows& from, i32 t) {
  const elem *q = from.q + t * from.q_t, *k = from.k + t * from.k_t;
#pragma unroll
  for (u32 c = 0; c < CHUNKS; ++c) {
    i32 row = from.row(c) < from.depth ? from.row(c) : 0;
    to.q[c] = *reinterpret_cast<const pack*>(q + row);
    to.k[c] = *reinterpret_cast<const pack*>(k + row);
  }
  to.v = *reinterpret_cast<const columns*>(from.v + t * from.v_t);
}

// A lane's number of `held` as all lanes see it.
AP_INLINE float of_lane(float held, i32 lane) {
  return __builtin_bit_cast(float, __builtin_amdgcn_readlane(__builtin_bit_cast(int, held), lane));
}

AP_INLINE columns step(pair (&h)[C][kPairs], const token& now, const rows& from, float decay, float beta, float scale,
                       bool norm) {
  pair q[kPairs], k[kPairs];
#pragma unroll
  for (u32 i = 0; i < kPairs; ++i) {
    u32 c = 2 * i / kVec, j = 2 * i % kVec;
    pack of_q = from.row(c) < from.depth ? now.q[c] : pack{}, of_k = from.row(c) < from.depth ? now.k[c] : pack{};
    q[i] = pair{static_cast<float>(of_q[j]), static_cast<float>(of_q[j + 1])};
    k[i] = pair{static_cast<float>(of_k[j]), static_cast<float>(of_k[j + 1])};
  }
  pair kq = {}, qq = {}, kk = {}, hk[C] = {}, hq[C] = {};
#pragma unroll
  for (u32 i = 0; i < kPairs; ++i) {
    kq = fma2(k[i], q[i], kq);
    qq = fma2(q[i], q[i], qq);
    kk = fma2(k[i], k[i], kk);
#pragma unroll
    for (u32 c = 0; c < C; ++c) {
      hk[c] = fma2(h[c][i], k[i], hk[c]);
      hq[c] = fma2(h[c][i], q[i], hq[c]);
    }
  }
  float of_q = scale, of_k = 1.0f;
  if (norm) {
    of_q *= __builtin_amdgcn_rsqf(sum(qq) + 1e-6f);
    of_k = __builtin_amdgcn_rsqf(sum(kk) + 1e-6f);
  }
  float along = sum(kq) * of_k * of_q;
  columns out;
#pragma unroll
  for (u32 c = 0; c < C; ++c) {
    float u = beta * __builtin_fmaf(-decay * of_k, sum(hk[c]), static_cast<float>(now.v[c]));
    out[c] = to_elem<elem>(__builtin_fmaf(along, u, decay * of_q * sum(hq[c])));
    pair add = both(u * of_k), keep = both(decay);
#pragma unroll
    for (u32 i = 0; i < kPairs; ++i) h[c][i] = fma2(k[i], add, h[c][i] * keep);
  }
  return out;
}

// The state of one head, [K, V] in fp32, at its first row of this lane: rows 8 * place + j of each 64.
template <typename F>
AP_INLINE void each_row(i32 depth, i32 place, F&& of) {
#pragma unroll
  for (u32 c = 0; c < CHUNKS; ++c) {
    i32 row = (static_cast<i32>(c) * 8 + place) * static_cast<i32>(kVec);
    if (row >= depth) continue;
#pragma unroll
    for (u32 j = 0; j < kVec; ++j) of(c * kVec + j, row + static_cast<i32>(j));
  }
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
  from.g = g ? g + row * value_heads + head : nullptr;
  from.beta = beta + row * value_heads + head;
  from.q_t = q_t, from.k_t = k_t, from.v_t = v_t, from.gate_t = value_heads;
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
    betas = static_cast<float>(from.beta[own * from.gate_t]);
    if (from.g) decays = exp_of(from.g[own * from.gate_t]);
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
