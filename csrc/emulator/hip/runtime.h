// The base of every file of hip/: the boundary of an entry point, errors, handles, devices and the state of a thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "hip_types.h"
#include "machine/settings/configuration.h"

#define APB_HIP extern "C" [[gnu::visibility("default")]]

namespace apb::emu::hip {

// HIP_VERSION_MAJOR * 10000000 + MINOR * 100000 + PATCH: the API level whose names are exported.
inline constexpr int kVersion = 70200000;

// ---- errors

const char* error_name(hipError_t code);
const char* error_text(hipError_t code);

// Logs "hipMalloc: hipErrorInvalidValue (1): ..." and returns the code. `quiet` is for answers that programs ask for in
// the course of business (is this a device pointer?): it logs at level info only.
[[gnu::cold, gnu::format(printf, 2, 3)]] hipError_t fail(hipError_t code, const char* format, ...);
[[gnu::cold, gnu::format(printf, 2, 3)]] hipError_t quiet(hipError_t code, const char* format, ...);
hipError_t null_argument(const char* argument);

// ---- entry points

// Reads the configuration at the first call; hipSuccess, or why nothing works.
hipError_t start();

class EntryScope {
 public:
  explicit EntryScope(const char* name);
  ~EntryScope();
  EntryScope(const EntryScope&) = delete;
  EntryScope& operator=(const EntryScope&) = delete;
  hipError_t finish(hipError_t code) const noexcept;

 private:
  const char* outer_;
};
hipError_t caught(const char* what);

// Runs an entry point's body: no exception leaves it, and its result becomes the thread's last error.
template <class Body>
hipError_t entry(const char* name, Body&& body) noexcept {
  const EntryScope scope(name);
  try {
    if (const hipError_t started = start(); started != hipSuccess) return scope.finish(started);
    return scope.finish(body());
  } catch (const std::bad_alloc&) {
    return scope.finish(hipErrorOutOfMemory);
  } catch (const std::exception& exception) {
    return scope.finish(caught(exception.what()));
  } catch (...) {
    return scope.finish(caught("an exception"));
  }
}

// ---- handles

// Handles are addresses of objects in a table: whatever else a caller passes is not in it. Objects live as long as
// somebody uses them.
template <class Object>
class Table {
 public:
  void* add(std::shared_ptr<Object> object) {
    const std::lock_guard guard(mutex_);
    void* const handle = object.get();
    objects_[handle] = std::move(object);
    return handle;
  }
  std::shared_ptr<Object> find(const void* handle) const {
    const std::lock_guard guard(mutex_);
    const auto it = objects_.find(handle);
    return it == objects_.end() ? nullptr : it->second;
  }
  std::shared_ptr<Object> take(const void* handle) {
    const std::lock_guard guard(mutex_);
    const auto it = objects_.find(handle);
    if (it == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(it->second);
    objects_.erase(it);
    return object;
  }
  std::vector<std::shared_ptr<Object>> all() const {
    const std::lock_guard guard(mutex_);
    std::vector<std::shared_ptr<Object>> out;
    for (const auto& [handle, object] : objects_) out.push_back(object);
    return out;
  }
  // One per process, never destroyed: programs call HIP from their own exit handlers.
  static Table& instance() {
    static Table* const table = new Table;
    return *table;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Object>> objects_;
};

template <class Object>
Table<Object>& table() {
  return Table<Object>::instance();
}

// ---- devices

struct Stream;
struct Pool;

struct Context {
  int device = 0;
  unsigned flags = 0;
};

struct Device {
  int ordinal = 0;
  DeviceConfiguration configuration;
  std::shared_ptr<Context> primary;
  std::shared_ptr<Stream> null_stream;
  std::shared_ptr<Pool> default_pool;

  std::mutex mutex;  // of what follows
  std::shared_ptr<Pool> pool;
  unsigned flags = 0;
  int primary_users = 0;
  bool active = false;  // somebody made it current
  std::set<int> peers;
  std::size_t heap_limit = 8u << 20, stack_limit = 1024, printf_limit = 1u << 20;

  // After a kernel's fault every launch and synchronisation answers this, until hipDeviceReset.
  std::atomic<hipError_t> fault{hipSuccess};
  // A later error of work whose call had returned. The next synchronisation returns it, once.
  std::atomic<hipError_t> late{hipSuccess};

  std::uint32_t lds_bytes() const;
};

const std::vector<std::unique_ptr<Device>>& devices();
Device* find_device(int ordinal);  // null: there is none
Device& current_device();
// hipErrorInvalidDevice with a log line.
hipError_t no_such_device(int ordinal);

// ---- threads

struct CallConfiguration {
  dim3 grid, block;
  std::size_t shared = 0;
  hipStream_t stream = nullptr;
};

struct Thread {
  int device = 0;
  hipError_t last = hipSuccess, last_call = hipSuccess;
  const char* entry = nullptr;  // name of the entry point that runs
  std::vector<std::shared_ptr<Context>> contexts;
  hipStreamCaptureMode capture_mode = hipStreamCaptureModeGlobal;
  std::vector<CallConfiguration> calls;
  std::unordered_map<int, std::shared_ptr<Stream>> streams;  // hipStreamPerThread, by device
};
Thread& thread();

// The text of the last kernel fault in this process; null before the first.
void remember_fault(const std::string& text);

}  // namespace apb::emu::hip
