// Float atomics: add, packed add, minimum, maximum, compare and store. Rounding, denormals and NaN: CDNA4 ISA, 9.2
// "Float Memory Atomics". Functors as in atomic.h.
#pragma once

#include <bit>
#include <cstdint>

#include "lanes.h"
#include "wave.h"

namespace apb::emu::atomic {

// Bits in, bits out: NaN payloads and signed zeros are the ISA's, not the compiler's.
template <typename F>
struct Bits;
template <>
struct Bits<float> {
  using type = std::uint32_t;
  static constexpr type kExponent = 0x7f800000, kQuiet = 0x00400000, kSign = 0x80000000;
  static unsigned denorm(Mode mode) { return mode.denorm_f32(); }
};
template <>
struct Bits<double> {
  using type = std::uint64_t;
  static constexpr type kExponent = 0x7ffull << 52, kQuiet = 1ull << 51, kSign = 1ull << 63;
  static unsigned denorm(Mode mode) { return mode.denorm_f64(); }
};
template <typename F, typename T = typename Bits<F>::type>
inline bool is_nan(T bits) {
  return (bits & ~Bits<F>::kSign) > Bits<F>::kExponent;
}
template <typename F, typename T = typename Bits<F>::type>
inline bool is_signalling(T bits) {
  return is_nan<F>(bits) && !(bits & Bits<F>::kQuiet);
}
template <typename F, typename T = typename Bits<F>::type>
inline T flushed(T bits, bool keep) {
  return keep || (bits & Bits<F>::kExponent) ? bits : bits & Bits<F>::kSign;
}

// The sum; a NaN operand wins (the first one, made quiet), inf - inf is the positive quiet NaN. FP_DENORM: bit 0 keeps
// denormal inputs, bit 1 denormal results.
template <typename F, typename T = typename Bits<F>::type>
inline T add_bits(T a, T b, unsigned denorm) {
  if (is_nan<F>(a)) return a | Bits<F>::kQuiet;
  if (is_nan<F>(b)) return b | Bits<F>::kQuiet;
  const F sum = std::bit_cast<F>(flushed<F>(a, denorm & 1)) + std::bit_cast<F>(flushed<F>(b, denorm & 1));
  if (sum != sum) return Bits<F>::kExponent | Bits<F>::kQuiet;
  return flushed<F>(std::bit_cast<T>(sum), denorm & 2);
}
// f64 never flushes (table 53).
struct AddF32 {
  using type = std::uint32_t;
  type operator()(type m, type d, type, Mode mode) const { return add_bits<float>(m, d, mode.denorm_f32()); }
};
struct AddF64 {
  using type = std::uint64_t;
  type operator()(type m, type d, type, Mode) const { return add_bits<double>(m, d, 3); }
};

// An order in which -0 < +0; a quiet NaN loses against every number, a signalling one is returned as quiet.
// Denormals are flushed for the comparison only: the result is one of the operands as it is.
template <typename F, bool Maximum>
struct Select {
  using type = typename Bits<F>::type;
  type operator()(type m, type d, type, Mode mode) const {
    if (is_signalling<F>(m)) return m | Bits<F>::kQuiet;
    if (is_signalling<F>(d)) return d | Bits<F>::kQuiet;
    if (is_nan<F>(d)) return m;
    if (is_nan<F>(m)) return d;
    const bool keep = Bits<F>::denorm(mode) & 1;
    const F a = std::bit_cast<F>(flushed<F>(m, keep)), b = std::bit_cast<F>(flushed<F>(d, keep));
    const bool a_negative = m & Bits<F>::kSign, b_negative = d & Bits<F>::kSign;
    const bool less = b < a || (a == b && b_negative && !a_negative);  // data below memory
    const bool greater = b > a || (a == b && !b_negative && a_negative);
    return (Maximum ? greater : less) ? d : m;
  }
};
template <typename F>
struct CompareStoreFloat {
  using type = typename Bits<F>::type;
  type operator()(type m, type d, type d2, Mode mode) const {
    const bool keep = Bits<F>::denorm(mode) & 1;
    if (is_nan<F>(m) || is_nan<F>(d)) return m;
    const bool equal = std::bit_cast<F>(flushed<F>(m, keep)) == std::bit_cast<F>(flushed<F>(d, keep));
    return flushed<F>(equal ? d2 : m, keep);
  }
};

// Rounded to nearest even. The sum of two f16 (two bf16) rounded to 24 bits and then to 11 (8) is the sum rounded once,
// because 24 >= 2 * 11 + 2.
inline std::uint32_t f32_to_bf16(std::uint32_t bits) {
  if ((bits & 0x7fffffff) > 0x7f800000) return bits >> 16 | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

inline std::uint32_t add_f16(std::uint32_t a, std::uint32_t b, unsigned denorm) {
  const auto in = [&](std::uint32_t h) { return denorm & 1 || h & 0x7c00 ? h : h & 0x8000; };
  const std::uint32_t sum =
      f32_to_f16(std::bit_cast<float>(add_bits<float>(f16_to_f32_bits(in(a)), f16_to_f32_bits(in(b)), 3)));
  return denorm & 2 || sum & 0x7c00 ? sum : sum & 0x8000;
}
inline std::uint32_t add_bf16(std::uint32_t a, std::uint32_t b, unsigned denorm) {
  const auto keep_in = [&](std::uint32_t h) { return denorm & 1 || h & 0x7f80 ? h : h & 0x8000; };
  const std::uint32_t sum = f32_to_bf16(add_bits<float>(keep_in(a) << 16, keep_in(b) << 16, 3));
  return denorm & 2 || sum & 0x7f80 ? sum : sum & 0x8000;
}
struct PackedAddF16 {
  using type = std::uint32_t;
  type operator()(type m, type d, type, Mode mode) const {
    const unsigned denorm = mode.denorm_f64();  // the field rules f16 too
    return add_f16(m & 0xffff, d & 0xffff, denorm) | add_f16(m >> 16, d >> 16, denorm) << 16;
  }
};
struct PackedAddBf16 {
  using type = std::uint32_t;
  type operator()(type m, type d, type, Mode mode) const {
    const unsigned denorm = mode.denorm_f64();
    return add_bf16(m & 0xffff, d & 0xffff, denorm) | add_bf16(m >> 16, d >> 16, denorm) << 16;
  }
};

}  // namespace apb::emu::atomic
