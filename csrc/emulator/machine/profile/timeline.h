// The waves of all profiled launches over estimated cycles, in the Chrome trace format that Perfetto opens. One process for each XCD of a
// device, one track for each place that a wave can have (compute unit, SIMD, slot), a slice for each wave with its waits inside; and a
// process for each device's launches, one track for each stream.
#pragma once

#include <cstdint>

#include "machine/profile/profile.h"
#include "machine/schedule/launch.h"

namespace apb::emu {

// Takes `slices` from what the file may have; false: it is full, and the workgroup is dropped. Any thread.
bool timeline_has_room(std::uint64_t slices);
void add_to_timeline(const LaunchRequest& request, LaunchProfile profile);
void write_timeline_at_exit();

}  // namespace apb::emu
