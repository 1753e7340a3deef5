// The generated tables and what they are made of. Only the decoder reads them.
#pragma once

#include <cstdint>

#include "instruction.h"

namespace apb::emu::tables {

struct Field {
  std::uint8_t low, width;  // never across two dwords
  constexpr std::uint32_t of(const std::uint32_t* code) const {
    return code[low / 32] >> low % 32 & (width == 32 ? ~0u : (1u << width) - 1);
  }
};
struct Pattern {
  std::uint32_t mask, value;
};
enum class Slot : std::uint8_t { d0, d1, s0, s1, s2, s3, x0, x1 };

#include "tables.inc"

}  // namespace apb::emu::tables
