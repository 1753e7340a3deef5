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
enum class Slot : std::uint8_t { D0, D1, S0, S1, S2, S3, X0, X1 };

#include "tables.inc"

}  // namespace apb::emu::tables
