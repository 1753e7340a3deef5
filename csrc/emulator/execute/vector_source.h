// Changes operands before a lane function and its result after it, when an instruction has modifiers or MODE is not the usual
// one. The fast path in vector.cpp needs none of this.
#pragma once

#include "lanes.h"

namespace apb::emu {

// A table's entry and what follows from the opcode; Instruction::function points to one.
struct BoundVector {
  VectorFunction function = nullptr;
  Mask mask = Mask::None;
  bool reads_destination = false, keeps_high = false;
  bool own_modifiers = false;  // VOP3P and its relatives in VOP2: the function reads opsel, neg, abs itself
  bool flushes_sources = false, flushes_result = false;  // obeys MODE's denormal bits
  std::uint8_t integer_sources =
      0;  // bit i: not flushed, abs and neg do not apply (exponent of ldexp, mask of class, all of bitop3)
};

inline constexpr int kWidest = 32;  // dwords of the widest operand: 32 f32 of v_cvt_scalef32_*_pk32
using WideRow = u32[kWidest * kLanes];

constexpr bool is_16_bit(Format format) {
  return format == Format::F16 || format == Format::Bf16 || format == Format::I16 || format == Format::U16 ||
         format == Format::B16;
}

// Source i with its modifiers. May be a register in place or `buffer`. DPP takes lanes out of `writable`.
const u32* modified_source(const Wave& wave, const Instruction& instruction, int index, u32* buffer, u64& writable);

// The old destination as a source (v_fmac and others), without modifiers. In place or in `buffer`.
const u32* accumulator_row(const Wave& wave, const Instruction& instruction, u32* buffer);

// omod, clamp, denormals of the result.
void modify_result(const Mode& mode, const Instruction& instruction, u32* out);

// Into the vector destination: lanes of `writable`, half, byte or word of each by opsel, keeps_high and SDWA.
void write_result(Wave& wave, const Instruction& instruction, const u32* out, u64 writable);

// For the lanes of `writable` (all ones: the whole row).
void write_rows(u32* destination, const u32* out, int dwords, u64 writable);

}  // namespace apb::emu
