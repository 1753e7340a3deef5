// The numbers of the timing model, one table per target; each says where it is from.
#pragma once

#include <cstdint>

#include "isa/instruction.h"

namespace apb::emu {

struct TimingNumbers {
  std::uint32_t megahertz;                // s_memrealtime counts 100 MHz beside it
  std::uint32_t issue;                    // cycles between two instructions of one wave
  std::uint32_t branch;                   // more of them when a branch is taken
  std::uint32_t slow;                     // of exp, log, rcp, rsq, sqrt, sin, cos, and of 32-bit products
  std::uint32_t matrix_result;            // from the end of a matrix instruction to a reader of its result
  std::uint32_t memory_line;              // bytes that the vector memory path of a compute unit moves in a cycle
  std::uint32_t cache_bytes, cache_line;  // of the vector L1
  std::uint32_t near, far;                // cycles to the L1 and to what is behind it
  std::uint32_t scalar;                   // of a scalar load
  std::uint32_t lds;                      // to LDS and back, without a conflict
  std::uint32_t banks;                    // of LDS, 4 bytes each
  std::uint32_t read_lanes_16;            // lanes of a 16 byte read that are served together
  std::uint32_t barrier;                  // from the last wave's arrival until they go on
};

const TimingNumbers& timing_numbers(Target target);

// Cycles for which an instruction holds the unit that executes it: SIMD or matrix unit. 0: neither.
std::uint32_t alu_cycles(Target target, const Instruction& instruction);

}  // namespace apb::emu
