// AITER_PREBUILT_EMULATOR_TRACE: the instructions that a filter asks for, with what their registers held before and after.
#pragma once

#include <memory>
#include <string>

#include "machine/observe/observers.h"

namespace apb::emu {

// Null: nothing of this launch is asked for.
std::unique_ptr<LaunchObserver> make_trace(const LaunchRequest& request);

}  // namespace apb::emu
