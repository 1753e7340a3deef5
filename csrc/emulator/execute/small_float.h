// Floating-point formats of 16 bits and less: exact decoding, encoding with one rounding.
//
// Eight-bit formats come in two flavours: gfx942 has the "fnuz" ones (one NaN, 0x80, no infinity, no negative zero,
// bias one higher), gfx950 those of the OCP OFP8 specification (e4m3 without infinity, e5m2 like IEEE). Six- and
// four-bit formats are OCP MX: no infinity, no NaN.
//
// Overflow: the 8-bit formats become NaN (e4m3, fnuz) or infinity (OCP e5m2) unless `saturate`, which is
// MODE.FP16_OVFL; then finite values become the largest finite one. A true infinity stays what it is in the format (NaN
// where there is no infinity): AMD describes FP16_OVFL as preserving true infinities. The 6- and 4-bit formats always
// saturate; NaN becomes the largest value with the NaN's sign.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace apb::emu {

enum class SmallFormat : std::uint8_t { E4m3fnuz, E5m2fnuz, E4m3, E5m2, E3m2, E2m3, E2m1 };

struct SmallTraits {
  int bits, mantissa, bias;
  std::uint32_t max;       // code of the largest finite magnitude
  std::uint32_t infinity;  // magnitude that an infinity or an overflow gets (a NaN's where there is no infinity)
  std::uint32_t nan;       // magnitude of a NaN
  bool fnuz;
};

template <SmallFormat F>
inline constexpr SmallTraits kSmallTraits = [] {
  switch (F) {
    case SmallFormat::E4m3fnuz: return SmallTraits{8, 3, 8, 0x7f, 0x80, 0x80, true};
    case SmallFormat::E5m2fnuz: return SmallTraits{8, 2, 16, 0x7f, 0x80, 0x80, true};
    case SmallFormat::E4m3: return SmallTraits{8, 3, 7, 0x7e, 0x7f, 0x7f, false};
    case SmallFormat::E5m2: return SmallTraits{8, 2, 15, 0x7b, 0x7c, 0x7f, false};
    case SmallFormat::E3m2: return SmallTraits{6, 2, 3, 0x1f, 0x1f, 0x1f, false};
    case SmallFormat::E2m3: return SmallTraits{6, 3, 1, 0x1f, 0x1f, 0x1f, false};
    case SmallFormat::E2m1: return SmallTraits{4, 1, 1, 0x7, 0x7, 0x7, false};
  }
  return SmallTraits{};
}();

namespace detail {

inline constexpr std::uint32_t kQuietNan = 0x7fc00000;

constexpr float small_value(const SmallTraits& t, std::uint32_t code) {
  const std::uint32_t magnitude = code & ((1u << (t.bits - 1)) - 1);
  const bool negative = code >> (t.bits - 1) & 1;
  if (t.fnuz && code == 0x80) return std::bit_cast<float>(kQuietNan);
  if (t.bits == 8 && !t.fnuz && magnitude > t.max) {
    const bool infinite = t.mantissa == 2 && magnitude == t.infinity;
    return std::bit_cast<float>((infinite ? 0x7f800000 : kQuietNan) | static_cast<std::uint32_t>(negative) << 31);
  }
  int exponent = static_cast<int>(magnitude >> t.mantissa);
  std::uint32_t mantissa = magnitude & ((1u << t.mantissa) - 1);
  if (exponent == 0)
    exponent = 1;
  else
    mantissa |= 1u << t.mantissa;
  float value = static_cast<float>(mantissa);
  for (int e = exponent - t.bias - t.mantissa; e > 0; --e) value *= 2;
  for (int e = exponent - t.bias - t.mantissa; e < 0; ++e) value /= 2;
  return negative ? -value : value;
}

template <SmallFormat F>
inline constexpr auto kSmallTable = [] {
  std::array<float, std::size_t{1} << kSmallTraits<F>.bits> table{};
  for (std::uint32_t code = 0; code < table.size(); ++code) table[code] = small_value(kSmallTraits<F>, code);
  return table;
}();

}  // namespace detail

// Value of a code, exact. Bits above the format's width must be zero.
template <SmallFormat F>
inline float decode_small(std::uint32_t code) {
  return detail::kSmallTable<F>[code];
}

// The rounding: to nearest even, or stochastic. The random number's top bits are added to the mantissa bits that a normal result
// drops (S1[31:12] for 3 mantissa bits, S1[31:11] for 2: AMD's pseudocode of v_cvt_sr_*), and the sum is cut off. Results below
// the smallest normal number drop more bits. The random number then sits at their top, so that the expectation is still the
// input.
enum class SmallRounding : std::uint8_t { Nearest, Stochastic };

// f32 / 2^scale to the format; `bits` are the f32's. Branch-free so that a loop over lanes becomes vector code.
template <SmallFormat F, SmallRounding R = SmallRounding::Nearest>
inline std::uint32_t encode_small(std::uint32_t bits, bool saturate, int scale = 0, std::uint32_t random = 0) {
  constexpr SmallTraits kT = kSmallTraits<F>;
  constexpr int kSmallest = 1 - kT.bias;  // exponent of the smallest normal number
  const std::uint32_t sign = bits >> 31, magnitude = bits & 0x7fffffff;
  const bool denormal = magnitude < 0x00800000;
  // An f32 denormal is brought into normal form: with a small scale it may end up in range.
  const std::uint32_t normal =
      denormal ? std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 16777216.0f) : magnitude;
  const int exponent = static_cast<int>(normal >> 23) - 127 - (denormal ? 24 : 0) - scale;
  const std::uint32_t mantissa = (normal & 0x7fffff) | 0x800000;
  const int below = exponent < kSmallest ? kSmallest - exponent : 0;
  std::uint32_t rounded;
  if constexpr (R == SmallRounding::Nearest) {
    const int wanted = 23 - kT.mantissa + below, drop = wanted > 25 ? 25 : wanted;
    rounded = (mantissa + (1u << (drop - 1)) - 1 + (mantissa >> drop & 1)) >> drop;
  } else {
    constexpr int kBase = 23 - kT.mantissa;
    const int extra = below > 30 ? 30 : below;
    const std::uint64_t sum = mantissa + (static_cast<std::uint64_t>(random >> (32 - kBase)) << extra);
    rounded = static_cast<std::uint32_t>(sum >> (kBase + extra));
  }
  const int field = exponent < kSmallest ? 0 : exponent + kT.bias;
  // The implicit bit of `rounded` counts as one exponent step, so a carry out of the mantissa needs no case of its own.
  std::uint32_t code = field == 0 ? rounded : (static_cast<std::uint32_t>(field - 1) << kT.mantissa) + rounded;
  code = magnitude == 0 ? 0 : code;
  const bool overflow = code > kT.max;
  code = overflow ? (saturate || kT.bits < 8 ? kT.max : kT.infinity) : code;
  code = magnitude == 0x7f800000 ? kT.infinity : code;
  code = magnitude > 0x7f800000 ? kT.nan : code;
  if (kT.fnuz) return code == 0 || code == 0x80 ? code : code | sign << 7;
  return code | sign << (kT.bits - 1);
}

// --- f16 and bf16 ---

// Nearest even; a NaN stays a (quiet) NaN with the top of its payload.
inline std::uint16_t float_to_brain(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40;
  return static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

// Stochastic forms (gfx950): the random number's top bits under the last kept mantissa bit, as encode_small does it.
std::uint16_t float_to_half_stochastic(float value, std::uint32_t random, bool saturate);
std::uint16_t float_to_brain_stochastic(float value, std::uint32_t random);

// One step of the generator in v_prng_b32 (AMD's pseudocode), also used between the elements of stochastic packed
// conversions.
constexpr std::uint32_t next_random(std::uint32_t x) { return (x << 1) ^ (x >> 31 ? 197u : 0u); }

// E8M0 as the conversions and scaled MFMA read it: the unbiased exponent; 0xff is NaN.
inline constexpr std::uint32_t kE8m0Nan = 0xff;
constexpr int e8m0_exponent(std::uint32_t code) { return static_cast<int>(code) - 127; }

}  // namespace apb::emu
