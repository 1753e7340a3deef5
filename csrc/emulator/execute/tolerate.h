// Going on after an access to what is not there: its lane reads 0, and writes nothing.
#pragma once

#include "wave.h"

namespace apb::emu {

// After `instruction` has stopped the wave with a fault. True: it was one that the workgroup tolerates, the instruction was done for the
// other lanes, and the wave goes on.
[[gnu::cold, gnu::noinline]] bool go_on(Wave& wave, const Instruction& instruction);

}  // namespace apb::emu
