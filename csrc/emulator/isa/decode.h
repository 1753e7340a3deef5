// Bytes to records. Tables come from AMD's machine-readable ISA data when the library is built (build_tools/isa_tables.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "instruction.h"

namespace apb::emu {

// Decodes the instruction at the start of `code`; false when no encoding of `target` matches (nothing is written then)
// or when `code` ends inside it. `address` is what the record says it is at.
//
// Where operands stand (d: destination, s: source). Operands that an encoding has and an instruction does not use are `off`.
//   VOP*     as in assembly. v_fmamk/v_madmk: s1 is the literal, s2 vsrc1; v_fmaak/v_madak: s2 is the literal.
//            VCC that v_cndmask and v_addc_co read and that carries write in VOP2 (e32, SDWA, DPP) is not an operand.
//            VOPC: d0 is VCC, or the SGPR pair of SDWA. VOP3 compares: d0. VOP3SD: d1.
//            v_readlane, v_readfirstlane: d0 is an sgpr. v_fmac, v_dot2c, ...: what they add to is only d0.
//   VOP3PX2  s0..s2 as the MFMA; scale[0], scale[1]. In f8f6f4 the formats and dwords of s0 and s1 are those that cbsz and blgp say.
//   SOPK     s_cmpk_*, s_setreg_b32, s_cbranch_i_fork: the register is s0; all others d0.
//   SOPC     s_set_gpr_idx_on: s1 is a constant, the four mode bits; `immediate` is the same.
//   SMEM     loads d0; s0 sbase, s1 soffset. Stores, atomics: s0 sbase, s1 sdata, s2 soffset; a returning atomic (glc) has d0 too.
//   DS       d0; s0 addr, then data0, data1. The two addtid instructions have no addr, append and consume have d0 only.
//   FLAT...  loads d0; s0 vaddr, s1 saddr. Loads to LDS the same without d0 (`lds` is set). Stores: s0 vaddr, s1 vdata, s2 saddr.
//            Atomics as stores, with d0 when they return the old value (sc0). FLAT itself has no saddr.
//   MUBUF    loads d0; s0 vaddr, s1 srsrc, s2 soffset; to LDS (`lds`) without d0. Stores: s0 vaddr, s1 vdata, s2 srsrc,
//   MTBUF    s3 soffset. Atomics as stores, with d0 when they return (sc0). Two dwords of vaddr when idxen and offen.
[[nodiscard]] bool decode(Target target, std::span<const std::uint32_t> code, std::uint32_t address, Instruction& out);

// The text that LLVM's assembler reads back into the same bytes, as it prints it: `v_add_f32_e32 v0, s1, v2`. Branch targets are
// printed as their signed word count.
std::string disassemble(Target target, const Instruction& instruction);

// Lower-case name without _e32/_e64/_dpp/_sdwa.
std::string_view mnemonic(Opcode opcode);
std::string_view name(Encoding encoding);
std::string_view name(Target target);

}  // namespace apb::emu
