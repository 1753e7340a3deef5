// The properties of a card of each target.
#pragma once

#include "runtime.h"

namespace apb::emu::hip {

struct Card {
  const char* name;
  int major, minor, clock_khz, memory_clock_khz, memory_bus, xccs, pci_chip;
};
const Card& card(const Device& device);
hipDeviceProp_tR0600 properties(const Device& device);
hipDeviceProp_tR0000 old_properties(const Device& device);
hipUUID uuid(const Device& device);
// "0000:05:00.0"
std::string pci_bus_id(const Device& device);
inline int pci_bus(const Device& device) { return 0x05 + 0x10 * static_cast<int>(device.configuration.number); }

}  // namespace apb::emu::hip
