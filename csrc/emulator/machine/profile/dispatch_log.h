// The launches that were profiled, with the counters that were asked for: rows for rocprofv3's CSV, and the same as JSON.
#pragma once

#include <cstdint>
#include <string>

#include "machine/profile/counters.h"
#include "machine/profile/profile.h"
#include "machine/schedule/launch.h"

namespace apb::emu {

// `start`: nanoseconds of the host's clock. On the thread that launched.
void log_dispatch(const LaunchRequest& request, const LaunchRecord& record, const LaunchProfile& profile,
                  std::uint64_t start);
// For the document of counters: {"counters": [names], "dispatches": [...], "dropped": N, "kernels": [{"kernel", "sites"}]}; "" when none was asked for.
std::string dispatches_json();
void reset_dispatches();
void write_dispatches_at_exit();  // when the configuration names a file: without a launch too

}  // namespace apb::emu
