// AITER_PREBUILT_EMULATOR_DEBUG: waves stop at breakpoints, and somebody at the other end of a socket looks at them. What is said
// there: debug_commands.h.
#pragma once

#include <memory>

#include "machine/observe/observers.h"

namespace apb::emu {

// Null: nobody debugs this process, or has let go of it.
std::unique_ptr<LaunchObserver> make_debugger(const LaunchRequest& request);

}  // namespace apb::emu
