// What an optional check found: a fault, or with AITER_PREBUILT_EMULATOR_CHECKS=...,report a line of the log.
#pragma once

#include "../execute/wave.h"

namespace apb::emu {

// As raise() says it. When findings are reported only the first of its kind at an instruction is, and the wave goes on: callers
// ask wave.stop whether it does.
[[gnu::cold, gnu::format(printf, 4, 5)]] void find(Wave& wave, FaultKind kind, int lane, const char* format, ...);

}  // namespace apb::emu
