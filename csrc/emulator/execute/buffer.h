// Shared by the files of MUBUF and MTBUF.
#pragma once

#include "isa/instruction.h"

namespace apb::emu {

// buffer_load_format_*, buffer_store_format_*, tbuffer_*.
bool bind_buffer_format(Instruction& instruction);

}  // namespace apb::emu
