// All-reduce of 2, 4 or 8 devices of one host whose messages are integers of few bits: AITER's QuickReduce, by the protocol of
// `peers.hip`. A part is WORLD segments of `share / WORLD` packs:
//   1. every rank writes the codes of all segments but its own into its region;
//   2. rank r adds segment r: the others' codes, and its own elements as they are; the codes of the sums go where its segment lies;
//   3. all ranks read the codes of all sums: every rank has the same bits.
//
// Code: 32 elements that lie side by side, in the four lanes of a quad, share a scale: -1 / 2^(BITS - 1) of the one that is
//       furthest from zero (the negative one of two), rounded to bf16, or zero where that is less than 2^-126. An element is
//       rint(x * (1 / scale)), within -2^(BITS - 1) .. 2^(BITS - 1) - 1; 1 / scale is rounded to fp32. Where one of the 32 is no
//       finite number the scale is NaN, and so are all of them. Every step is exact or one rounding: a model has the same bits.
// Sums: in the order of the ranks, in fp32; a code times its scale is exact there.
// Segment: planes, then the scales, two bytes for each quad:
//       BITS = 8  eight bytes a pack          BITS = 6  four bytes a pack: the low four bits of each; two bytes: the high two
//       BITS = 4  four bytes a pack           BITS = 3  two bytes a pack: the low two bits of each; one byte: the high one
//
// Build:  T = bf16 | f16; WORLD = 2 | 4 | 8; BITS = 8 | 6 | 4 | 3
// Launch: as peers.hip; share / WORLD is a multiple of 16, so that quads are whole and planes are aligned.
#include "peers.hpp"

namespace ap {

inline constexpr i32 kHalf = 1 << (BITS - 1);
inline constexpr float kSmallest = 0x1p-126f;
inline constexpr u32 kInfinity = 0x7f800000u;

// What one lane's eight elements are on the way. The whole quad has one scale.
struct Code {
  u32 low, high;
  float scale;
};

template <int CTRL>
AP_INLINE u32 quad_max(u32 x) {
  const u32 moved = static_cast<u32>(__builtin_amdgcn_update_dpp(0, static_cast<i32>(x), CTRL, 0xf, 0xf, false));
  return x > moved ? x : moved;
}

AP_INLINE float scale_of(const float (&x)[kPack]) {
  // Magnitudes with the sign behind them are in order as integers, NaN above all.
  u32 key = 0;
#pragma unroll
  for (u32 k = 0; k < kPack; ++k) {
    const u32 bits = __builtin_bit_cast(u32, x[k]), turned = bits << 1 | bits >> 31;
    key = turned > key ? turned : key;
  }
  key = quad_max<0xb1>(key);  // quad_perm 1 0 3 2
  key = quad_max<0x4e>(key);  // quad_perm 2 3 0 1
  if (key >> 1 >= kInfinity) return __builtin_nanf("");
  const float furthest = __builtin_bit_cast(float, key >> 1 | key << 31);
  const float scale = static_cast<float>(to_elem<bf16>(furthest * (-1.0f / kHalf)));
  return abs_f(scale) < kSmallest ? 0.0f : scale;
}

AP_INLINE Code encoded(const float (&x)[kPack]) {
  Code code{0, 0, scale_of(x)};
  const float inverse = code.scale == 0.0f ? 0.0f : 1.0f / code.scale;
#pragma unroll
  for (u32 k = 0; k < kPack; ++k) {
    // A NaN becomes the lower bound.
    const float bounded = __builtin_fminf(__builtin_fmaxf(__builtin_rintf(x[k] * inverse), -kHalf), kHalf - 1);
    const u32 c = static_cast<u32>(static_cast<i32>(bounded) + kHalf);
    if constexpr (BITS == 8) {
      (k < 4 ? code.low : code.high) |= c << (8 * (k % 4));
    } else if constexpr (BITS == 3) {
      code.low |= (c & 3) << (2 * k);
      code.high |= (c >> 2) << k;
    } else {
      code.low |= (c & 15) << (4 * k);
      code.high |= (c >> 4) << (2 * k);
    }
  }
  return code;
}

AP_INLINE void decoded(float (&x)[kPack], const Code& code) {
#pragma unroll
  for (u32 k = 0; k < kPack; ++k) {
    u32 c;
    if constexpr (BITS == 8)
      c = (k < 4 ? code.low : code.high) >> (8 * (k % 4)) & 255;
    else if constexpr (BITS == 3)
      c = (code.low >> (2 * k) & 3) | (code.high >> k & 1) << 2;
    else
      c = (code.low >> (4 * k) & 15) | (BITS == 6 ? (code.high >> (2 * k) & 3) << 4 : 0);
    x[k] = static_cast<float>(static_cast<i32>(c) - kHalf) * code.scale;
  }
}

AP_INLINE i64 segment_bytes(i64 each) { return each * BITS + each / 2; }

AP_INLINE void put(u8* segment, i64 each, i64 i, const Code& code) {
  if constexpr (BITS == 8) {
    reinterpret_cast<vec<u32, 2>*>(segment)[i] = vec<u32, 2>{code.low, code.high};
  } else if constexpr (BITS == 3) {
    reinterpret_cast<u16*>(segment)[i] = static_cast<u16>(code.low);
    segment[2 * each + i] = static_cast<u8>(code.high);
  } else {
    reinterpret_cast<u32*>(segment)[i] = code.low;
    if constexpr (BITS == 6) reinterpret_cast<u16*>(segment + 4 * each)[i] = static_cast<u16>(code.high);
  }
  if (thread_x() % 4 == 0)
    reinterpret_cast<u16*>(segment + each * BITS)[i / 4] = static_cast<u16>(__builtin_bit_cast(u32, code.scale) >> 16);
}

AP_INLINE Code got(const u8* segment, i64 each, i64 i) {
  Code code{0, 0, 0.0f};
  if constexpr (BITS == 8) {
    const vec<u32, 2> both = reinterpret_cast<const vec<u32, 2>*>(segment)[i];
    code.low = both[0];
    code.high = both[1];
  } else if constexpr (BITS == 3) {
    code.low = reinterpret_cast<const u16*>(segment)[i];
    code.high = segment[2 * each + i];
  } else {
    code.low = reinterpret_cast<const u32*>(segment)[i];
    if constexpr (BITS == 6) code.high = reinterpret_cast<const u16*>(segment + 4 * each)[i];
  }
  const u32 scale = reinterpret_cast<const u16*>(segment + each * BITS)[i / 4];
  code.scale = __builtin_bit_cast(float, scale << 16);
  return code;
}

// The elements of pack `at`, zeros behind the last one.
AP_INLINE void read(float (&x)[kPack], const pack* input, i64 at, i64 end) {
  const pack all = at < end ? input[at] : pack{};
#pragma unroll
  for (u32 k = 0; k < kPack; ++k) x[k] = static_cast<float>(all[k]);
}

}  // namespace ap

AP_KERNEL(512) void peer_all_reduce_codes(ap::pack* out, const ap::pack* input, AP_PEERS) {
  AP_BEGIN;
  const i64 each = share / WORLD, bytes = segment_bytes(each);
  const pack* const mine = input + part.first;
  u8* const written = reinterpret_cast<u8*>(own);
  // Quads that begin behind the last pack have no codes.
  const i64 quads = (part.here + 3) / 4 * 4;
  for (i64 i = thread_x(); i < quads; i += kBlock) {
    const u32 segment = static_cast<u32>(i) / static_cast<u32>(each);
    if (static_cast<i32>(segment) == rank) continue;
    float x[kPack];
    read(x, mine, i, part.here);
    put(written + segment * bytes, each, i - segment * each, encoded(x));
  }
  AP_EXCHANGE(step);
  const i64 begin = rank * each;
  for (i64 i = thread_x(); i < each && begin + i < quads; i += kBlock) {
    Code all[WORLD] = {};
#pragma unroll
    for (i32 r = 0; r < WORLD; ++r)
      if (r != rank) all[r] = got(reinterpret_cast<const u8*>(peers.data[r] + part.base) + rank * bytes, each, i);
    float total[kPack], x[kPack], exact[kPack];
    read(exact, mine, begin + i, part.here);
#pragma unroll
    for (i32 r = 0; r < WORLD; ++r) {
      decoded(x, all[r]);
#pragma unroll
      for (u32 k = 0; k < kPack; ++k) {
        const float add = r == rank ? exact[k] : x[k];
        total[k] = r == 0 ? add : total[k] + add;
      }
    }
    put(written + rank * bytes, each, i, encoded(total));
  }
  AP_EXCHANGE(step + 1);
  for (i64 i = thread_x(); i < each && i < quads; i += kBlock) {
    Code all[WORLD] = {};
#pragma unroll
    for (i32 r = 0; r < WORLD; ++r)
      if (r * each + i < part.here)
        all[r] = got(reinterpret_cast<const u8*>(peers.data[r] + part.base) + r * bytes, each, i);
#pragma unroll
    for (i32 r = 0; r < WORLD; ++r) {
      if (r * each + i >= part.here) continue;
      float x[kPack];
      decoded(x, all[r]);
      out[part.first + r * each + i] = rounded(x);
    }
  }
  AP_END;
}
