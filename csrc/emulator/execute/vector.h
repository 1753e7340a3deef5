// Vector instructions as pure functions over rows of 64 lanes. The wrapper (vector.cpp) fetches operands, applies modifiers
// (abs, neg, opsel, SDWA, DPP), calls the function for all 64 lanes, applies omod and clamp, and writes active lanes only.
#pragma once

#include <cstdint>
#include <span>

#include "wave.h"

namespace apb::emu {

// A k-dword operand is k rows one after the other: dword d of lane l is p[d * 64 + l]. `out` never aliases a source.
// Functions compute all 64 lanes whatever EXEC says: no memory, no side effects but `mask_out`.
struct VectorCall {
  const std::uint32_t*
      source[4];  // [3]: the old destination, when the instruction keeps part of it and has three sources already
  std::uint32_t* out;
  std::uint64_t mask_in;   // carry or condition: VCC, or the SGPR pair that the encoding names
  std::uint64_t mask_out;  // compare, carry, div_scale: bits of all lanes; the wrapper masks them with EXEC
  Mode mode;
  Target target;
  const Instruction* instruction;
};
using VectorFunction = void (*)(VectorCall&);

// The masks that an instruction's wrapper needs beside its operands' formats.
enum class Mask : std::uint8_t {
  None,
  Reads,        // v_cndmask, v_div_fmas: VCC or source[2]
  Writes,       // v_cmp, v_add_co, v_div_scale: VCC or the scalar destination
  ReadsWrites,  // v_addc_co
  WritesExec,   // v_cmpx: the destination and EXEC
};

struct VectorEntry {
  Opcode opcode;
  VectorFunction function;
  Mask mask = Mask::None;
  bool reads_destination =
      false;  // v_fmac, v_mad_mixlo, d16: source[2] of the call is the old destination (source[3] when source[2] is an operand)
  bool keeps_high = false;  // 16-bit result goes into one half and keeps the other
};

// The tables, one file each; opcodes that are in none are unknown instructions.
std::span<const VectorEntry>
vector_float_table();  // f16, f32, f64 arithmetic, min/max/med, fract, ldexp, transcendental, div_*
std::span<const VectorEntry>
vector_integer_table();  // integer, bit field, shifts, carries, perm, sad, lerp, bitop3, mov, cndmask
std::span<const VectorEntry> vector_compare_table();  // v_cmp*, v_cmpx*, v_cmp_class
std::span<const VectorEntry>
vector_convert_table();  // v_cvt_* between all formats, fp8/bf8/bf6/fp6/fp4, cvt_scalef32, prng
std::span<const VectorEntry> vector_packed_table();  // VOP3P without MFMA: v_pk_*, v_mad_mix*, v_dot*

// Copies a source operand into `row` form: registers in place, scalars and constants broadcast into `buffer` (dwords x 64).
const std::uint32_t* fetch(const Wave& wave, const Operand& operand, std::uint32_t* buffer);

}  // namespace apb::emu
