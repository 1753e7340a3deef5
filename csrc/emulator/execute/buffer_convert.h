// The data and number formats of typed buffer accesses (CDNA3 and CDNA4 ISA, 9.1.11 and the MTBUF encoding).
#pragma once

#include <cstdint>

namespace apb::emu {

namespace number {
enum : std::uint8_t { Unorm, Snorm, Uscaled, Sscaled, Uint, Sint, Reserved, Floating };
}

struct DataFormat {
  std::uint8_t components;  // 0: no such format
  std::uint8_t bytes;       // of the whole element
  std::uint8_t bits[4];     // x in the lowest bits
};
const DataFormat& data_format(unsigned code);

// Can this pair be converted? (There are no floats of 8 bits, no 11-bit integers in 32-bit wholes that are normalised,
// ...)
bool convertible(unsigned data, unsigned numeric);

// One component as the register receives it: floats and normalised numbers as f32, integers extended to 32 bits.
std::uint32_t from_memory(std::uint32_t raw, unsigned bits, unsigned numeric);
// And back: normalised numbers are clamped and rounded to even, integers keep their low bits.
std::uint32_t to_memory(std::uint32_t value, unsigned bits, unsigned numeric);

inline bool is_integer(unsigned numeric) { return numeric == number::Uint || numeric == number::Sint; }

}  // namespace apb::emu
