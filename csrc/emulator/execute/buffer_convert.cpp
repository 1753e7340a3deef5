#include "buffer_convert.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lanes.h"

namespace apb::emu {
namespace {

// Unsigned floats of 11 and 10 bits: 5 bits of exponent with bias 15, the rest fraction.
std::uint32_t small_to_f32(std::uint32_t raw, unsigned bits) {
  const unsigned fraction_bits = bits - 5;
  const std::uint32_t exponent = raw >> fraction_bits, fraction = raw & ((1u << fraction_bits) - 1);
  return f16_to_f32_bits(exponent << 10 | fraction << (10 - fraction_bits));
}

// Towards zero, as D3D and Vulkan define the conversion to these formats; negative numbers become 0.
std::uint32_t f32_to_small(std::uint32_t value, unsigned bits) {
  const unsigned fraction_bits = bits - 5;
  if ((value & 0x7fffffff) > 0x7f800000) return (31u << fraction_bits) | 1u << (fraction_bits - 1);
  if (value >> 31) return 0;
  if (value == 0x7f800000) return 31u << fraction_bits;
  const std::uint32_t largest = (31u << fraction_bits) - 1;
  if (value < 0x38800000)
    return static_cast<std::uint32_t>(std::bit_cast<float>(value) *
                                      std::ldexp(1.0f, 14 + static_cast<int>(fraction_bits)));
  return std::min((value - 0x38000000) >> (23 - fraction_bits), largest);
}

std::int32_t sign_extended(std::uint32_t raw, unsigned bits) {
  return static_cast<std::int32_t>(raw << (32 - bits)) >> (32 - bits);
}

std::uint32_t as_bits(double value) { return std::bit_cast<std::uint32_t>(static_cast<float>(value)); }

}  // namespace

const DataFormat& data_format(unsigned code) {
  static constexpr DataFormat kFormats[16] = {
      {0, 0, {}},                 // invalid
      {1, 1, {8}},                // 8
      {1, 2, {16}},               // 16
      {2, 2, {8, 8}},             // 8_8
      {1, 4, {32}},               // 32
      {2, 4, {16, 16}},           // 16_16
      {3, 4, {11, 11, 10}},       // 10_11_11: named from the highest bits down
      {3, 4, {10, 11, 11}},       // 11_11_10
      {4, 4, {2, 10, 10, 10}},    // 10_10_10_2
      {4, 4, {10, 10, 10, 2}},    // 2_10_10_10
      {4, 4, {8, 8, 8, 8}},       // 8_8_8_8
      {2, 8, {32, 32}},           // 32_32
      {4, 8, {16, 16, 16, 16}},   // 16_16_16_16
      {3, 12, {32, 32, 32}},      // 32_32_32
      {4, 16, {32, 32, 32, 32}},  // 32_32_32_32
      {0, 0, {}},                 // reserved
  };
  return kFormats[code & 15];
}

bool convertible(unsigned data, unsigned numeric) {
  const DataFormat& format = data_format(data);
  if (!format.components || numeric == number::Reserved) return false;
  const unsigned bits = format.bits[0];
  if (numeric == number::Floating) return bits == 32 || bits == 16 || data == 6 || data == 7;
  return bits != 32 || is_integer(numeric);  // 32-bit components are not normalised or scaled
}

std::uint32_t from_memory(std::uint32_t raw, unsigned bits, unsigned numeric) {
  if (bits == 32) return raw;
  const double unsigned_max = (1u << bits) - 1, signed_max = (1u << (bits - 1)) - 1;
  switch (numeric) {
    case number::Unorm: return as_bits(raw / unsigned_max);
    case number::Snorm: return as_bits(std::max(sign_extended(raw, bits) / signed_max, -1.0));
    case number::Uscaled: return as_bits(raw);
    case number::Sscaled: return as_bits(sign_extended(raw, bits));
    case number::Sint: return static_cast<std::uint32_t>(sign_extended(raw, bits));
    case number::Floating: return bits == 16 ? f16_to_f32_bits(raw) : small_to_f32(raw, bits);
    default: return raw;
  }
}

std::uint32_t to_memory(std::uint32_t value, unsigned bits, unsigned numeric) {
  if (bits == 32) return value;
  const std::uint32_t mask = (1u << bits) - 1;
  if (is_integer(numeric)) return value & mask;
  if (numeric == number::Floating)
    return bits == 16 ? f32_to_f16(std::bit_cast<float>(value)) : f32_to_small(value, bits);
  double number = std::bit_cast<float>(value);
  if (std::isnan(number)) number = 0;
  const double unsigned_max = mask, signed_max = mask >> 1;
  switch (numeric) {
    case number::Unorm: return static_cast<std::uint32_t>(std::nearbyint(std::clamp(number, 0.0, 1.0) * unsigned_max));
    case number::Snorm:
      return static_cast<std::uint32_t>(
                 static_cast<std::int32_t>(std::nearbyint(std::clamp(number, -1.0, 1.0) * signed_max))) &
             mask;
    case number::Uscaled: return static_cast<std::uint32_t>(std::clamp(std::trunc(number), 0.0, unsigned_max));
    default:
      return static_cast<std::uint32_t>(
                 static_cast<std::int32_t>(std::clamp(std::trunc(number), -signed_max - 1, signed_max))) &
             mask;
  }
}

}  // namespace apb::emu
