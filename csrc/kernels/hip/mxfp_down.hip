// Rows of floats as MXFP4 or MXFP8: a power of two for each 32 columns, and codes that are cut at the largest one.
//
// A lane has eight neighbouring columns, a group four lanes, which two DPP steps ask for their largest; the last group of a row may be a
// part. OCP's fp8 is made of integers, since gfx942 converts to another, and so is fp4, which here goes up halfway.
//
// Build:  T = bf16 | f16 | f32     element type of src
//         Q = u8                   two fp4 in a byte, the first in the lower half; columns are even
//             e4m3fn | e5m2        OCP's, on both targets
//         WIDE = 1                 rows are of whole eights, src begins at 16 bytes, codes at 4 (fp8: 8)
//                0                 one element at a time
//         BLOCK = 256              threads of a block
// Launch: grid x = cdiv(rows * cdiv(columns, 32) * 4, BLOCK), block x = BLOCK, no LDS.
#include "common.hpp"

namespace ap {

using f32 = float;
using elem = T;
struct e5m2 {};
inline constexpr u32 kEach = 8, kGroup = 32, kInfinity = 0x7F800000;
inline constexpr bool kFp4 = same<Q, u8>;
// Bits of a code's fraction, the exponent that its codes have as 1, and how far the largest number's exponent lies above 0. Of all of them that
// number is so much of a power of two.
inline constexpr u32 kFraction = same<Q, e4m3fn> ? 3 : 2, kLeast = same<Q, e4m3fn> ? 127 - 6 : 127 - 14;
inline constexpr u32 kTop = kFp4 ? 2 : same<Q, e4m3fn> ? 8 : 15;
inline constexpr u32 kPart = kFp4 ? 0x400000 : 0x600000;

AP_INLINE u32 bits(float x) { return __builtin_bit_cast(u32, x); }
AP_INLINE float number(u32 x) { return __builtin_bit_cast(float, x); }
AP_INLINE u32 larger(u32 a, u32 b) { return a > b ? a : b; }

template <int CTRL>
AP_INLINE u32 largest(u32 x) {
  return larger(x, static_cast<u32>(__builtin_amdgcn_update_dpp(0, static_cast<int>(x), CTRL, 0xf, 0xf, false)));
}

// e8m0 of a group from the bits of its largest size: of size / largest code the power of two, up (1 at least) or down (0 where there is none).
AP_INLINE u32 power_of(u32 top, bool down) {
  if (top == 0) return 0;
  u32 power = (top + (down ? 0x800000 - kPart : 0x7FFFFF - kPart)) >> 23, less = kTop + (down ? 1 : 0);
  return larger(power, less + (down ? 0 : 1)) - less;
}

// 1 / 2^(b - 127); 2^-127 has a bit of its own, and nothing is left of a group without a power.
AP_INLINE float inverse_of(u32 b) { return b == 0 ? 0.0f : number(b == 254 ? 0x400000 : (254 - b) << 23); }

// The code of one number, already scaled.
AP_INLINE u32 code_of(float x) {
  u32 sign = bits(x) >> 31, size = bits(x) & 0x7FFFFFFF;
  if constexpr (kFp4) {
    // From 1 on the upper bits are the code, which begins at an exponent of 126; below there are 0, a half and 1.
    u32 cut = size < 0x40C00000 ? size : 0x40C00000, small = (size >= 0x3E800000) + (size >= 0x3F400000);
    return (size < 0x3F800000 ? small : ((cut + 0x200000) >> 22) - (126 << 1)) | sign << 3;
  } else {
    constexpr u32 kMost = (127 + kTop) << 23 | kPart, kShift = 23 - kFraction;
    // Below the smallest normal number one step is the last bit of this one.
    constexpr float kStep = __builtin_bit_cast(float, (kLeast + kShift) << 23);
    u32 cut = size < kMost ? size : kMost;
    u32 normal = ((cut + (1u << (kShift - 1)) - 1 + (cut >> kShift & 1)) >> kShift) - ((kLeast - 1) << kFraction);
    u32 code = cut < kLeast << 23 ? bits(number(cut) + kStep) & 0xFF : normal;
    return (size > kInfinity ? 0x7Fu : code) | sign << 7;
  }
}

}  // namespace ap

// src and codes [rows, columns] and powers [rows, cdiv(columns, 32)], contiguous. A number that is infinite, or of fp4 NaN, costs its group, whose
// power is 255 then: its codes are NaN, of fp4 0. Of fp8 NaN counts for nothing otherwise.
AP_KERNEL(BLOCK)
void downcast_to_mxfp(ap::u8* __restrict__ out, ap::u8* __restrict__ powers, const ap::elem* __restrict__ src, ap::i32 rows,
                      ap::i32 columns, ap::i32 down) {
  using namespace ap;
  u32 width = static_cast<u32>(columns), groups = (width + kGroup - 1) / kGroup, lanes = groups * (kGroup / kEach);
  u32 at = block_x() * BLOCK + thread_x(), row = at / lanes;
  // Whole groups leave.
  if (row >= static_cast<u32>(rows)) return;
  u32 lane = at - row * lanes, column = lane * kEach, there = column < width ? width - column : 0;
  i64 first = static_cast<i64>(row) * width + column;
  float v[kEach];
#if WIDE
  constexpr u32 kPack = 16 / sizeof(elem);
#pragma unroll
  for (u32 i = 0; i < kEach; ++i) v[i] = 0.0f;
  if (there != 0) {
#pragma unroll
    for (u32 k = 0; k < kEach; k += kPack) {
      vec<elem, kPack> p = *reinterpret_cast<const vec<elem, kPack>*>(src + first + k);
#pragma unroll
      for (u32 i = 0; i < kPack; ++i) v[k + i] = static_cast<float>(p[i]);
    }
  }
#else
#pragma unroll
  for (u32 i = 0; i < kEach; ++i) v[i] = i < there ? static_cast<float>(src[first + i]) : 0.0f;
#endif
  u32 top = 0;
#pragma unroll
  for (u32 i = 0; i < kEach; ++i) {
    u32 size = bits(v[i]) & 0x7FFFFFFF;
    top = larger(top, !kFp4 && size > kInfinity ? 0 : size);
  }
  top = largest<0x4e>(largest<0xb1>(top));  // quad_perm: lanes 1, 0, 3, 2, then 2, 3, 0, 1
  bool lost = top >= kInfinity;
  u32 power = lost ? 255 : power_of(top, down != 0);
  float inverse = lost ? number(0x7FC00000) : inverse_of(power);
  u32 codes[kEach];
#pragma unroll
  for (u32 i = 0; i < kEach; ++i) codes[i] = kFp4 && lost ? 0 : code_of(v[i] * inverse);
  if (lane % (kGroup / kEach) == 0) powers[static_cast<i64>(row) * groups + lane / (kGroup / kEach)] = static_cast<u8>(power);
  if (there == 0) return;
  if constexpr (kFp4) {
    u8* to = out + first / 2;
    u32 w = 0;
#pragma unroll
    for (u32 i = 0; i < kEach; ++i) w |= codes[i] << (4 * i);
#if WIDE
    *reinterpret_cast<u32*>(to) = w;
#else
#pragma unroll
    for (u32 i = 0; i < kEach / 2; ++i) {
      if (2 * i < there) to[i] = static_cast<u8>(w >> (8 * i));
    }
#endif
  } else {
    u8* to = out + first;
#if WIDE
    *reinterpret_cast<vec<u32, 2>*>(to) = vec<u32, 2>{codes[0] | codes[1] << 8 | codes[2] << 16 | codes[3] << 24,
                                                      codes[4] | codes[5] << 8 | codes[6] << 16 | codes[7] << 24};
#else
#pragma unroll
    for (u32 i = 0; i < kEach; ++i) {
      if (i < there) to[i] = static_cast<u8>(codes[i]);
    }
#endif
  }
}
