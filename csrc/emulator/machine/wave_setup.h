// Registers as the command processor leaves them at a wave's first instruction.
#pragma once

#include "dispatch.h"

namespace apb::emu {

// `wave` keeps its register file, scratch and counters; everything else is set. `number`: of the wave in its workgroup,
// whose items are `block`. The workgroup's id is in `group`.
void start_wave(Wave& wave, const Dispatch& dispatch, Workgroup& group, Dim3 block, std::uint32_t number);

}  // namespace apb::emu
