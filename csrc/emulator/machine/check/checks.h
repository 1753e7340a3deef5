// The optional checks of one workgroup: hazards, LDS races and uninitialised LDS, misaligned addresses. What a card does not tell.
#pragma once

#include <cstdint>
#include <memory>

#include "machine/observe/observers.h"
#include "machine/settings/configuration.h"

namespace apb::emu {

// Null when no switch is on. `lds_bytes` is the workgroup's (static and dynamic).
std::unique_ptr<GroupObserver> make_workgroup_checks(const CheckSwitches& switches, std::uint32_t waves,
                                                     std::uint32_t lds_bytes);

}  // namespace apb::emu
