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
  static constexpr u32 quiet = 0x00400000, default_nan = nan_f32, infinity = 0x7f800000, magnitude = 0x7fffffff;
  static constexpr int exponent_bits = 8, mantissa_bits = 23, bias = 127;
  static u32 bits(const u32* row, int lane) { return row[lane]; }
  static float get(const u32* row, int lane) { return as_f32(row[lane]); }
  static void put_bits(u32* row, int lane, u32 value) { row[lane] = value; }
  static void put(u32* row, int lane, float value) { row[lane] = bits_of(value); }
};

struct Double {
  using Value = double;
  using Bits = u64;
  static constexpr u64 quiet = 0x0008000000000000, default_nan = nan_f64, infinity = 0x7ff0000000000000,
                       magnitude = 0x7fffffffffffffff;
  static constexpr int exponent_bits = 11, mantissa_bits = 52, bias = 1023;
  static u64 bits(const u32* row, int lane) { return get64(row, lane); }
  static double get(const u32* row, int lane) { return as_f64(get64(row, lane)); }
  static void put_bits(u32* row, int lane, u64 value) { put64(row, lane, value); }
  static void put(u32* row, int lane, double value) { put64(row, lane, bits_of(value)); }
};

// f16 bit patterns; its arithmetic happens in Single.
struct Half {
  using Bits = u32;
  static constexpr u32 quiet = 0x0200, default_nan = nan_f16, infinity = 0x7c00, magnitude = 0x7fff;
  static constexpr int exponent_bits = 5, mantissa_bits = 10, bias = 15;
  static u32 bits(const u32* row, int lane) { return row[lane] & 0xffff; }
  static void put_bits(u32* row, int lane, u32 value) { row[lane] = value; }
};

template <class T>
inline bool is_nan(typename T::Bits bits) {
  return (bits & T::magnitude) > T::infinity;
}
template <class T>
inline bool is_signalling(typename T::Bits bits) {
  return is_nan<T>(bits) && !(bits & T::quiet);
}

template <class T, int sources>
[[gnu::cold, gnu::noinline]] void settle_nans(const u32* const* source, u32* out) {
  for (int lane = 0; lane < lanes; ++lane) {
    if (!is_nan<T>(T::bits(out, lane))) continue;
    typename T::Bits result = T::default_nan;
    for (int i = sources - 1; i >= 0; --i) {
      const auto bits = T::bits(source[i], lane);
      if (is_nan<T>(bits)) result = bits | T::quiet;
    }
    T::put_bits(out, lane, result);
  }
}

// One operation on every lane. `operation` takes as many values as there are sources.
template <class T, int sources, class Operation>
[[gnu::always_inline]] inline void over_lanes(const u32* const* source, u32* __restrict out, Operation operation) {
  const u32* const a = source[0];
  const u32* const b = source[sources > 1 ? 1 : 0];
  const u32* const c = source[sources > 2 ? 2 : 0];
  typename T::Bits unordered = 0;
#pragma clang loop vectorize(enable)
  for (int lane = 0; lane < lanes; ++lane) {
    typename T::Value value;
    if constexpr (sources == 1) value = operation(T::get(a, lane));
    if constexpr (sources == 2) value = operation(T::get(a, lane), T::get(b, lane));
    if constexpr (sources == 3) value = operation(T::get(a, lane), T::get(b, lane), T::get(c, lane));
    T::put(out, lane, value);
    unordered |= static_cast<typename T::Bits>(value != value);
  }
  if (unordered) [[unlikely]]
    settle_nans<T, sources>(source, out);
}

template <class T, int sources, auto operation>
void arithmetic(VectorCall& call) {
  over_lanes<T, sources>(call.source, call.out, operation);
}

// MODE.FP16_OVFL: a finite operation that overflowed gives the largest finite value; infinities that came in stay.
template <int sources>
[[gnu::cold, gnu::noinline]] void keep_finite_f16(const VectorCall& call) {
  for (int lane = 0; lane < lanes; ++lane) {
    if ((call.out[lane] & 0x7fff) != 0x7c00) continue;
    bool infinite = false;
    for (int i = 0; i < sources; ++i) infinite |= (call.source[i][lane] & 0x7fff) == 0x7c00;
    if (!infinite) call.out[lane] -= 1;  // 0x7c00 - 1 is 65504
  }
}

// f16: exact conversion, the operation in f32, one rounding. 24 bits are at least 2 * 11 + 2, so rounding the f32 result of
// + - * / sqrt again changes nothing; `operation` must itself see to it for what is not one of these (fma rounds to odd).
template <int sources, class Operation>
[[gnu::always_inline]] inline void over_lanes_f16(VectorCall& call, Operation operation) {
  alignas(64) u32 wide[sources][lanes];
  alignas(64) u32 result[lanes];
  const u32* rows[3] = {};
  for (int i = 0; i < sources; ++i) {
    f16_row_to_f32_quiet(call.source[i], wide[i]);
    rows[i] = wide[i];
  }
  over_lanes<Single, sources>(rows, result, operation);
  f32_row_to_f16(result, call.out);
  if (call.mode.fp16_overflow()) [[unlikely]]
    keep_finite_f16<sources>(call);
}
template <int sources, auto operation>
void arithmetic_f16(VectorCall& call) {
  over_lanes_f16<sources>(call, operation);
}

// Tables of the parts; vector_float_table() joins them.
std::span<const VectorEntry> vector_float_arithmetic();      // vector_float.cpp
std::span<const VectorEntry> vector_float_minmax();          // vector_float_minmax.cpp
std::span<const VectorEntry> vector_float_transcendental();  // vector_float_transcendental.cpp
std::span<const VectorEntry> vector_float_parts();           // vector_float_parts.cpp: exponents, mantissas, cube maps
std::span<const VectorEntry>
vector_float_divide();  // vector_float_divide.cpp: div_scale, div_fmas, div_fixup, trig_preop

}  // namespace apb::emu
