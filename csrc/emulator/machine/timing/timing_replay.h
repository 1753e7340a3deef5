// The waves of one compute unit, side by side, from their traces.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "machine/timing/timing_wave.h"

namespace apb::emu {

using WaveTrace = std::vector<TimingStep>;

// The time of a workgroup, and the busy time of each unit of its compute unit meanwhile.
struct GroupTime {
  std::uint64_t cycles = 0, instructions = 0;
  std::uint64_t matrix = 0, vector = 0, memory = 0, lds = 0;  // busy cycles; matrix and vector: of the busiest SIMD
  std::uint64_t conflicts = 0;                                // cycles of LDS because of banks
  std::uint64_t bytes = 0, missed_bytes = 0;                  // of vector memory: asked for, and not found in the L1
  std::uint64_t waits[kTimingWaits] = {};                     // cycles of all waves together
};

// `copies` workgroups that are resident together, all like this one; the time until the last of them ends.
GroupTime replay(Target target, const Instruction* code, std::span<const WaveTrace> waves, std::uint32_t copies);

}  // namespace apb::emu
