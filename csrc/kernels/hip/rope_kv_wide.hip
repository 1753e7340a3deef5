// rope_kv.hip without a norm, where everything lies in runs of 16 bytes: a lane takes eight pairs of PASSES heads of a token, and
// reads their cosines and sines once.
//
// A head is a multiple of 16 elements, all of which are turned; a row of the tables has an angle for each pair. All tensors are
// 16-byte aligned; strides and the width of a tile of keys are multiples of 8; that of values has 1, or their columns lie apart.
// In a token elements are counted with 31 bits.
//
// Build:  T = bf16 | f16           element type of what is read, the tables of cosines and sines too
//         C = T | e4m3fnuz | e4m3fn   cache type: T, or the target's fp8, saturating; stored = value / scale
//         BLOCK = 128              threads of a block
//         PASSES = 4               heads of a lane: their loads are under way at the same time
// Launch: grid x = cdiv(tokens * cdiv(heads_q + 2 * heads_k, PASSES) * size / 16, BLOCK); block x = BLOCK, no LDS.
//
// Where an element lies in the caches: rope_kv.hip.
#include "common.hpp"

namespace ap {

using elem = T;
inline constexpr bool kFp8 = !same<C, T>;
static_assert(!kFp8 || same<C, fp8>, "the cache holds the target's own fp8");

template <bool BYTES>
struct cell_of {
  using type = u16;
};
template <>
struct cell_of<true> {
  using type = u8;
};
using cell = cell_of<kFp8>::type;
using pack = vec<elem, kVec>;

AP_INLINE pack get(const u16* from) { return *reinterpret_cast<const pack*>(from); }
AP_INLINE void put(u16* to, pack line) { *reinterpret_cast<pack*>(to) = line; }

AP_INLINE void widen(float (&to)[kVec], pack from) {
#pragma unroll
  for (int i = 0; i < kVec; ++i) to[i] = static_cast<float>(from[i]);
}

AP_INLINE pack rounded(const float (&from)[kVec]) {
  pack line;
#pragma unroll
  for (int i = 0; i < kVec; ++i) line[i] = to_elem<elem>(from[i]);
  return line;
}

// Eight cells of a cache, each at its place if they lie apart.
AP_INLINE void put_cells(cell* to, const float (&from)[kVec], float inverse) {
  if constexpr (kFp8) {
    u32 low = pack4<fp8>(from[0] * inverse, from[1] * inverse, from[2] * inverse, from[3] * inverse);
    u32 high = pack4<fp8>(from[4] * inverse, from[5] * inverse, from[6] * inverse, from[7] * inverse);
    *reinterpret_cast<vec<u32, 2>*>(to) = {low, high};
  } else {
    float scaled[kVec];
#pragma unroll
    for (int i = 0; i < kVec; ++i) scaled[i] = from[i] * inverse;
    *reinterpret_cast<pack*>(to) = rounded(scaled);
  }
}

AP_INLINE void put_apart(cell* to, const float (&from)[kVec], float inverse, i64 column) {
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
    if constexpr (kFp8)
      to[i * column] = pack1<fp8>(from[i] * inverse);
    else
      to[i * column] = __builtin_bit_cast(u16, to_elem<elem>(from[i] * inverse));
  }
}

// Eight pairs in two runs: x[i] and y[i] with neox, else neighbours, the first four of them in x.
template <bool NEOX>
AP_INLINE void turn(float (&x)[kVec], float (&y)[kVec], const float (&c)[kVec], const float (&s)[kVec]) {
#pragma unroll
  for (int i = 0; i < kVec; ++i) {
    float& a = NEOX ? x[i] : i < 4 ? x[i % 4 * 2] : y[i % 4 * 2];
    float& b = NEOX ? y[i] : i < 4 ? x[i % 4 * 2 + 1] : y[i % 4 * 2 + 1];
    float turned = a * c[i] - b * s[i];
    b = b * c[i] + a * s[i];
    a = turned;
  }
}

// Of a tensor: where a token's heads begin, and how far apart they lie.
template <typename E>
struct row {
  E* at;
  u32 head;
};
template <typename E>
AP_INLINE row<E> row_of(E* base, u32 token, i64 stride, i32 head) {
  return {base + token * stride, static_cast<u32>(head)};
}

}  // namespace ap

// k_scale and v_scale are null or one number. The cache has slot_end slots. A position is cut to the rows of the tables.
AP_KERNEL(BLOCK)
void rope_kv_wide(const ap::u16* q, const ap::u16* k, const ap::u16* __restrict__ v, const ap::u16* __restrict__ cos,
                  const ap::u16* __restrict__ sin, const ap::i64* __restrict__ positions,
                  const ap::i64* __restrict__ offsets, const ap::i64* __restrict__ slots, ap::u16* q_out, ap::u16* k_out,
                  ap::cell* __restrict__ k_cache, ap::cell* __restrict__ v_cache, const float* __restrict__ k_scale,
                  const float* __restrict__ v_scale, ap::i32 tokens, ap::i32 heads_q, ap::i32 heads_k, ap::i32 size,
                  ap::i32 max_position, ap::i32 block_size, ap::i32 neox, ap::i32 q_h, ap::i32 k_h, ap::i32 v_h,
                  ap::i32 q_out_h, ap::i32 k_out_h, ap::i64 q_t, ap::i64 k_t, ap::i64 v_t, ap::i64 q_out_t,
                  ap::i64 k_out_t, ap::i64 cos_stride, ap::i64 k_block, ap::i64 k_head, ap::i64 k_column,
                  ap::i64 k_slot, ap::i32 k_x, ap::i64 v_block, ap::i64 v_head, ap::i64 v_column, ap::i64 v_chunk,
                  ap::i32 v_x, ap::i64 slot_end) {
  using namespace ap;
  u32 of_q = static_cast<u32>(heads_q), of_k = of_q + static_cast<u32>(heads_k), heads = of_k + static_cast<u32>(heads_k);
  u32 lanes = static_cast<u32>(size) / 16, units = (heads + PASSES - 1) / PASSES;
  u32 at = block_x() * BLOCK + thread_x(), unit = at / lanes, lane = at - unit * lanes;
  u32 token = unit / units, head = unit - token * units;
  if (token >= static_cast<u32>(tokens)) return;
  u32 first = neox ? lane * kVec : lane * 2 * kVec, second = first + (neox ? lanes * kVec : kVec);

  i64 position = positions[token] + (offsets ? offsets[token] : 0), slot = slots[token];
  row<const u16> of[3] = {row_of(q, token, q_t, q_h), row_of(k, token, k_t, k_h), row_of(v, token, v_t, v_h)};
  pack a[PASSES], b[PASSES];
#pragma unroll
  for (u32 i = 0; i < PASSES; ++i) {
    u32 h = head + i * units;
    if (h >= heads) continue;
    const u16* in = h < of_q   ? of[0].at + h * of[0].head
                    : h < of_k ? of[1].at + (h - of_q) * of[1].head
                               : of[2].at + (h - of_k) * of[2].head;
    a[i] = get(in + first), b[i] = get(in + second);
  }
  position = position < 0 ? 0 : position >= max_position ? max_position - 1 : position;
  float c[kVec], s[kVec];
  i64 angle = position * cos_stride + lane * kVec;
  widen(c, get(cos + angle)), widen(s, get(sin + angle));

  bool there = slot >= 0 && slot < slot_end;
  u32 number = there ? static_cast<u32>(slot) : 0, block = number / static_cast<u32>(block_size);
  u32 offset = number - block * static_cast<u32>(block_size), x = static_cast<u32>(k_x);
  u32 chunk = offset / static_cast<u32>(v_x);
  cell* keys = k_cache + block * k_block + offset * k_slot;
  cell* values = v_cache + block * v_block + chunk * v_chunk + (offset - chunk * static_cast<u32>(v_x));
  float k_inverse = k_scale ? 1.0f / *k_scale : 1.0f, v_inverse = v_scale ? 1.0f / *v_scale : 1.0f;
  i64 k_first = first / x * k_column + first % x, k_second = second / x * k_column + second % x;
  row<u16> to[2] = {row_of(q_out, token, q_out_t, q_out_h), row_of(k_out, token, k_out_t, k_out_h)};

#pragma unroll
  for (u32 i = 0; i < PASSES; ++i) {
    u32 h = head + i * units;
    if (h >= heads) continue;
    bool query = h < of_q, value = h >= of_k;
    float e[kVec], f[kVec];
    widen(e, a[i]), widen(f, b[i]);
    if (value) {
      if (!there) continue;
      cell* out = values + (h - of_k) * v_head;
      if (v_column == 1)
        put_cells(out + first, e, v_inverse), put_cells(out + second, f, v_inverse);
      else
        put_apart(out + first * v_column, e, v_inverse, v_column), put_apart(out + second * v_column, f, v_inverse, v_column);
      continue;
    }
    if (neox)
      turn<true>(e, f, c, s);
    else
      turn<false>(e, f, c, s);
    u16* out = query ? to[0].at + h * to[0].head : to[1].at + (h - of_q) * to[1].head;
    put(out + first, rounded(e)), put(out + second, rounded(f));
    if (query || !there) continue;
    cell* key = keys + (h - of_q) * k_head;
    put_cells(key + k_first, e, k_inverse), put_cells(key + k_second, f, k_inverse);
  }
}
