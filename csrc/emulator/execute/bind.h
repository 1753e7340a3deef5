// Gives each decoded instruction its handler. One function per family; the first that knows the opcode wins.
#pragma once

#include "isa/instruction.h"
#include "wave.h"

namespace apb::emu {

// Sets `execute` and `function`. False: nobody knows it; `execute` is then a handler that raises unknown_instruction.
bool bind(Target target, Instruction& instruction);

bool bind_scalar(Target target, Instruction& instruction);  // SOP1, SOP2, SOPC, SOPK, SOPP
bool bind_vector(Target target, Instruction& instruction);  // VOP1, VOP2, VOPC, VOP3, VOP3P by the tables of vector.h
// v_readlane, v_readfirstlane, v_writelane, permlane swaps, v_accvgpr_*
bool bind_cross_lane(Target target, Instruction& instruction);
bool bind_matrix(Target target, Instruction& instruction);         // v_mfma_*, v_smfmac_*
bool bind_scalar_memory(Target target, Instruction& instruction);  // SMEM
bool bind_global(Target target, Instruction& instruction);  // FLAT, GLOBAL, SCRATCH, with atomics and LDS-direct loads
bool bind_buffer(Target target, Instruction& instruction);  // MUBUF, MTBUF
bool bind_lds(Target target, Instruction& instruction);     // DS

// Runs the wave until it stops or `budget` instructions are done. `code` has one record per dword (holes between).
void run(Wave& wave, const Instruction* code, std::uint64_t budget);

}  // namespace apb::emu
