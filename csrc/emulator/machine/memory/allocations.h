// Live memory. Device memory is host memory, from one reserved arena per device, so that an address names its device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "execute/wave.h"
#include "machine/memory/shared_file.h"

namespace apb::emu {

enum class AllocationKind : std::uint8_t { Device, Host, Registered, Managed, Code, Pool, Imported };

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
  // null when the device's configured memory is used up. Device memory has pages of its own; host memory is 256-byte
  // aligned, and of 4 KiB and more has, too.
  void* allocate(int device, std::uint64_t bytes, AllocationKind kind, unsigned flags);
  bool free(void* address, AllocationKind kind_hint);              // false: no such live allocation begins there
  bool adopt(void* address, std::uint64_t bytes, unsigned flags);  // hipHostRegister
  bool abandon(void* address);                                     // hipHostUnregister
  bool find(std::uint64_t address, Allocation& out) const;         // the live allocation around an address
  std::uint64_t used(int device) const;

  // Makes the device memory that begins at `begin` available to other processes. Its pages move at the first call. Memory that
  // was never shared stays private, so that a forked child has its own. False with `problem`.
  bool share(std::uint64_t begin, FilePlace& out, std::string& problem);
  // Another process's `bytes` as memory of `device`, which counts as nothing used; opened again it is the same memory.
  // Null when there are no addresses for it.
  void* import(SharedFile file, int device, std::uint64_t bytes);
  // The memory of import() around the address; gone after as many calls as there were of import(). False: there is none.
  bool close(std::uint64_t address);

  // The memory that a launch checks against: immutable, shared by all its waves. Host and managed memory, the device's own, and
  // that of its peers.
  std::shared_ptr<const Memory> snapshot(int device) const;
  // hipDeviceEnablePeerAccess: `device` may touch the memory of `peer`. False: it was so already.
  bool set_peer(int device, int peer, bool enabled);
  // Describes the place of an address that `device` may not touch; see Memory::describe.
  void describe(int device, std::uint64_t address, std::uint64_t bytes, char* text, std::size_t size) const;
};

}  // namespace apb::emu
