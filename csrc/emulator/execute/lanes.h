// Rows of 64 lanes, the bit patterns of the small float formats, and what NaNs become. For lane functions only.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "vector.h"

namespace apb::emu {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

inline float as_f32(u32 bits) { return std::bit_cast<float>(bits); }
inline double as_f64(u64 bits) { return std::bit_cast<double>(bits); }
inline u32 bits_of(float value) { return std::bit_cast<u32>(value); }
inline u64 bits_of(double value) { return std::bit_cast<u64>(value); }

// 64-bit operands: the low dwords of all lanes, then the high ones.
inline u64 get64(const u32* row, int lane) { return row[lane] | static_cast<u64>(row[kLanes + lane]) << 32; }
inline void put64(u32* row, int lane, u64 value) {
  row[lane] = static_cast<u32>(value);
  row[kLanes + lane] = static_cast<u32>(value >> 32);
}

inline constexpr u32 kNanF16 = 0x7e00, kNanF32 = 0x7fc00000;  // what an invalid operation gives: positive, unlike x86
inline constexpr u64 kNanF64 = 0x7ff8000000000000;

inline bool is_nan_f16(u32 bits) { return (bits & 0x7fff) > 0x7c00; }
inline bool is_nan_f32(u32 bits) { return (bits & 0x7fffffff) > 0x7f800000; }

// Exact, and a signalling NaN stays one (the processor's own conversion quiets it, and v_min/v_max must see it).
inline u32 f16_to_f32_bits(u32 half) {
  const u32 magnitude = (half & 0x7fff) << 13;
  const u32 scaled = bits_of(as_f32(magnitude) * 0x1p112f);  // rebias; exact for denormals too
  return scaled | (magnitude >= 0x0f800000 ? 0x7f800000 : 0) | (half & 0x8000) << 16;
}
inline float f16_to_f32(u32 half) { return as_f32(f16_to_f32_bits(half)); }

// In the rounding direction of MXCSR, which the wrapper has set from MODE. NaNs become quiet and keep the upper payload.
inline u32 f32_to_f16(float value) { return static_cast<u16>(_cvtss_sh(value, _MM_FROUND_CUR_DIRECTION)); }

// Rounds to odd: a later rounding to 11 bits or fewer then gives what rounding once would have given, in every direction.
inline float f64_to_f32_odd(double value) {
  const u64 bits = bits_of(value), rest = bits & 0x1fffffff;
  return static_cast<float>(as_f64((bits ^ rest) | (rest ? 0x20000000 : 0)));
}

// Whole rows; f16 in the low half of each dword, zeros above in the result.
inline void f16_row_to_f32(const u32* __restrict half, u32* __restrict single) {
  for (int lane = 0; lane < kLanes; ++lane) single[lane] = f16_to_f32_bits(half[lane] & 0xffff);
}
// The same with every NaN made quiet: for arithmetic, whose results are quiet anyway. Sixteen lanes at a time.
inline void f16_row_to_f32_quiet(const u32* half, u32* single) {
  const __m256i low = _mm256_set1_epi32(0xffff);
  for (int lane = 0; lane < kLanes; lane += 16) {
    const __m256i a = _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(half + lane)), low);
    const __m256i b = _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(half + lane + 8)), low);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8);
    _mm256_storeu_ps(reinterpret_cast<float*>(single + lane), _mm256_cvtph_ps(_mm256_castsi256_si128(packed)));
    _mm256_storeu_ps(reinterpret_cast<float*>(single + lane + 8), _mm256_cvtph_ps(_mm256_extracti128_si256(packed, 1)));
  }
}
inline void f32_row_to_f16(const u32* single, u32* half) {
  for (int lane = 0; lane < kLanes; lane += 8) {
    const __m256 value = _mm256_loadu_ps(reinterpret_cast<const float*>(single + lane));
    const __m256i wide = _mm256_cvtepu16_epi32(_mm256_cvtps_ph(value, _MM_FROUND_CUR_DIRECTION));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(half + lane), wide);
  }
}

// Bit `lane` of the answer is condition(lane).
template <class Condition>
inline u64 collect(Condition condition) {
  u64 mask = 0;
  for (int group = 0; group < kLanes; group += 8) {
    alignas(32) i32 flags[8];
    for (int i = 0; i < 8; ++i) flags[i] = condition(group + i) ? -1 : 0;
    const __m256i vector = _mm256_load_si256(reinterpret_cast<const __m256i*>(flags));
    mask |= static_cast<u64>(static_cast<u32>(_mm256_movemask_ps(_mm256_castsi256_ps(vector)))) << group;
  }
  return mask;
}

// Bit `lane` of the answer is the sign bit of flags[lane].
inline u64 collect_signs(const u32* flags) {
  u64 mask = 0;
  for (int group = 0; group < kLanes; group += 8) {
    const __m256 vector = _mm256_loadu_ps(reinterpret_cast<const float*>(flags + group));
    mask |= static_cast<u64>(static_cast<u32>(_mm256_movemask_ps(vector))) << group;
  }
  return mask;
}

// flags[lane] = all ones where the mask has a one.
inline void spread(u64 mask, u32* __restrict flags) {
  const u32 low = static_cast<u32>(mask), high = static_cast<u32>(mask >> 32);
  for (u32 lane = 0; lane < 32; ++lane) flags[lane] = 0u - (low >> lane & 1);
  for (u32 lane = 0; lane < 32; ++lane) flags[32 + lane] = 0u - (high >> lane & 1);
}

}  // namespace apb::emu
