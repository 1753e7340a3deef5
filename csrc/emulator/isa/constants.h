// Inline constants and literals in the format of the operand that reads them.
#pragma once

#include <cstdint>

#include "instruction.h"

namespace apb::emu {

// `number` 128..208 and 240..248 into out.low and out.high, by out.format; false for all other numbers.
bool set_inline_constant(std::uint32_t number, Operand& out);
// The 32 bits behind the instruction, widened to out.format.
void set_literal(std::uint32_t bits, Operand& out);

enum class ConstantKind : std::uint8_t { F32, F16, Bf16, F64, Int64, Signed64 };
ConstantKind constant_kind(const Operand& operand);

}  // namespace apb::emu
