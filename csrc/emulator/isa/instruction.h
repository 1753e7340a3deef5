// One decoded instruction: the frozen record between decoder, disassembler, executor, counters and checks.
#pragma once

#include <array>
#include <cstdint>

#include "opcodes.h"  // generated: Opcode, Encoding, Format, and the tables behind decode()

namespace apb::emu {

struct Wave;
struct Instruction;
// Executes one instruction on one wave. The program counter already points behind it.
using Handler = void (*)(Wave&, const Instruction&);

enum class Target : std::uint8_t { Gfx942, Gfx950 };

enum class OperandKind : std::uint8_t {
  None,
  Sgpr,      // index 0..127 of the scalar file: s0.., flat_scratch, xnack_mask, vcc, ttmp, m0, exec all live there
  Vgpr,      // index 0..255
  Accvgpr,   // index 0..255
  Constant,  // inline constant or literal: its bits, already in the operand's format, are `low` and `high`
  Special,  // value known only when it runs: `index` is the hardware's source number (235..239, 251 vccz, 252 execz, 253 scc, 254 lds_direct)
  Off,      // an address operand that the instruction does not use
};

struct Operand {
  OperandKind kind = OperandKind::None;
  std::uint8_t dwords = 0;      // 1 for everything up to 32 bits
  std::uint16_t index = 0;      // first register; for `constant` the hardware's source number (128..248, 255 literal)
  Format format = Format::Any;  // how the bits are read: f16, f32, pk2_f16, ... (AMD's data formats)
  std::uint32_t low = 0, high = 0;  // constants only; `high` is the second dword of 64-bit operands

  bool used() const { return kind != OperandKind::None && kind != OperandKind::Off; }
};

enum class Variant : std::uint8_t { Plain, Dpp, Sdwa };

// Sub-dword selection of SDWA, in the hardware's numbers.
enum class Select : std::uint8_t { Byte0, Byte1, Byte2, Byte3, Word0, Word1, Dword };

struct Dpp {
  std::uint16_t control = 0;
  std::uint8_t row_mask = 15, bank_mask = 15;
  bool bound_control = false;  // true: lanes without a source read 0 (bound_ctrl:0 in assembly, bit 1 in hardware)
};

struct Sdwa {
  Select destination = Select::Dword;
  std::uint8_t unused = 0;  // rest of the destination: 0 pad with zeros, 1 sign extension, 2 preserve
  std::array<Select, 2> source{Select::Dword, Select::Dword};
  std::array<bool, 2> sign_extend{};
};

// The categories by which counters sort instructions.
enum class Category : std::uint8_t { Salu, Valu, Mfma, Smem, VmemLoad, VmemStore, Atomic, Lds, Branch, Wait, Other };
inline constexpr int kCategoryCount = 11;

struct Instruction {
  Handler execute = nullptr;       // set when the code object is bound to an executor
  const void* function = nullptr;  // what the handler's family needs: a lane function, a matrix shape, ...
  std::uint32_t address = 0;       // bytes from the start of the code
  Opcode opcode{};
  Encoding encoding{};
  std::uint8_t dwords = 0;  // 1..4, literal included
  Category category = Category::Other;
  Variant variant = Variant::Plain;

  // Destinations in assembly order: [0] vdst, sdst, vdata of a load; [1] the scalar destination of carry and compare
  // forms of VOP3SD/SDWA. Sources in assembly order. Stores: [0] address, [1] data. `scale` only in scaled MFMA.
  std::array<Operand, 2> destination{};
  std::array<Operand, 4> source{};
  std::array<Operand, 2> scale{};

  // Bit i belongs to source i; bit 3 of opsel is the destination.
  std::uint8_t abs = 0, neg = 0, neg_hi = 0, opsel = 0, opsel_hi = 0;
  std::uint8_t omod = 0;  // 0 none, 1 times 2, 2 times 4, 3 divided by 2
  bool clamp = false;
  std::uint8_t cbsz = 0, abid = 0, blgp = 0;
  Dpp dpp;
  Sdwa sdwa;

  std::int32_t immediate = 0;  // SOPK, SOPP: sign-extended simm16; s_setreg_imm32: the 32-bit literal is source[0]
  std::int32_t offset = 0;     // memory: byte offset, sign-extended where the hardware does; DS: offset0 | offset1 << 8
  std::uint8_t offset0 = 0, offset1 = 0;
  bool offen = false, idxen = false, lds = false, gds = false;
  bool sc0 = false, sc1 = false, nt = false, glc = false;
  bool sve = false;                                 // scratch: the vector address takes part
  std::uint8_t data_format = 0, number_format = 0;  // typed buffers
};

}  // namespace apb::emu
