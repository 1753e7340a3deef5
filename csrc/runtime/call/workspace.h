// Scratch memory for one call, ordered on its stream: from the caller's framework, so that its caching allocator and
// its graph pools know about it, else from the driver.
#pragma once

#include <cstdint>

#include "driver/module_cache.h"
#include "errors.h"
#include "tensors/call.h"

namespace apb {

struct Prepared;

class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { release(); }

  // At least prepared.workspace bytes at a multiple of 256. The framework is asked unless the caller named a stream
  // itself (its allocator orders memory on its own current stream). False with a Launch error.
  [[nodiscard]] bool allocate(Device& device, const Prepared& prepared, const Call& call, void* stream, Error& error);
  void release();
  std::uint64_t address() const { return address_; }

 private:
  bool from_framework(const Prepared& prepared, const Call& call, Error& error);
  bool from_driver(Device& device, const Prepared& prepared, void* stream, Error& error);

  std::uint64_t address_ = 0;
  DLManagedTensorVersioned* managed_ = nullptr;
  Device* device_ = nullptr;
  void* stream_ = nullptr;
};

}  // namespace apb
