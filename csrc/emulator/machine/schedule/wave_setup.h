// Registers as the command processor leaves them at a wave's first instruction.
#pragma once

#include "machine/schedule/dispatch.h"

namespace apb::emu {

// `wave` keeps its register file, scratch and counters; everything else is set. `number`: of the wave in its workgroup,
// whose items are `block`. The workgroup's id is in `group`.
void start_wave(Wave& wave, const Dispatch& dispatch, Workgroup& group, Dim3 block, std::uint32_t number);

// The place of a workgroup. Workgroups go round the XCCs, then round their units, then take the next slot, as long as all end in
// order. This is a model, but no two resident ones share a slot.
struct Place {
  std::uint32_t xcc = 0, unit = 0, slot = 0;
};
Place place_of(const Dispatch& dispatch, std::uint64_t linear);
std::uint32_t xccs_of(std::uint32_t compute_units);

}  // namespace apb::emu
