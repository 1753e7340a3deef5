// Which memory is alive. Device memory is host memory, from one reserved arena per device, so that an address names its
// device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "../execute/wave.h"

namespace apb::emu {

enum class AllocationKind : std::uint8_t { Device, Host, Registered, Managed, Code, Pool };

struct Allocation {
  std::uint64_t begin = 0, bytes = 0;
  std::uint64_t number = 0;  // 1, 2, 3 ... in the order of the process: what messages call it
  AllocationKind kind{};
  int device = -1;  // -1: host memory that every device reaches
  unsigned flags = 0;
  std::uint64_t end() const { return begin + bytes; }
};

// All allocations of the process, live ones and the last freed ones. Thread-safe. Handing memory out and taking it back
// is here too: device arenas are reserved (PROT_NONE) and committed per allocation; freed ranges rest in a queue before
// they are used again.
class Allocations {
 public:
  static Allocations& instance();
  // null when the device's configured memory is used up. 256-byte aligned at least, 4 KiB for device memory of 4 KiB
  // and more.
  void* allocate(int device, std::uint64_t bytes, AllocationKind kind, unsigned flags);
  bool free(void* address, AllocationKind kind_hint);              // false: no such live allocation begins there
  bool adopt(void* address, std::uint64_t bytes, unsigned flags);  // hipHostRegister
  bool abandon(void* address);                                     // hipHostUnregister
  bool find(std::uint64_t address, Allocation& out) const;         // the live allocation around an address
  std::uint64_t used(int device) const;

  // What a launch checks against: immutable, shared by all its waves. Host and managed memory, the device's own, and
  // that of its peers.
  std::shared_ptr<const Memory> snapshot(int device) const;
  // hipDeviceEnablePeerAccess: `device` may touch the memory of `peer`. False: it was so already.
  bool set_peer(int device, int peer, bool enabled);
  // Where an address that `device` may not touch lies, in words; see Memory::describe.
  void describe(int device, std::uint64_t address, std::uint64_t bytes, char* text, std::size_t size) const;
};

}  // namespace apb::emu
