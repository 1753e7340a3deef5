// Settings of a device: limits, flags, cache preferences, reset.
#include "machine/memory/allocations.h"
#include "pool.h"
#include "stream.h"
#include "task.h"

namespace apb::emu::hip {
namespace {

constexpr int kCachePreferNone = 0, kCachePreferEqual = 3, kBankFourBytes = 1, kBankLast = 2;
constexpr unsigned kDeviceScheduleMask = 7, kDeviceMapHost = 8, kDeviceLmemResize = 16;

hipError_t put(int* out, int value) {
  if (!out) return null_argument("the result");
  *out = value;
  return hipSuccess;
}

// Accepted and without effect, as on a card: its caches and LDS banks cannot be configured.
hipError_t check_cache(int value) {
  return value >= kCachePreferNone && value <= kCachePreferEqual
             ? hipSuccess
             : fail(hipErrorInvalidValue, "cache configuration %d", value);
}
hipError_t check_banks(int value) {
  return value >= 0 && value <= kBankLast ? hipSuccess : fail(hipErrorInvalidValue, "bank configuration %d", value);
}

std::size_t* limit_of(Device& device, hipLimit_t limit) {
  switch (limit) {
    case hipLimitStackSize: return &device.stack_limit;
    case hipLimitMallocHeapSize: return &device.heap_limit;
    case hipLimitPrintfFifoSize: return &device.printf_limit;
    default: return nullptr;
  }
}

// Ends what runs and forgets the device's fault and settings. Memory, modules, streams and events stay valid: a program that has
// met a fault on purpose goes on.
hipError_t reset(Device& device) {
  const TaskList open = tasks_of_device(device.ordinal);
  cancel(open);
  wait_for(open);
  device.fault = hipSuccess;
  device.late = hipSuccess;
  const std::lock_guard guard(device.mutex);
  for (const int peer : device.peers) Allocations::instance().set_peer(device.ordinal, peer, false);
  device.peers.clear();
  device.pool = device.default_pool;
  device.flags = 0;
  return hipSuccess;
}

}  // namespace
}  // namespace apb::emu::hip

using namespace apb::emu::hip;

APB_HIP hipError_t hipDeviceGetLimit(std::size_t* out, hipLimit_t limit) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    Device& device = current_device();
    const std::lock_guard guard(device.mutex);
    const std::size_t* value = limit_of(device, limit);
    if (!value) return fail(hipErrorUnsupportedLimit, "limit %d", static_cast<int>(limit));
    *out = *value;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipDeviceSetLimit(hipLimit_t limit, std::size_t value) {
  return entry(__func__, [&] {
    Device& device = current_device();
    const std::lock_guard guard(device.mutex);
    std::size_t* slot = limit_of(device, limit);
    if (!slot) return fail(hipErrorUnsupportedLimit, "limit %d", static_cast<int>(limit));
    *slot = value;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipSetDeviceFlags(unsigned flags) {
  return entry(__func__, [&] {
    const unsigned schedule = flags & kDeviceScheduleMask;
    const bool known = (flags & ~(kDeviceScheduleMask | kDeviceMapHost | kDeviceLmemResize)) == 0;
    if (!known || (schedule & (schedule - 1)) != 0) return fail(hipErrorInvalidValue, "flags 0x%x", flags);
    Device& device = current_device();
    const std::lock_guard guard(device.mutex);
    device.flags = flags;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipGetDeviceFlags(unsigned* out) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    Device& device = current_device();
    const std::lock_guard guard(device.mutex);
    *out = device.flags;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipDeviceReset(void) {
  return entry(__func__, [] { return reset(current_device()); });
}

APB_HIP hipError_t hipDevicePrimaryCtxReset(hipDevice_t ordinal) {
  return entry(__func__, [&] {
    Device* device = find_device(ordinal);
    return device ? reset(*device) : no_such_device(ordinal);
  });
}

APB_HIP hipError_t hipDeviceSetCacheConfig(int value) {
  return entry(__func__, [&] { return check_cache(value); });
}
APB_HIP hipError_t hipDeviceGetCacheConfig(int* out) {
  return entry(__func__, [&] { return put(out, kCachePreferNone); });
}
APB_HIP hipError_t hipCtxSetCacheConfig(int value) {
  return entry(__func__, [&] { return check_cache(value); });
}
APB_HIP hipError_t hipCtxGetCacheConfig(int* out) {
  return entry(__func__, [&] { return put(out, kCachePreferNone); });
}
APB_HIP hipError_t hipDeviceSetSharedMemConfig(int value) {
  return entry(__func__, [&] { return check_banks(value); });
}
APB_HIP hipError_t hipDeviceGetSharedMemConfig(int* out) {
  return entry(__func__, [&] { return put(out, kBankFourBytes); });
}
APB_HIP hipError_t hipCtxSetSharedMemConfig(int value) {
  return entry(__func__, [&] { return check_banks(value); });
}
APB_HIP hipError_t hipCtxGetSharedMemConfig(int* out) {
  return entry(__func__, [&] { return put(out, kBankFourBytes); });
}

// On one board all links are XGMI (HSA_AMD_LINK_INFO_TYPE_XGMI is 4), one hop.
APB_HIP hipError_t hipExtGetLinkTypeAndHopCount(int from, int to, std::uint32_t* type, std::uint32_t* hops) {
  return entry(__func__, [&] {
    if (!find_device(from)) return no_such_device(from);
    if (!find_device(to)) return no_such_device(to);
    if (!type || !hops || from == to) return fail(hipErrorInvalidValue, "devices %d and %d", from, to);
    *type = 4;
    *hops = 1;
    return hipSuccess;
  });
}
