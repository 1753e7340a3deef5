// Code objects loaded into one device, each once: bundle bytes -> module -> function. Any thread may ask; the first
// does the work, the others wait. What the driver refuses stays refused with its first cause, unless the cause may pass: no
// memory, a capture.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "bundle/bundle.h"
#include "bundle/operator_block.h"
#include "bundle/sha256.h"
#include "driver/driver.h"

namespace apb {

class Device {
 public:
  Device(Driver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() = default;

  Driver& driver() const { return driver_; }
  int ordinal() const { return ordinal_; }

  // The function of `entry`, loaded if need be, allowed `dynamic_lds` bytes. `stream` (null handle included) is asked
  // whether it captures when `check_capture`; a capture that would need a load is a Capture error, which does not
  // stay. Call it without the GIL. Null with an Error.
  void* function(const OperatorBlock& block, const layout::Entry& entry, std::uint32_t dynamic_lds, bool check_capture,
                 void* stream, Error& error);

  // CUDA's primary context of the device, retained at first use; null with an Error. No lock once it is there.
  void* context(Error& error);

  // Tells whether it is already the calling thread's device, so that no DeviceScope is needed. False also when in doubt.
  bool is_current() const {
    if (driver_.is_hip()) {
      if (driver_.devices == 1) return true;  // there is no other that could be current
      if (driver_.waits) return false;        // its launches go the long way, which lets other threads run
      int current = -1;
      return driver_.table.get_device(&current) == 0 && current == ordinal_;
    }
    void* current = nullptr;
    return driver_.table.context_get(&current) == 0 && current != nullptr &&
           current == context_.load(std::memory_order_acquire);
  }

  // Modules loaded so far in this process, on all devices.
  static std::uint64_t modules_loaded();

 private:
  struct Module {
    void* handle = nullptr;
    bool failed = false;
    Error error;
    std::map<std::string, void*, std::less<>> functions;
    std::map<void*, std::uint32_t> lds_allowed;
  };

  bool load(const OperatorBlock& block, const layout::Entry& entry, Module& module, Error& error) const;
  bool refuse_in_capture(const OperatorBlock& block, const layout::Entry& entry, void* stream, Error& error) const;
  void* symbol(const OperatorBlock& block, const layout::Entry& entry, Module& module, Error& error) const;
  bool allow_lds(const OperatorBlock& block, const layout::Entry& entry, Module& module, void* function,
                 std::uint32_t bytes, Error& error) const;

  Driver& driver_;
  int ordinal_;
  std::mutex mutex_;
  std::map<Sha256, Module> modules_;
  std::mutex context_mutex_;
  std::atomic<void*> context_{nullptr};
};

// The one Device of this ordinal in the process. Null with an Error when the driver has no such device.
Device* device_of(Driver& driver, int ordinal, Error& error);

// Makes a device current for its scope and puts the caller's back. HIP: the ordinal; CUDA: the primary context.
class DeviceScope {
 public:
  explicit DeviceScope(Device& device) : device_(device) {}
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  ~DeviceScope();

  [[nodiscard]] bool enter(Error& error);

 private:
  bool enter_hip(Error& error);
  bool enter_cuda(Error& error);

  Device& device_;
  int previous_ = -1;
  bool pushed_ = false;
};

}  // namespace apb
