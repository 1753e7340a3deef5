// One instruction on its way from bits to a record. Private to the decoder.
#pragma once

#include <span>

#include "tables.h"

namespace apb::emu::tables {

// Values of a source field that stand for something else.
namespace marker {
constexpr std::uint32_t kSdwa = 249, kDpp = 250, kLiteral = 255, kVgpr = 256;
}

// Fills one record: operands by the row of the opcode, then what only its encoding has.
class Decoder {
 public:
  // `dwords` of the encoding itself: literals and the second dword of SDWA and DPP are counted here.
  Decoder(std::span<const std::uint32_t> code, const OpcodeRow& row, unsigned dwords, Instruction& out)
      : code_(code), row_(row), i_(out), size_(dwords) {}

  bool run();  // false: no such instruction, or it ends behind `code`

 private:
  bool operand(const OperandRow& row, std::uint32_t raw, Operand& out);
  bool source(std::uint32_t raw, Operand& out);
  void scalar(std::uint32_t raw, Operand& out) const;
  Operand& slot(Slot which);
  void variant();
  void modifiers();
  void mixed_constants();
  void dpp_modifiers();
  bool sdwa_modifiers();
  bool sdwa_source(Field scalar, Operand& out);
  void matrix();
  bool scalar_memory();
  void local();
  void flat_memory();
  void buffer();

  std::uint32_t get(Field field) const { return field.of(code_.data()); }
  bool flag(Field field) const { return get(field) != 0; }

  std::span<const std::uint32_t> code_;
  const OpcodeRow& row_;
  Instruction& i_;
  unsigned size_;
  bool literal_ = false;  // read so far: a second operand with the marker shares it
  bool accumulators_ = false;
};

}  // namespace apb::emu::tables
