// Rotary embedding of MLA's queries and of the new key, and the write of the key into the latent cache, in one launch.
//
// q_out[t, h] = q_nope[t, h] and the turned q_pe[t, h] side by side; cache[slot[t]] the same of k_nope[t] and k_pe[t]. Of a pair
// x' = x * cos - y * sin, y' = y * cos + x * sin, in fp32, rounded once. A negative slot is skipped, its queries too unless `all`.
//
// Build:  T = bf16 | f16       element type of what is read, the tables of cosines and sines too
//         C, Q = T | e4m3fnuz | e4m3fn   cache and q_out: T (bits are moved) or the target's fp8 (value / scale, saturating)
//         ALIGNED = 1          rank is a multiple of 8, pe of 16; all tensors 16-byte aligned, all strides multiples of 8
// Launch: grid x = tokens * cdiv(heads + 1, 4); block x = 256, a wave a head; the last head is the key.
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

AP_INLINE float as_float(u16 bits) { return static_cast<float>(__builtin_bit_cast(elem, bits)); }

template <bool FP8>
AP_INLINE cell<FP8> to_cell(float value, float inverse) {
  if constexpr (FP8)
    return pack1<fp8>(value * inverse);
  else
    return __builtin_bit_cast(u16, to_elem<elem>(value));
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
    for (int i = 0; i < 8; ++i) bits[i] = to_cell<false>(f[i], 1.0f);
    *reinterpret_cast<vec<u16, 8>*>(out) = bits;
  }
}

AP_INLINE void get8(const u16* in, float* f) {
  vec<u16, 8> bits = *reinterpret_cast<const vec<u16, 8>*>(in);
#pragma unroll
  for (int i = 0; i < 8; ++i) f[i] = as_float(bits[i]);
}

struct angles {
  const u16 *cos, *sin;  // of the token's position
  u32 half;
  bool neox;
};

// One pair: x and y are what becomes of them.
AP_INLINE void turn(float& x, float& y, float c, float s) {
  float a = x * c - y * s;
  y = y * c + x * s;
  x = a;
}

template <bool FP8>
AP_INLINE void put_nope(const u16* in, cell<FP8>* out, u32 rank, float inverse) {
  u32 lane = thread_x() % kWave;
#if ALIGNED
  for (u32 i = lane * 8; i < rank; i += kWave * 8) {
    if constexpr (FP8) {
      float f[8];
      get8(in + i, f);
      put8<true>(out + i, f, inverse);
    } else {
      *reinterpret_cast<line*>(out + i) = *reinterpret_cast<const line*>(in + i);
    }
  }
#else
  for (u32 i = lane; i < rank; i += kWave) {
    if constexpr (FP8)
      out[i] = to_cell<true>(as_float(in[i]), inverse);
    else
      out[i] = in[i];
  }
#endif
}

template <bool FP8>
AP_INLINE void put_pe(const u16* in, cell<FP8>* out, angles at, float inverse) {
  u32 lane = thread_x() % kWave;
#if ALIGNED
  float x[8], y[8], c[8], s[8];
  if (at.neox) {
    for (u32 i = lane * 8; i < at.half; i += kWave * 8) {
      get8(in + i, x), get8(in + at.half + i, y), get8(at.cos + i, c), get8(at.sin + i, s);
#pragma unroll
      for (int j = 0; j < 8; ++j) turn(x[j], y[j], c[j], s[j]);
      put8<FP8>(out + i, x, inverse), put8<FP8>(out + at.half + i, y, inverse);
    }
  } else {
    for (u32 i = lane * 8; i < at.half; i += kWave * 8) {
      get8(in + 2 * i, x), get8(in + 2 * i + 8, y), get8(at.cos + i, c), get8(at.sin + i, s);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        turn(x[2 * j], x[2 * j + 1], c[j], s[j]);
        turn(y[2 * j], y[2 * j + 1], c[4 + j], s[4 + j]);
      }
      put8<FP8>(out + 2 * i, x, inverse), put8<FP8>(out + 2 * i + 8, y, inverse);
    }
  }
#else
  for (u32 i = lane; i < at.half; i += kWave) {
    u32 first = at.neox ? i : 2 * i, second = at.neox ? at.half + i : 2 * i + 1;
    float x = as_float(in[first]), y = as_float(in[second]);
    turn(x, y, as_float(at.cos[i]), as_float(at.sin[i]));
    out[first] = to_cell<FP8>(x, inverse);
    out[second] = to_cell<FP8>(y, inverse);
  }
#endif
}

}  // namespace ap

// k_scale and q_scale are read where the cache and q_out are fp8. A position is cut to the rows of the tables.
AP_KERNEL(256)
void rope_mla(const ap::u16* __restrict__ q_nope, const ap::u16* __restrict__ q_pe, const ap::u16* __restrict__ k_nope,
              const ap::u16* __restrict__ k_pe, ap::cell<ap::kCacheFp8>* __restrict__ cache,
              ap::cell<ap::kQueryFp8>* __restrict__ q_out, const ap::i64* __restrict__ slots,
              const float* __restrict__ k_scale, const float* __restrict__ q_scale,
              const ap::i64* __restrict__ positions, const ap::u16* __restrict__ cos, const ap::u16* __restrict__ sin,
              ap::i32 heads, ap::i32 rank, ap::i32 half, ap::i32 max_position, ap::i32 neox, ap::i32 nope_first,
              ap::i32 all, ap::i64 q_nope_stride_t, ap::i64 q_nope_stride_h, ap::i64 q_pe_stride_t,
              ap::i64 q_pe_stride_h, ap::i64 k_nope_stride, ap::i64 k_pe_stride, ap::i64 cache_stride,
              ap::i64 q_out_stride_t, ap::i64 q_out_stride_h) {
  using namespace ap;
  u32 groups = (static_cast<u32>(heads) + 4) / 4;
  u32 token = block_x() / groups;
  // The same in all lanes of a wave: loads by it are scalar ones.
  i32 head = __builtin_amdgcn_readfirstlane(static_cast<i32>((block_x() - token * groups) * 4 + thread_x() / kWave));
  i64 slot = slots[token];
  if (head > heads || (slot < 0 && (head == heads || !all))) return;
  i64 position = positions[token];
  position = position < 0 ? 0 : position >= max_position ? max_position - 1 : position;
  u32 width = static_cast<u32>(half);
  angles at = {cos + position * width, sin + position * width, width, neox != 0};
  u32 nope_at = nope_first ? 0 : 2 * width, pe_at = nope_first ? static_cast<u32>(rank) : 0;
  if (head == heads) {
    float inverse = 1.0f;
    if constexpr (kCacheFp8) inverse = 1.0f / *k_scale;
    auto* out = cache + slot * cache_stride;
    put_nope<kCacheFp8>(k_nope + token * k_nope_stride, out + nope_at, static_cast<u32>(rank), inverse);
    put_pe<kCacheFp8>(k_pe + token * k_pe_stride, out + pe_at, at, inverse);
  } else {
    float inverse = 1.0f;
    if constexpr (kQueryFp8) inverse = 1.0f / *q_scale;
    auto* out = q_out + token * q_out_stride_t + head * q_out_stride_h;
    put_nope<kQueryFp8>(q_nope + token * q_nope_stride_t + head * q_nope_stride_h, out + nope_at,
                        static_cast<u32>(rank), inverse);
    put_pe<kQueryFp8>(q_pe + token * q_pe_stride_t + head * q_pe_stride_h, out + pe_at, at, inverse);
  }
}
