// RMSNorm (if wanted) and rotary embedding of queries and keys, and the write of keys and values into a paged cache, in one launch.
//
// Of a head x: x * rsqrt(mean(x^2) + epsilon) * weight; then of each pair of its first 2 * half elements x' = x * cos - y * sin,
// y' = y * cos + x * sin; all in fp32, rounded once to what is written. Values are moved. Slots that are not in the cache are skipped.
//
// Build:  T = bf16 | f16           element type of what is read, the tables of cosines and sines too
//         C = T | e4m3fnuz | e4m3fn   cache type: T, or the target's fp8, saturating
//         DYNAMIC = 1              each head of a token has a scale of its own, max(amax, 1e-8) / qmax, which is written
//                 = 0              one scale for all keys and one for all values: stored = value / scale
//         LANES = 8 | 16 | 32      lanes of a head of 8 * LANES elements; half is a multiple of 4, all tensors 16-byte aligned,
//                                  strides and x multiples of 4
//               = 64               any even size of a head up to 512, any half, any address
//         SECTIONS = 1             a token has three positions, and each pair its angle from one of them (`sections` below);
//                                  with LANES < 64 rows of the table begin at multiples of 8 bytes
// Launch: grid x = cdiv(tokens * (heads_q + heads_k + heads_v), 256 / LANES); block x = 256.
//
// Where element d of a key lies: block * block_stride + head * head_stride + d / x * column_stride + offset * slot_stride + d % x,
// and of a value: block * block_stride + head * head_stride + d * column_stride + offset / x * chunk_stride + offset % x * slot_stride.
#include "rope_head.hpp"

#ifndef SECTIONS
#define SECTIONS 0
#endif

namespace ap {

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

AP_INLINE cell to_cell(float value, float inverse) {
  if constexpr (kFp8)
    return pack1<fp8>(value * inverse);
  else
    return as_bits(value * inverse);
}

AP_INLINE void store_cells(cell* out, const float* e, float inverse) {
  if constexpr (kFp8)
    *reinterpret_cast<u32*>(out) = pack4<fp8>(e[0] * inverse, e[1] * inverse, e[2] * inverse, e[3] * inverse);
  else
    *reinterpret_cast<vec<u16, 4>*>(out) = {to_cell(e[0], inverse), to_cell(e[1], inverse), to_cell(e[2], inverse),
                                            to_cell(e[3], inverse)};
}

AP_INLINE void store_row(cell* out, const share& own, const float* e, float inverse) {
  if constexpr (kAny) {
#pragma unroll
    for (u32 k = 0; k < 8; ++k)
      if (own.valid(k)) out[own.at(k)] = to_cell(e[k], inverse);
  } else {
    store_cells(out + own.first, e, inverse), store_cells(out + own.second, e + 4, inverse);
  }
}

// Rows of a table: pair p's angle lies at p * step, that of its second element `apart` behind it.
struct table {
  const u16 *cos, *sin;
  u32 step, apart;
};

AP_INLINE void turn_pairs(const share& own, float* e, table at) {
#pragma unroll
  for (u32 j = 0; j < 4; ++j) {
    u32 p = kAny ? own.pair + j * kWave : own.pair + j;
    if (p >= own.half) continue;
    float c = as_float(at.cos[p * at.step]), s = as_float(at.sin[p * at.step]), d = c, t = s;
    if (at.apart) d = as_float(at.cos[p * at.step + at.apart]), t = as_float(at.sin[p * at.step + at.apart]);
    if (own.split)
      turn(e[j], e[4 + j], c, s, d, t);
    else
      turn(e[2 * j], e[2 * j + 1], c, s, d, t);
  }
}

#if SECTIONS
// Which of a token's three positions a pair's angle has. Pairs lie one section behind the other: those before `first` have position
// 0, those before `second` position 1, the rest position 2. Or they take turns, pair p position p % 3, where 1 and 2 end at `first`
// and `second`, and position 0 has what they leave.
struct sections {
  u32 first, second;
  bool interleaved;

  __device__ u32 of(u32 pair) const {
    if (!interleaved) return pair < first ? 0 : pair < second ? 1 : 2;
    u32 turn = pair % 3;
    return turn == 1 && pair < first ? 1 : turn == 2 && pair < second ? 2 : 0;
  }
};

// The rows of the table at a token's positions: cosines, and as far behind them sines.
struct table_rows {
  const u16* cos[3];
  i32 sin_at;
};

template <typename V>
AP_INLINE V one_of(u32 which, V a, V b, V c) {
  return which == 0 ? a : which == 1 ? b : c;
}

AP_INLINE void turn_sections(const share& own, float* e, const table_rows& at, sections parts) {
  if constexpr (kAny) {
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
      u32 p = own.pair + j * kWave;
      if (p >= own.half) continue;
      const u16* row = one_of(parts.of(p), at.cos[0], at.cos[1], at.cos[2]);
      float c = as_float(row[p]), s = as_float(row[p + static_cast<u32>(at.sin_at)]);
      turn(e[j], e[4 + j], c, s, c, s);
    }
  } else {
    if (own.pair >= own.half) return;  // both are multiples of 4
    vec<u16, 4> cos[3], sin[3];
#pragma unroll
    for (u32 k = 0; k < 3; ++k) {
      cos[k] = *reinterpret_cast<const vec<u16, 4>*>(at.cos[k] + own.pair);
      sin[k] = *reinterpret_cast<const vec<u16, 4>*>(at.cos[k] + own.pair + at.sin_at);
    }
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
      u32 which = parts.of(own.pair + j);
      float c = as_float(one_of<u16>(which, cos[0][j], cos[1][j], cos[2][j]));
      float s = as_float(one_of<u16>(which, sin[0][j], sin[1][j], sin[2][j]));
      if (own.split)
        turn(e[j], e[4 + j], c, s, c, s);
      else
        turn(e[2 * j], e[2 * j + 1], c, s, c, s);
    }
  }
}
#endif

struct key_place {
  i64 block, head, column, slot;
  u32 x;
};

AP_INLINE void store_key(cell* out, const share& own, const float* e, float inverse, key_place p) {
  if constexpr (kAny) {
#pragma unroll
    for (u32 k = 0; k < 8; ++k)
      if (own.valid(k)) out[own.at(k) / p.x * p.column + own.at(k) % p.x] = to_cell(e[k], inverse);
  } else {
    store_cells(out + own.first / p.x * p.column + own.first % p.x, e, inverse);
    store_cells(out + own.second / p.x * p.column + own.second % p.x, e + 4, inverse);
  }
}

AP_INLINE void store_value(cell* out, const share& own, const float* e, float inverse, i64 column) {
  if (!kAny && column == 1) {
    store_row(out, own, e, inverse);
  } else {
#pragma unroll
    for (u32 k = 0; k < 8; ++k)
      if (own.valid(k)) out[own.at(k) * column] = to_cell(e[k], inverse);
  }
}

}  // namespace ap

// q_weight is null where there is no norm; q_out, k_out, k_copy and v_copy where they are not wanted, the last two with `copies` 0, too. Keys begin k_at elements
// behind k, values v_at behind v. With DYNAMIC k_scale and
// v_scale are written [blocks, heads_k, block_size]; else each is null or one number, which divides beside k_number and v_number.
// The cache has slot_end slots. With `full` a row of the tables has an angle for each element of a head, else for each pair.
// With SECTIONS the position of an axis lies axis * axis_stride + token * token_stride behind `positions`; with `from_one` a norm's
// weight is 1 more than what is stored of it.
AP_KERNEL(256)
void rope_kv(const ap::u16* q, const ap::u16* k, const ap::u16* v, const ap::u16* __restrict__ q_weight,
             const ap::u16* __restrict__ k_weight, const ap::u16* __restrict__ cos, const ap::u16* __restrict__ sin,
             const ap::i64* __restrict__ positions, const ap::i64* __restrict__ offsets,
             const ap::i64* __restrict__ slots, ap::u16* q_out, ap::u16* k_out, ap::cell* __restrict__ k_copy,
             ap::cell* __restrict__ v_copy, ap::cell* __restrict__ k_cache, ap::cell* __restrict__ v_cache,
             float* __restrict__ k_scale, float* __restrict__ v_scale, ap::i32 tokens, ap::i32 heads_q, ap::i32 heads_k,
             ap::i32 heads_v, ap::i32 size, ap::i32 half, ap::i32 sin_at, ap::i32 max_position, ap::i32 block_size,
             ap::i32 neox, ap::i32 copies, float epsilon, float k_number, float v_number, ap::i64 q_stride_t,
             ap::i64 q_stride_h, ap::i64 k_stride_t, ap::i64 k_stride_h, ap::i64 v_stride_t, ap::i64 v_stride_h,
             ap::i64 cos_stride, ap::i64 q_out_stride_t, ap::i64 q_out_stride_h, ap::i64 k_out_stride_t,
             ap::i64 k_out_stride_h, ap::i64 k_block_stride, ap::i64 k_head_stride, ap::i64 k_column_stride,
             ap::i64 k_slot_stride, ap::i32 k_x, ap::i64 v_block_stride, ap::i64 v_head_stride, ap::i64 v_column_stride,
             ap::i64 v_chunk_stride, ap::i64 v_slot_stride, ap::i32 v_x, ap::i64 k_at, ap::i64 v_at, ap::i64 slot_end,
             ap::i32 full
#if SECTIONS
             ,
             ap::i64 axis_stride, ap::i64 token_stride, ap::i32 first_end, ap::i32 second_end, ap::i32 interleaved,
             ap::i32 from_one
#endif
) {
  using namespace ap;
  u32 heads = static_cast<u32>(heads_q + heads_k + heads_v);
  u32 place = block_x() * (256 / kLanes) + thread_x() / kLanes;
  u32 token = place / heads;
  if (token >= static_cast<u32>(tokens)) return;
  i32 head = static_cast<i32>(place - token * heads);
  bool query = head < heads_q, key = !query && head < heads_q + heads_k;
  head -= query ? 0 : key ? heads_q : heads_q + heads_k;
  share own = share_of(thread_x() % kLanes, static_cast<u32>(half), static_cast<u32>(size), query || key, neox != 0);

  const u16* in = query ? q + token * q_stride_t + head * q_stride_h
                  : key ? k + k_at + token * k_stride_t + head * k_stride_h
                        : v + v_at + token * v_stride_t + head * v_stride_h;
  float e[8];
  load(in, own, e);
  if ((query || key) && q_weight) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += e[i] * e[i];
    sum = over_head(sum, [](float a, float b) { return a + b; });
    float root = __builtin_amdgcn_rsqf(sum / static_cast<float>(size) + epsilon);
    float w[8];
    load(query ? q_weight : k_weight, own, w);
#if SECTIONS
#pragma unroll
    for (int i = 0; i < 8; ++i) w[i] = from_one ? 1.0f + w[i] : w[i];
#endif
#pragma unroll
    for (int i = 0; i < 8; ++i) e[i] = e[i] * root * w[i];
  }
  if (query || key) {
#if SECTIONS
    table_rows at = {{}, sin_at};
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
      i64 position = positions[axis * axis_stride + token * token_stride];
      position = position < 0 ? 0 : position >= max_position ? max_position - 1 : position;
      at.cos[axis] = cos + position * cos_stride;
    }
    turn_sections(own, e, at, {static_cast<u32>(first_end), static_cast<u32>(second_end), interleaved != 0});
#else
    i64 position = positions[token] + (offsets ? offsets[token] : 0);
    position = position < 0 ? 0 : position >= max_position ? max_position - 1 : position;
    table at = {cos + position * cos_stride, sin + position * cos_stride + sin_at, 1, 0};
    if (full) at.step = neox ? 1 : 2, at.apart = neox ? own.half : 1;
    turn_pairs(own, e, at);
#endif
  }
  if (query) {
    store(q_out + token * q_out_stride_t + head * q_out_stride_h, own, e);
    return;
  }
  if (key && k_out) store(k_out + token * k_out_stride_t + head * k_out_stride_h, own, e);

  i64 slot = slots[token];
  if (slot < 0 || slot >= slot_end) return;
  u32 block = static_cast<u32>(slot) / static_cast<u32>(block_size);
  u32 offset = static_cast<u32>(slot) - block * static_cast<u32>(block_size);
  float* scale = key ? k_scale : v_scale;
  float inverse = 1.0f / (key ? k_number : v_number);
#if DYNAMIC
  float amax = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) amax = max_num(amax, abs_f(e[i]));
  amax = over_head(amax, [](float a, float b) { return max_num(a, b); });
  float number = max_num(amax, 1e-8f) / quant_traits<fp8>::max;
  inverse = 1.0f / number;
  if (own.pair == 0) scale[(static_cast<i64>(block) * heads_k + head) * block_size + offset] = number;
#else
  if (scale) inverse *= 1.0f / *scale;
#endif
  if (key) {
    key_place p = {k_block_stride, k_head_stride, k_column_stride, k_slot_stride, static_cast<u32>(k_x)};
    store_key(k_cache + block * p.block + head * p.head + offset * p.slot, own, e, inverse, p);
    if (k_copy && copies) store_row(k_copy + (static_cast<i64>(token) * heads_k + head) * size, own, e, inverse);
  } else {
    u32 x = static_cast<u32>(v_x);
    i64 at = block * v_block_stride + head * v_head_stride + offset / x * v_chunk_stride + offset % x * v_slot_stride;
    store_value(v_cache + at, own, e, inverse, v_column_stride);
    if (v_copy && copies) store_row(v_copy + (static_cast<i64>(token) * heads_v + head) * size, own, e, inverse);
  }
}
