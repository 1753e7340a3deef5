#include "machine/timing/timing_numbers.h"

#include "execute/matrix.h"

namespace apb::emu {
namespace {

// Sources, by their letters in the rows:
//   W  AMD's CDNA 3 and CDNA 4 white papers: peak clocks, 16 lanes a SIMD (a wave's instruction takes 4 cycles), 64 bytes a cycle
//      and 128 byte lines of the L1 of 32 KiB, 128 bytes a cycle of LDS, twice that for reads on CDNA 4
//   L  LLVM, SISchedule.td and GCNHazardRecognizer.cpp: quarter rate instructions, passes of matrix instructions, wait states
//   H  HipKittens (arXiv 2511.08083) and AMD's article on bank conflicts in CK Tile: banks, and which lanes go together
//   A  assumed, in the order of what microbenchmarks of CDNA 3 print: it moves the fixed part of a kernel's time, which is fitted
constexpr TimingNumbers kGfx942 = {
    .megahertz = 2100,     // W
    .issue = 4,            // W
    .branch = 16,          // A
    .slow = 16,            // L
    .matrix_result = 12,   // L: passes + 3 wait states
    .memory_line = 64,     // W
    .cache_bytes = 32768,  // W
    .cache_line = 128,     // W
    .near = 120,           // A
    .far = 500,            // A: an L2 hit
    .scalar = 200,         // A
    .lds = 64,             // A
    .banks = 32,           // H
    .read_lanes_16 = 8,    // H
    .barrier = 16,         // A
};
constexpr TimingNumbers kGfx950 = {
    .megahertz = 2400,     // W
    .issue = 4,            // W
    .branch = 16,          // A
    .slow = 16,            // L
    .matrix_result = 16,   // L: passes + 4 wait states
    .memory_line = 64,     // W
    .cache_bytes = 32768,  // W
    .cache_line = 128,     // W
    .near = 120,           // A
    .far = 500,            // A: an L2 hit
    .scalar = 200,         // A
    .lds = 64,             // A
    .banks = 64,           // H
    .read_lanes_16 = 16,   // H
    .barrier = 16,         // A
};

constexpr std::uint32_t kPass = 4;  // cycles of a pass: W, and AMD's matrix instruction calculator

// L: SIDPGFX942FullSpeedModel, SIDPGFX950FullSpeedModel. 8-bit operands of the f8f6f4 shapes take twice as long as narrower ones.
std::uint32_t passes(Target target, const MatrixShape& shape, const Instruction& i) {
  constexpr std::uint8_t kLastOf8Bits = 1;  // CBSZ and BLGP: fp8, bf8, then narrower ones
  if (shape.a == Element::ByFormat) {
    const std::uint32_t narrow = shape.m == 16 ? 4 : 8;
    return i.cbsz <= kLastOf8Bits || i.blgp <= kLastOf8Bits ? 2 * narrow : narrow;
  }
  if (shape.a == Element::F64) return shape.m == 4 ? 4 : target == Target::Gfx950 ? 16 : 8;
  if (shape.m == 4) return 2;
  const bool slow = shape.a == Element::F32 || shape.blocks > 1;
  return (shape.m == 16 ? 4u : 8u) * (slow ? 2 : 1);
}

bool is_slow(Opcode opcode) {
  switch (opcode) {
    case Opcode::V_EXP_F32:
    case Opcode::V_LOG_F32:
    case Opcode::V_RCP_F32:
    case Opcode::V_RCP_IFLAG_F32:
    case Opcode::V_RSQ_F32:
    case Opcode::V_SQRT_F32:
    case Opcode::V_SIN_F32:
    case Opcode::V_COS_F32:
    case Opcode::V_EXP_F16:
    case Opcode::V_LOG_F16:
    case Opcode::V_RCP_F16:
    case Opcode::V_RSQ_F16:
    case Opcode::V_SQRT_F16:
    case Opcode::V_SIN_F16:
    case Opcode::V_COS_F16:
    case Opcode::V_RCP_F64:
    case Opcode::V_RSQ_F64:
    case Opcode::V_SQRT_F64:
    case Opcode::V_MUL_LO_U32:
    case Opcode::V_MUL_HI_U32:
    case Opcode::V_MUL_HI_I32:
    case Opcode::V_MAD_U64_U32:
    case Opcode::V_MAD_I64_I32: return true;
    default: return false;
  }
}

}  // namespace

const TimingNumbers& timing_numbers(Target target) { return target == Target::Gfx950 ? kGfx950 : kGfx942; }

std::uint32_t alu_cycles(Target target, const Instruction& i) {
  if (i.category == Category::Mfma) {
    const MatrixShape* shape = find_matrix(target, i);
    return shape != nullptr ? kPass * passes(target, *shape, i) : timing_numbers(target).issue;
  }
  if (i.category != Category::Valu) return 0;
  return is_slow(i.opcode) ? timing_numbers(target).slow : timing_numbers(target).issue;
}

}  // namespace apb::emu
