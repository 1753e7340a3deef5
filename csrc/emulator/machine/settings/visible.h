// The devices that a program sees, selected by ROCm's variables.
//   ROCR_VISIBLE_DEVICES   filters first: numbers or GPU-UUID, in the order that the program then sees. Set and empty: none. The first
//                          entry that is no device, or one that was named before, ends the list.
//   HIP_VISIBLE_DEVICES    filters what is left, by its new numbers, or by UUIDs; empty is as if it were not set. An entry that is no
//                          device ends the list; one that was named before is passed over.
//   CUDA_VISIBLE_DEVICES   where HIP_VISIBLE_DEVICES is not set: the same.
#pragma once

#include <vector>

#include "machine/settings/configuration.h"

namespace apb::emu {

// "emulator00000003": what the device reports as its UUID.
std::string uuid_text(const DeviceConfiguration& device);

// The devices of `all` that are visible, in their order. `lookup` gives a variable's value, or null.
std::vector<DeviceConfiguration> visible_devices(const std::vector<DeviceConfiguration>& all,
                                                 const char* (*lookup)(const char* name));

}  // namespace apb::emu
