// Memory pools: accounting in front of the device's memory. Nothing is kept back when memory is freed, so `reserved` is
// `used`.
#pragma once

#include "runtime.h"

namespace apb::emu::hip {

struct Pool {
  int device = 0;
  std::mutex mutex;
  std::uint64_t release_threshold = 0, used = 0, used_high = 0;
  int reuse[3] = {1, 1, 1};
  std::size_t limit = 0;  // 0: the device's memory
  std::unordered_map<int, int> access;
};

// Allocates from `pool`, or from the device's current one when it is null. hipErrorOutOfMemory when it is full.
hipError_t pool_allocate(const std::shared_ptr<Pool>& pool, std::size_t bytes, void** out);
// Accounts for an address that is about to be freed; nothing when no pool gave it.
void pool_forget(const void* address);
// hipErrorInvalidValue when `address` is not the start of device memory.
hipError_t device_free(void* address);

}  // namespace apb::emu::hip
