// Rotary embedding of MLA's queries and of the new key, and the write of the key into the latent cache, in one launch.
//
// q_out[t, h] = q_nope[t, h] and the turned q_pe[t, h] side by side; cache[slot[t]] the same of k_nope[t] and k_pe[t]. Of a pair
// x' = x * cos - y * sin, y' = y * cos + x * sin, in fp32, rounded once. A slot that is not in the cache is skipped, its queries
// too unless `all`. Tokens behind query_rows have no queries, and their keys are not turned; those behind key_rows have no keys.
//
// Build:  T = bf16 | f16       element type of what is read, the tables of cosines and sines too
//         C, Q = T | e4m3fnuz | e4m3fn   cache and q_out: T or the target's fp8 (saturating); value / scale if there is one
//         ALIGNED = 1          rank is a multiple of 8, pe of 16; all tensors 16-byte aligned, all strides multiples of 8; not `full`
// Launch: grid x = cdiv(tokens * (cdiv(heads, kHeads) + heads_k), 4); block x = 256. A wave takes kHeads heads of a token's queries, 8
//         with ALIGNED and else 1, or a head of its keys.
//
// With page = 0 a key is a row of the cache. Else a block has `page` keys in tiles of 16 keys and w columns, w elements 16 bytes:
// element d of key s of a block lies at s / 16 * 16 * rank + d / w * 16 * w + s % 16 * w + d % w, and those that are turned so,
// too, behind all page * rank others.
#include "common.hpp"

namespace ap {

using elem = T;
inline constexpr bool kCacheFp8 = !same<C, T>, kQueryFp8 = !same<Q, T>;
static_assert((!kCacheFp8 || same<C, fp8>) && (!kQueryFp8 || same<Q, fp8>), "8 bits are the target's own fp8");

template <bool BYTES>
struct cell_of {
  using type = u16;
};
template <>
struct cell_of<true> {
  using type = u8;
};
template <bool BYTES>
using cell = typename cell_of<BYTES>::type;

using line = vec<u32, 4>;  // eight elements of 16 bits
inline constexpr u32 kHeads = ALIGNED ? 8 : 1;  // their loads are under way at the same time

AP_INLINE float as_float(u16 bits) { return static_cast<float>(__builtin_bit_cast(elem, bits)); }

template <bool FP8>
AP_INLINE cell<FP8> to_cell(float value, float inverse) {
  if constexpr (FP8)
    return pack1<fp8>(value * inverse);
  else
    return __builtin_bit_cast(u16, to_elem<elem>(value * inverse));
}

template <bool FP8>
AP_INLINE void put8(cell<FP8>* out, const float* f, float inverse) {
  if constexpr (FP8) {
    u32 low = pack4<fp8>(f[0] * inverse, f[1] * inverse, f[2] * inverse, f[3] * inverse);
    u32 high = pack4<fp8>(f[4] * inverse, f[5] * inverse, f[6] * inverse, f[7] * inverse);
    *reinterpret_cast<vec<u32, 2>*>(out) = {low, high};
  } else {
    vec<u16, 8> bits;
#pragma unroll
    for (int i = 0; i < 8; ++i) bits[i] = to_cell<false>(f[i], inverse);
    *reinterpret_cast<vec<u16, 8>*>(out) = bits;
  }
}

AP_INLINE line get_line(const u16* in) { return *reinterpret_cast<const line*>(in); }

AP_INLINE void widen(line in, float* f) {
  vec<u16, 8> bits = __builtin_bit_cast(vec<u16, 8>, in);
#pragma unroll
  for (int i = 0; i < 8; ++i) f[i] = as_float(bits[i]);
}

struct angles {
  const u16 *cos, *sin;  // of the token's position
  u32 half;
  bool neox, full;  // full: an angle for each element, else for each pair
};

AP_INLINE void get8(const u16* in, float* f) { widen(get_line(in), f); }

// One pair: x and y are what becomes of them. c, s: the angle of the first, d, t of the second.
AP_INLINE void turn(float& x, float& y, float c, float s, float d, float t) {
  float a = x * c - y * s;
  y = y * d + x * t;
  x = a;
}

// Eight pairs in two lines: x[i] and y[i] with neox, else neighbours, the first four of them in x.
AP_INLINE void turn8(float* x, float* y, const float* c, const float* s, bool neox) {
  if (neox) {
#pragma unroll
    for (int j = 0; j < 8; ++j) turn(x[j], y[j], c[j], s[j], c[j], s[j]);
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      turn(x[2 * j], x[2 * j + 1], c[j], s[j], c[j], s[j]);
      turn(y[2 * j], y[2 * j + 1], c[4 + j], s[4 + j], c[4 + j], s[4 + j]);
    }
  }
}

// Where element d of a part of a key lies: one behind the other, or in tiles of `width` columns.
struct places {
  u32 width;
  __device__ u32 at(u32 d) const { return width ? d / width * 16 * width + d % width : d; }
};

template <bool FP8>
AP_INLINE void put_nope(const u16* in, cell<FP8>* out, places to, u32 rank, float inverse) {
  u32 lane = thread_x() % kWave;
#if ALIGNED
  for (u32 i = lane * 8; i < rank; i += kWave * 8) {
    if (FP8 || inverse != 1.0f) {
      float f[8];
      get8(in + i, f);
      put8<FP8>(out + to.at(i), f, inverse);
    } else {
      *reinterpret_cast<line*>(out + to.at(i)) = *reinterpret_cast<const line*>(in + i);
    }
  }
#else
  for (u32 i = lane; i < rank; i += kWave) {
    if (FP8 || inverse != 1.0f)
      out[to.at(i)] = to_cell<FP8>(as_float(in[i]), inverse);
    else
      out[to.at(i)] = static_cast<cell<FP8> >(in[i]);
  }
#endif
}

template <bool FP8>
AP_INLINE void put_pe(const u16* in, cell<FP8>* out, places to, angles at, float inverse) {
  u32 lane = thread_x() % kWave;
#if ALIGNED
  float x[8], y[8], c[8], s[8];
  for (u32 i = lane * 8; i < at.half; i += kWave * 8) {
    u32 first = at.neox ? i : 2 * i, second = at.neox ? at.half + i : 2 * i + 8;
    get8(in + first, x), get8(in + second, y), get8(at.cos + i, c), get8(at.sin + i, s);
    turn8(x, y, c, s, at.neox);
    put8<FP8>(out + to.at(first), x, inverse), put8<FP8>(out + to.at(second), y, inverse);
  }
#else
  for (u32 i = lane; i < at.half; i += kWave) {
    u32 first = at.neox ? i : 2 * i, second = at.neox ? at.half + i : 2 * i + 1;
    float x = as_float(in[first]), y = as_float(in[second]);
    u32 p = at.full ? first : i, r = at.full ? second : i;
    turn(x, y, as_float(at.cos[p]), as_float(at.sin[p]), as_float(at.cos[r]), as_float(at.sin[r]));
    out[to.at(first)] = to_cell<FP8>(x, inverse);
    out[to.at(second)] = to_cell<FP8>(y, inverse);
  }
#endif
}

// The first of some heads of a tensor, and how far apart they lie.
template <typename E>
struct heads_at {
  E* first;
  i64 apart;
  __device__ E* at(u32 head) const { return first + head * apart; }
};

using query_cell = cell<kQueryFp8>;

// `left` heads of queries. `turned`: where those go that are turned, `again`: once more, if `twice`.
AP_INLINE void put_queries(heads_at<const u16> nope, heads_at<const u16> pe, heads_at<query_cell> out,
                           heads_at<query_cell> turned, heads_at<u16> again, bool twice, u32 left, u32 rank, angles at,
                           float inverse) {
#if ALIGNED
  u32 lane = thread_x() % kWave, lines = at.half / 8, pairs = left * lines;
  for (u32 i = lane; i * 8 < rank || i < pairs; i += kWave) {
    line held[kHeads];
#pragma unroll
    for (u32 h = 0; h < kHeads; ++h)
      if (h < left && i * 8 < rank) held[h] = get_line(nope.at(h) + i * 8);
    u32 head = i / (lines ? lines : 1), pair = (i - head * lines) * 8;
    u32 first = at.neox ? pair : 2 * pair, second = at.neox ? at.half + pair : 2 * pair + 8;
    line a, b, cosines, sines;
    if (i < pairs) {
      a = get_line(pe.at(head) + first), b = get_line(pe.at(head) + second);
      cosines = get_line(at.cos + pair), sines = get_line(at.sin + pair);
    }
#pragma unroll
    for (u32 h = 0; h < kHeads; ++h) {
      if (h >= left || i * 8 >= rank) break;
      if (kQueryFp8 || inverse != 1.0f) {
        float f[8];
        widen(held[h], f);
        put8<kQueryFp8>(out.at(h) + i * 8, f, inverse);
      } else {
        *reinterpret_cast<line*>(out.at(h) + i * 8) = held[h];
      }
    }
    if (i >= pairs) continue;
    float x[8], y[8], c[8], s[8];
    widen(a, x), widen(b, y), widen(cosines, c), widen(sines, s);
    turn8(x, y, c, s, at.neox);
    put8<kQueryFp8>(turned.at(head) + first, x, inverse), put8<kQueryFp8>(turned.at(head) + second, y, inverse);
    if (twice) put8<false>(again.at(head) + first, x, 1.0f), put8<false>(again.at(head) + second, y, 1.0f);
  }
#else
  static_cast<void>(left);
  places rows = {0};
  put_nope<kQueryFp8>(nope.first, out.first, rows, rank, inverse);
  put_pe<kQueryFp8>(pe.first, turned.first, rows, at, inverse);
  if (twice) put_pe<false>(pe.first, again.first, rows, at, 1.0f);
#endif
}

}  // namespace ap

// k_scale and q_scale are read where k_scaled and q_scaled say so. A position is cut to the rows of the tables. k_pe_out gets the
// turned k_pe of all tokens with keys, q_pe_out the turned q_pe of the first q_pe_rows tokens; null where they are not wanted.
AP_KERNEL(256)
void rope_mla(const ap::u16* __restrict__ q_nope, const ap::u16* __restrict__ q_pe, const ap::u16* __restrict__ k_nope,
              const ap::u16* __restrict__ k_pe, ap::cell<ap::kCacheFp8>* __restrict__ cache,
              ap::cell<ap::kQueryFp8>* __restrict__ q_out, ap::u16* __restrict__ q_pe_out,
              ap::u16* __restrict__ k_pe_out, const ap::i64* __restrict__ slots, const float* __restrict__ k_scale,
              const float* __restrict__ q_scale, const ap::i64* __restrict__ positions, const ap::u16* __restrict__ cos,
              const ap::u16* __restrict__ sin, ap::i32 heads, ap::i32 heads_k, ap::i32 rank, ap::i32 half,
              ap::i32 max_position, ap::i32 neox, ap::i32 full, ap::i32 nope_first, ap::i32 all, ap::i32 query_rows,
              ap::i32 key_rows, ap::i32 q_pe_rows, ap::i32 k_scaled, ap::i32 q_scaled, ap::i32 page, ap::i64 slot_end,
              ap::i64 q_nope_stride_t, ap::i64 q_nope_stride_h, ap::i64 q_pe_stride_t, ap::i64 q_pe_stride_h,
              ap::i64 k_nope_stride_t, ap::i64 k_nope_stride_h, ap::i64 k_pe_stride_t, ap::i64 k_pe_stride_h,
              ap::i64 cache_stride, ap::i64 cache_stride_h, ap::i64 q_out_stride_t, ap::i64 q_out_stride_h,
              ap::i64 q_pe_out_stride_t, ap::i64 q_pe_out_stride_h, ap::i64 k_pe_out_stride_t,
              ap::i64 k_pe_out_stride_h, ap::i64 cos_stride) {
  using namespace ap;
  i32 groups = static_cast<i32>((static_cast<u32>(heads) + kHeads - 1) / kHeads), waves = groups + heads_k;
  // The same in all lanes of a wave: loads by it are scalar ones.
  i32 wave = __builtin_amdgcn_readfirstlane(static_cast<i32>(block_x() * 4 + thread_x() / kWave));
  i32 token = static_cast<i32>(static_cast<u32>(wave) / static_cast<u32>(waves));
  wave -= token * waves;
  bool key = wave >= groups, turned = token < query_rows;
  i32 head = key ? wave - groups : wave * static_cast<i32>(kHeads);
  if (!(key ? token < key_rows : turned)) return;
  i64 slot = token < key_rows ? slots[token] : -1;
  bool there = slot >= 0 && slot < slot_end;
  if (!there && (key ? k_pe_out == nullptr : !all)) return;
  i64 position = turned ? positions[token] : 0;
  position = position < 0 ? 0 : position >= max_position ? max_position - 1 : position;
  u32 width = static_cast<u32>(half), lora = static_cast<u32>(rank);
  angles at = {cos + position * cos_stride, sin + position * cos_stride, width, neox != 0, full != 0};
  u32 nope_at = nope_first ? 0 : 2 * width, pe_at = nope_first ? lora : 0;
  places rows = {0};
  float inverse = 1.0f;
  if (!key) {
    if (q_scaled) inverse = 1.0f / *q_scale;
    query_cell* out = q_out + token * q_out_stride_t + head * q_out_stride_h;
    u32 left = static_cast<u32>(heads - head) < kHeads ? static_cast<u32>(heads - head) : kHeads;
    put_queries({q_nope + token * q_nope_stride_t + head * q_nope_stride_h, q_nope_stride_h},
                {q_pe + token * q_pe_stride_t + head * q_pe_stride_h, q_pe_stride_h}, {out + nope_at, q_out_stride_h},
                {out + pe_at, q_out_stride_h},
                {q_pe_out + token * q_pe_out_stride_t + head * q_pe_out_stride_h, q_pe_out_stride_h}, token < q_pe_rows,
                left, lora, at, inverse);
    return;
  }
  const u16* pe = k_pe + token * k_pe_stride_t + head * k_pe_stride_h;
  if (k_pe_out) {
    u16* out = k_pe_out + token * k_pe_out_stride_t + head * k_pe_out_stride_h;
    if (turned)
      put_pe<false>(pe, out, rows, at, 1.0f);
    else
      put_nope<false>(pe, out, rows, 2 * width, 1.0f);
  }
  if (!there) return;
  if (k_scaled) inverse = 1.0f / *k_scale;
  auto* out = cache + head * cache_stride_h;
  places to = rows;
  if (page) {
    u32 block = static_cast<u32>(slot) / static_cast<u32>(page),
        place = static_cast<u32>(slot) - block * static_cast<u32>(page);
    to.width = kCacheFp8 ? 16 : 8;
    out += block * cache_stride + place % 16 * to.width;
    nope_at = place / 16 * 16 * lora, pe_at = static_cast<u32>(page) * lora + place / 16 * 32 * width;
  } else {
    out += slot * cache_stride;
  }
  put_nope<kCacheFp8>(k_nope + token * k_nope_stride_t + head * k_nope_stride_h, out + nope_at, to, lora, inverse);
  if (turned)
    put_pe<kCacheFp8>(pe, out + pe_at, to, at, inverse);
  else
    put_nope<kCacheFp8>(pe, out + pe_at, to, 2 * width, inverse);
}
