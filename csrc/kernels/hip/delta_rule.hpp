// One token of the gated delta rule, of a wave that has all K rows of 8 * C columns of a head's state (delta_rule.hip says how).
// Includers are built with T, C and CHUNKS.
#pragma once
#include "common.hpp"
#include "delta_gates.hpp"

namespace ap {

using elem = T;
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

struct token {
  pack q[CHUNKS], k[CHUNKS];
  columns v;
};

struct rows {  // of one sequence and head, at its first token; distances of tokens
  const elem *q, *k, *v;
  i64 q_t, k_t, v_t;
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
