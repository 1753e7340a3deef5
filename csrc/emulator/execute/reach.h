// May this wave touch these bytes? Nearly every access hits the allocation of the one before, so that case is inline.
#pragma once

#include <cstdint>

#include "wave.h"

namespace apb::emu {

// Looks the allocation up and remembers it in wave.recent; false after raising illegal_address, with the text of Memory::describe.
[[gnu::cold]] bool reach_other(Wave& wave, int lane, std::uint64_t address, std::uint32_t bytes);

// True when [address, address + bytes) lies in one live allocation. False: the wave has stopped with a fault that names `lane`
// (-1 for scalar accesses). Does not call the observer: handlers do, `if (wave.observer) wave.observer->global(...)`.
[[nodiscard]] inline bool reachable(Wave& wave, int lane, std::uint64_t address, std::uint32_t bytes) {
  if (wave.recent.holds(address, bytes)) [[likely]]
    return true;
  return reach_other(wave, lane, address, bytes);
}

}  // namespace apb::emu
