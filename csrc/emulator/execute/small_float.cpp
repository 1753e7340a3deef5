// Stochastic rounding to 16 bits.
#include "small_float.h"

namespace apb::emu {

std::uint16_t float_to_half_stochastic(float value, std::uint32_t random, bool saturate) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude == 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7c00);
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const std::uint32_t mantissa =
      magnitude >= 0x800000 ? (magnitude & 0x7fffff) | 0x800000 : 0;  // f32 denormals are nothing here
  const int extra = exponent < -14 ? (-14 - exponent > 30 ? 30 : -14 - exponent) : 0;
  const std::uint64_t sum = mantissa + (mantissa ? static_cast<std::uint64_t>(random >> 19) << extra : 0);
  auto code = static_cast<std::uint32_t>(sum >> (13 + extra));
  if (exponent >= -14) code += static_cast<std::uint32_t>(exponent + 14) << 10;
  if (code >= 0x7c00) code = saturate ? 0x7bff : 0x7c00;
  return static_cast<std::uint16_t>(sign | code);
}

std::uint16_t float_to_brain_stochastic(float value, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffff) >= 0x7f800000) return float_to_brain(value);
  return static_cast<std::uint16_t>((bits + (random >> 16)) >> 16);  // a carry may reach infinity, as rounding up does
}

}  // namespace apb::emu
