// Templates of the floating-point lane functions, shared by vector_float*.cpp.
//
// NaN rule of this library (AMD's pseudocode leaves it open): the first NaN among the sources, in the order S0, S1, S2,
// made quiet, its sign and payload kept; an invalid operation without a NaN source gives the positive default NaN.
// x86 has other rules for sign and order, and compilers swap operands, so NaN results are settled after the loop.
#pragma once

#include <cmath>

#include "lanes.h"

namespace apb::emu {

struct Single {
  using Value = float;
  using Bits = u32;
  static constexpr u32 kQuiet = 0x00400000, kDefaultNan = kNanF32, kInfinity = 0x7f800000, kMagnitude = 0x7fffffff;
  static constexpr int kExponentBits = 8, kMantissaBits = 23, kBias = 127;
  static u32 bits(const u32* row, int lane) { return row[lane]; }
  static float get(const u32* row, int lane) { return as_f32(row[lane]); }
  static void put_bits(u32* row, int lane, u32 value) { row[lane] = value; }
  static void put(u32* row, int lane, float value) { row[lane] = bits_of(value); }
};

struct Double {
  using Value = double;
  using Bits = u64;
  static constexpr u64 kQuiet = 0x0008000000000000, kDefaultNan = kNanF64, kInfinity = 0x7ff0000000000000,
                       kMagnitude = 0x7fffffffffffffff;
  static constexpr int kExponentBits = 11, kMantissaBits = 52, kBias = 1023;
  static u64 bits(const u32* row, int lane) { return get64(row, lane); }
  static double get(const u32* row, int lane) { return as_f64(get64(row, lane)); }
  static void put_bits(u32* row, int lane, u64 value) { put64(row, lane, value); }
  static void put(u32* row, int lane, double value) { put64(row, lane, bits_of(value)); }
};

// f16 bit patterns; its arithmetic happens in Single.
struct Half {
  using Bits = u32;
  static constexpr u32 kQuiet = 0x0200, kDefaultNan = kNanF16, kInfinity = 0x7c00, kMagnitude = 0x7fff;
  static constexpr int kExponentBits = 5, kMantissaBits = 10, kBias = 15;
  static u32 bits(const u32* row, int lane) { return row[lane] & 0xffff; }
  static void put_bits(u32* row, int lane, u32 value) { row[lane] = value; }
};

template <class T>
inline bool is_nan(typename T::Bits bits) {
  return (bits & T::kMagnitude) > T::kInfinity;
}
template <class T>
inline bool is_signalling(typename T::Bits bits) {
  return is_nan<T>(bits) && !(bits & T::kQuiet);
}

template <class T, int Sources>
[[gnu::cold, gnu::noinline]] void settle_nans(const u32* const* source, u32* out) {
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!is_nan<T>(T::bits(out, lane))) continue;
    typename T::Bits result = T::kDefaultNan;
    for (int i = Sources - 1; i >= 0; --i) {
      const auto bits = T::bits(source[i], lane);
      if (is_nan<T>(bits)) result = bits | T::kQuiet;
    }
    T::put_bits(out, lane, result);
  }
}

// One operation on every lane. `operation` takes as many values as there are sources.
template <class T, int Sources, class Operation>
[[gnu::always_inline]] inline void over_lanes(const u32* const* source, u32* __restrict out, Operation operation) {
  const u32* const a = source[0];
  const u32* const b = source[Sources > 1 ? 1 : 0];
  const u32* const c = source[Sources > 2 ? 2 : 0];
  typename T::Bits unordered = 0;
#pragma clang loop vectorize(enable)
  for (int lane = 0; lane < kLanes; ++lane) {
    typename T::Value value;
    if constexpr (Sources == 1) value = operation(T::get(a, lane));
    if constexpr (Sources == 2) value = operation(T::get(a, lane), T::get(b, lane));
    if constexpr (Sources == 3) value = operation(T::get(a, lane), T::get(b, lane), T::get(c, lane));
    T::put(out, lane, value);
    unordered |= static_cast<typename T::Bits>(value != value);
  }
  if (unordered) [[unlikely]]
    settle_nans<T, Sources>(source, out);
}

template <class T, int Sources, auto Operation>
void arithmetic(VectorCall& call) {
  over_lanes<T, Sources>(call.source, call.out, Operation);
}

// MODE.FP16_OVFL: a finite operation that overflowed gives the largest finite value; infinities that came in stay.
template <int Sources>
[[gnu::cold, gnu::noinline]] void keep_finite_f16(const VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((call.out[lane] & 0x7fff) != 0x7c00) continue;
    bool infinite = false;
    for (int i = 0; i < Sources; ++i) infinite |= (call.source[i][lane] & 0x7fff) == 0x7c00;
    if (!infinite) call.out[lane] -= 1;  // 0x7c00 - 1 is 65504
  }
}

// f16: exact conversion, the operation in f32, one rounding. 24 bits are at least 2 * 11 + 2, so rounding the f32 result of
// + - * / sqrt again changes nothing; `operation` must itself see to it for what is not one of these (fma rounds to odd).
template <int Sources, class Operation>
[[gnu::always_inline]] inline void over_lanes_f16(VectorCall& call, Operation operation) {
  alignas(64) u32 wide[Sources][kLanes];
  alignas(64) u32 result[kLanes];
  const u32* rows[3] = {};
  for (int i = 0; i < Sources; ++i) {
    f16_row_to_f32_quiet(call.source[i], wide[i]);
    rows[i] = wide[i];
  }
  over_lanes<Single, Sources>(rows, result, operation);
  f32_row_to_f16(result, call.out);
  if (call.mode.fp16_overflow()) [[unlikely]]
    keep_finite_f16<Sources>(call);
}
template <int Sources, auto Operation>
void arithmetic_f16(VectorCall& call) {
  over_lanes_f16<Sources>(call, Operation);
}

// Tables of the parts; vector_float_table() joins them.
std::span<const VectorEntry> vector_float_arithmetic();      // vector_float.cpp
std::span<const VectorEntry> vector_float_minmax();          // vector_float_minmax.cpp
std::span<const VectorEntry> vector_float_transcendental();  // vector_float_transcendental.cpp
std::span<const VectorEntry> vector_float_parts();           // vector_float_parts.cpp: exponents, mantissas, cube maps
std::span<const VectorEntry>
vector_float_divide();  // vector_float_divide.cpp: div_scale, div_fmas, div_fixup, trig_preop

}  // namespace apb::emu
