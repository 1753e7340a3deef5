// What stands around the assembly of attention's backward pass: delta before it, and after it dq in its own type and the sums of
// dk and dv over the heads that share keys.
//
// Build:  T = bf16 | f16     element type of everything but delta and the accumulator, which are f32
//         STEP = 1           delta[b, h, s] = sum of out[b, s, h, :] * dout[b, s, h, :]; with ZERO = 1 dq[b, s, h, :] = 0 besides
//                            with COPY = 1 copies of lse and delta, each with 64 zeros behind
//         STEP = 2           dq[b, s, h, :] = acc[b, h, s, :], rounded to nearest even
//         EMPTY = n > 0      in these two besides: dk and dv (or what is added up to them) of sequences with keys and no queries
//                            are 0. Some assembly writes nothing there; some multiplies those keys by 0, which leaves NaN where
//                            they are not finite, so that this has to come after it.
//         STEP = 3           dk[b, s, h, :] = sum over g of dk_parts[b, s, h * groups + g, :], in fp32, rounded to nearest
//                            even; dv too; with 0 groups they are 0
// Launch: one wave takes two rows of a head, 32 lanes each, 8 elements a lane: up to 256 elements, a multiple of 8. Pointers are
//         aligned to 16 bytes, strides (of elements) multiples of 8. grid x = cdiv(rows, 8), with COPY = 1 of rows + 64, with
//         EMPTY = n and n for each sequence; for STEP = 3 grid y = 2, dk and dv; block x = 256, no LDS.
#include "common.hpp"

namespace ap {

using elem = T;
using pack = vec<elem, kVec>;
using floats = vec<float, 4>;
inline constexpr u32 kBehind = 64;

// Strides of a tensor [b, s, h, d] in elements.
struct strides {
  i64 b, s, h;
};

struct place {
  u32 row, b, s, h, first;  // first: this lane's first element
};

// Rows in the order [b, h, s].
AP_INLINE place place_of(u32 heads, u32 length) {
  u32 row = block_x() * 8 + thread_x() / 32;
  u32 line = row / length;
  u32 b = line / heads;
  return {row, b, row - line * length, line - b * heads, thread_x() % 32 * kVec};
}

AP_INLINE i64 at(place p, strides by) { return p.b * by.b + p.s * by.s + p.h * by.h + p.first; }

template <int CTRL, int ROWS>
AP_INLINE float dpp_add(float x) {
  int moved = __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x), CTRL, ROWS, 0xf, false);
  return x + __builtin_bit_cast(float, moved);
}

// The sum of 32 lanes, in the last of them. Lanes that a step leaves out read 0.
AP_INLINE float sum32(float x) {
  x = dpp_add<0x111, 0xf>(x);     // row_shr:1
  x = dpp_add<0x112, 0xf>(x);     // row_shr:2
  x = dpp_add<0x114, 0xf>(x);     // row_shr:4
  x = dpp_add<0x118, 0xf>(x);     // row_shr:8    lane 15 of each row of 16 holds its row
  return dpp_add<0x142, 0xa>(x);  // row_bcast:15 into rows 1 and 3
}

#if EMPTY
// What keys get where there may be no query: dk and dv, [s, h, d]; starts of sequences.
struct of_keys {
  elem *dk, *dv;
  i64 dk_s, dk_h, dv_s, dv_h;
  const i32 *starts_q, *starts_k;
  i32 dk_width, dv_width, heads;
};

// Workgroup ``share`` of the EMPTY that look at a sequence. As a rule it has queries, and that is all they find out.
AP_INLINE void zero_unseen(u32 sequence, u32 share, const of_keys& x) {
  if (x.starts_q[sequence + 1] > x.starts_q[sequence]) return;
  i32 last = x.starts_k[sequence + 1] * x.heads, first = thread_x() % 32 * kVec;
  for (i32 line = x.starts_k[sequence] * x.heads + share * 8 + thread_x() / 32; line < last; line += EMPTY * 8) {
    i32 token = line / x.heads, head = line - token * x.heads;
    if (first < x.dk_width) *reinterpret_cast<pack*>(x.dk + token * x.dk_s + head * x.dk_h + first) = pack{};
    if (first < x.dv_width) *reinterpret_cast<pack*>(x.dv + token * x.dv_s + head * x.dv_h + first) = pack{};
  }
}
#endif

}  // namespace ap

#if STEP == 1
AP_KERNEL(256)
void attention_delta(float* __restrict__ delta, const ap::elem* __restrict__ out, const ap::elem* __restrict__ dout,
#if COPY
                     float* __restrict__ lse_copy, float* __restrict__ delta_copy, const float* __restrict__ lse,
#endif
#if ZERO
                     ap::elem* __restrict__ dq, ap::i64 dq_b, ap::i64 dq_s, ap::i64 dq_h, ap::i32 depth,
#endif
#if EMPTY
                     ap::elem* __restrict__ dk, ap::elem* __restrict__ dv, ap::i64 dk_s, ap::i64 dk_h, ap::i64 dv_s,
                     ap::i64 dv_h, const ap::i32* __restrict__ starts_q, const ap::i32* __restrict__ starts_k,
                     ap::i32 dk_width, ap::i32 key_heads,
#endif
                     ap::i64 out_b, ap::i64 out_s, ap::i64 out_h, ap::i64 dout_b, ap::i64 dout_s, ap::i64 dout_h,
                     ap::i32 width, ap::i32 heads, ap::i32 length, ap::i32 rows) {
  using namespace ap;
#if EMPTY
  u32 tiles = (static_cast<u32>(rows) + 7) / 8;
  if (block_x() >= tiles) {
    u32 extra = block_x() - tiles;
    zero_unseen(extra / EMPTY, extra % EMPTY,
                {dk, dv, dk_s, dk_h, dv_s, dv_h, starts_q, starts_k, dk_width, width, key_heads});
    return;
  }
#endif
  place p = place_of(static_cast<u32>(heads), static_cast<u32>(length));
  bool inside = p.row < static_cast<u32>(rows);
  float sum = 0.0f;
  if (inside && p.first < static_cast<u32>(width)) {
    pack a = *reinterpret_cast<const pack*>(out + at(p, {out_b, out_s, out_h}));
    pack b = *reinterpret_cast<const pack*>(dout + at(p, {dout_b, dout_s, dout_h}));
#pragma unroll
    for (int i = 0; i < kVec; ++i) sum += static_cast<float>(a[i]) * static_cast<float>(b[i]);
  }
  sum = sum32(sum);
  if (inside && thread_x() % 32 == 31) delta[p.row] = sum;
#if COPY
  if (p.row < static_cast<u32>(rows) + kBehind && thread_x() % 32 == 31) {
    lse_copy[p.row] = inside ? lse[p.row] : 0.0f;
    delta_copy[p.row] = inside ? sum : 0.0f;
  }
#endif
#if ZERO
  if (inside && p.first < static_cast<u32>(depth)) *reinterpret_cast<pack*>(dq + at(p, {dq_b, dq_s, dq_h})) = pack{};
#endif
}
#elif STEP == 2
AP_KERNEL(256)
void attention_dq(ap::elem* __restrict__ dq, const float* __restrict__ acc, ap::i64 dq_b, ap::i64 dq_s, ap::i64 dq_h,
#if EMPTY
                  ap::elem* __restrict__ dk, ap::elem* __restrict__ dv, ap::i64 dk_s, ap::i64 dk_h, ap::i64 dv_s,
                  ap::i64 dv_h, const ap::i32* __restrict__ starts_q, const ap::i32* __restrict__ starts_k,
                  ap::i32 dv_width, ap::i32 key_heads,
#endif
                  ap::i32 depth, ap::i32 heads, ap::i32 length, ap::i32 rows) {
  using namespace ap;
#if EMPTY
  u32 tiles = (static_cast<u32>(rows) + 7) / 8;
  if (block_x() >= tiles) {
    u32 extra = block_x() - tiles;
    zero_unseen(extra / EMPTY, extra % EMPTY,
                {dk, dv, dk_s, dk_h, dv_s, dv_h, starts_q, starts_k, depth, dv_width, key_heads});
    return;
  }
#endif
  place p = place_of(static_cast<u32>(heads), static_cast<u32>(length));
  if (p.row >= static_cast<u32>(rows) || p.first >= static_cast<u32>(depth)) return;
  const floats* from = reinterpret_cast<const floats*>(acc + static_cast<i64>(p.row) * depth + p.first);
  floats low = from[0], high = from[1];
  pack to;
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i] = to_elem<elem>(low[i]), to[i + 4] = to_elem<elem>(high[i]);
  *reinterpret_cast<pack*>(dq + at(p, {dq_b, dq_s, dq_h})) = to;
}
#else
AP_KERNEL(256)
void attention_sum(ap::elem* __restrict__ dk, ap::elem* __restrict__ dv, const ap::elem* __restrict__ dk_parts,
                   const ap::elem* __restrict__ dv_parts, ap::i64 dk_b, ap::i64 dk_s, ap::i64 dk_h, ap::i64 dv_b,
                   ap::i64 dv_s, ap::i64 dv_h, ap::i32 dk_width, ap::i32 dv_width, ap::i32 groups, ap::i32 heads,
                   ap::i32 length, ap::i32 rows) {
  using namespace ap;
  bool keys = __builtin_amdgcn_workgroup_id_y() == 0;
  i32 width = keys ? dk_width : dv_width;
  strides by = keys ? strides{dk_b, dk_s, dk_h} : strides{dv_b, dv_s, dv_h};
  place p = place_of(static_cast<u32>(heads), static_cast<u32>(length));
  if (p.row >= static_cast<u32>(rows) || p.first >= static_cast<u32>(width)) return;
  i64 token = static_cast<i64>(p.b) * length + p.s;
  const elem* from = (keys ? dk_parts : dv_parts) + (token * heads + p.h) * groups * width + p.first;
  float sum[kVec] = {};
  for (i32 g = 0; g < groups; ++g) {
    pack part = *reinterpret_cast<const pack*>(from + static_cast<i64>(g) * width);
#pragma unroll
    for (int i = 0; i < kVec; ++i) sum[i] += static_cast<float>(part[i]);
  }
  pack to;
#pragma unroll
  for (int i = 0; i < kVec; ++i) to[i] = to_elem<elem>(sum[i]);
  *reinterpret_cast<pack*>((keys ? dk : dv) + at(p, by)) = to;
}
#endif
