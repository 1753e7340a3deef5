// The part of the configuration that asks for rocprofv3's counters and for the timeline.
#pragma once

#include <span>
#include <string>

#include "machine/settings/configuration.h"

namespace apb::emu {

// Its problem, if there is one: which variable, what was found, what was expected.
std::string read_profile(const char* (*lookup)(const char*), std::span<const DeviceConfiguration> devices,
                         ProfileConfiguration& out);

// Do its expressions let this kernel be profiled?
bool profiles(const ProfileConfiguration& profile, const std::string& kernel);

}  // namespace apb::emu
