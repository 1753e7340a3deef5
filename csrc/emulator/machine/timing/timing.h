// The timing model of a launch: each workgroup is recorded, workgroups that did the same are replayed once. Switched on by
// AITER_PREBUILT_EMULATOR_TIMING; then the clocks that kernels read are its clocks.
#pragma once

#include <memory>
#include <string>

#include "machine/observe/observers.h"

namespace apb::emu {

// Null: it is not switched on.
std::unique_ptr<LaunchObserver> make_timing(const LaunchRequest& request);
// {"version": 1, "launches": [...]}: of each launch, its classes of workgroups and how many cycles they take.
std::string timing_json();
void write_timing_at_exit();  // when it is switched on: without a launch too

}  // namespace apb::emu
