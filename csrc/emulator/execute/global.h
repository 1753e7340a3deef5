// Shared by the three segments of the FLAT encoding.
#pragma once

#include "isa/instruction.h"

namespace apb::emu {

bool bind_global_segment(Instruction& instruction);
bool bind_flat_segment(Instruction& instruction);
bool bind_scratch_segment(Instruction& instruction);

}  // namespace apb::emu
