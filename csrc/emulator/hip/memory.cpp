// Allocation: device, host, managed and registered memory.
#include "memory.h"

#include <algorithm>
#include <climits>

#include "capture.h"
#include "machine/memory/allocations.h"
#include "machine/memory/mappings.h"
#include "pool.h"
#include "task.h"

namespace apb::emu::hip {
namespace {

constexpr std::size_t kPitchAlignment = 256;  // HIP's rows begin at multiples of 256 bytes
constexpr unsigned kHostFlags =
    0xF0000007;  // hipHostMalloc*: portable, mapped, write combined, uncached, NUMA, (non)coherent
constexpr unsigned kRegisterFlags = 0x8000000F;
constexpr unsigned kDeviceFlags = 0x7;
constexpr unsigned kAttachGlobal = 1, kAttachHost = 2;

Allocations& memory() { return Allocations::instance(); }

hipError_t no_memory(const char* what, std::size_t bytes, int device) {
  if (device < 0) return fail(hipErrorOutOfMemory, "no %zu bytes of %s", bytes, what);
  const Device* owner = find_device(device);
  return fail(hipErrorOutOfMemory, "no %zu bytes of %s on device %d: %llu of %llu are used", bytes, what, device,
              static_cast<unsigned long long>(memory().used(device)),
              static_cast<unsigned long long>(owner->configuration.memory));
}

hipError_t allocate(void** out, std::size_t bytes, AllocationKind kind, unsigned flags) {
  if (!out) return null_argument("the result");
  *out = nullptr;
  if (const hipError_t error = refuse_unsafe(); error != hipSuccess) return error;
  if (bytes == 0) return hipSuccess;
  const bool on_host = kind == AllocationKind::Host || kind == AllocationKind::Managed;
  const int device = on_host ? -1 : thread().device;
  *out = memory().allocate(device, bytes, kind, flags);
  return *out ? hipSuccess : no_memory(on_host ? "host memory" : "device memory", bytes, device);
}

hipError_t allocate_host(void** out, std::size_t bytes, unsigned flags) {
  if ((flags & ~kHostFlags) != 0) return fail(hipErrorInvalidValue, "flags 0x%x", flags);
  return allocate(out, bytes, AllocationKind::Host, flags);
}

hipError_t free_host(void* address) {
  if (const hipError_t error = refuse_unsafe(); error != hipSuccess) return error;
  if (address) settle(-1);
  if (!address || memory().free(address, AllocationKind::Host)) return hipSuccess;
  return fail(hipErrorInvalidValue, "%p is not the start of memory of hipHostMalloc", address);
}

int device_of(const void* address) {
  Allocation found;
  return live(address, found) ? found.device : -1;
}

hipError_t allocate_rows(void** out, std::size_t* pitch, std::size_t width, std::size_t rows) {
  if (!out || !pitch) return null_argument("a result");
  if (width > SIZE_MAX - kPitchAlignment) return fail(hipErrorInvalidValue, "a width of %zu", width);
  *pitch = (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(*pitch, rows, &bytes))
    return fail(hipErrorInvalidValue, "%zu rows of %zu bytes", rows, *pitch);
  return allocate(out, bytes, AllocationKind::Device, 0);
}

}  // namespace

bool live(const void* address, Allocation& out) { return memory().find(reinterpret_cast<std::uint64_t>(address), out); }

hipError_t device_free(void* address) {
  pool_forget(address);  // before: as soon as it is free another thread may get the same address
  if (memory().free(address, AllocationKind::Device)) return hipSuccess;
  Allocation around;
  if (!live(address, around))
    return fail(hipErrorInvalidValue, "%p is in no live allocation (freed already?)", address);
  if (around.kind == AllocationKind::Imported)
    return fail(hipErrorInvalidValue, "%p was opened by hipIpcOpenMemHandle: hipIpcCloseMemHandle closes it", address);
  return fail(hipErrorInvalidValue, "%p is %s allocation %llu", address,
              reinterpret_cast<std::uint64_t>(address) == around.begin ? "not device memory:" : "not the start of",
              static_cast<unsigned long long>(around.number));
}

}  // namespace apb::emu::hip

using namespace apb::emu;
using namespace apb::emu::hip;

APB_HIP hipError_t hipMalloc(void** out, std::size_t bytes) {
  return entry(__func__, [&] { return allocate(out, bytes, AllocationKind::Device, 0); });
}
// Memory of the host is fine-grained on every device here, so the flags change nothing.
APB_HIP hipError_t hipExtMallocWithFlags(void** out, std::size_t bytes, unsigned flags) {
  return entry(__func__, [&] {
    if ((flags & ~kDeviceFlags) != 0) return fail(hipErrorInvalidValue, "flags 0x%x", flags);
    return allocate(out, bytes, AllocationKind::Device, flags);
  });
}
APB_HIP hipError_t hipFree(void* address) {
  return entry(__func__, [&] {
    if (const hipError_t error = refuse_unsafe(); error != hipSuccess) return error;
    if (!address) return hipSuccess;
    settle(device_of(address));
    return device_free(address);
  });
}

APB_HIP hipError_t hipHostMalloc(void** out, std::size_t bytes, unsigned flags) {
  return entry(__func__, [&] { return allocate_host(out, bytes, flags); });
}
APB_HIP hipError_t hipHostAlloc(void** out, std::size_t bytes, unsigned flags) {
  return entry(__func__, [&] { return allocate_host(out, bytes, flags); });
}
APB_HIP hipError_t hipExtHostAlloc(void** out, std::size_t bytes, unsigned flags) {
  return entry(__func__, [&] { return allocate_host(out, bytes, flags); });
}
APB_HIP hipError_t hipMallocHost(void** out, std::size_t bytes) {
  return entry(__func__, [&] { return allocate_host(out, bytes, 0); });
}
APB_HIP hipError_t hipMemAllocHost(void** out, std::size_t bytes) {
  return entry(__func__, [&] { return allocate_host(out, bytes, 0); });
}
APB_HIP hipError_t hipHostFree(void* address) {
  return entry(__func__, [&] { return free_host(address); });
}
APB_HIP hipError_t hipFreeHost(void* address) {
  return entry(__func__, [&] { return free_host(address); });
}

APB_HIP hipError_t hipMallocManaged(void** out, std::size_t bytes, unsigned flags) {
  return entry(__func__, [&] {
    if (flags != kAttachGlobal && flags != kAttachHost) return fail(hipErrorInvalidValue, "flags 0x%x", flags);
    return allocate(out, bytes, AllocationKind::Managed, flags);
  });
}

APB_HIP hipError_t hipMallocPitch(void** out, std::size_t* pitch, std::size_t width, std::size_t height) {
  return entry(__func__, [&] { return allocate_rows(out, pitch, width, height); });
}
APB_HIP hipError_t hipMemAllocPitch(hipDeviceptr_t* out, std::size_t* pitch, std::size_t width, std::size_t height,
                                    unsigned element) {
  return entry(__func__, [&] {
    if (element != 4 && element != 8 && element != 16)
      return fail(hipErrorInvalidValue, "elements of %u bytes, must be 4, 8 or 16", element);
    return allocate_rows(out, pitch, width, height);
  });
}
APB_HIP hipError_t hipMalloc3D(hipPitchedPtr* out, hipExtent extent) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    std::size_t rows = 0;
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows))
      return fail(hipErrorInvalidValue, "the extent is too large");
    out->xsize = extent.width;
    out->ysize = extent.height;
    return allocate_rows(&out->ptr, &out->pitch, extent.width, rows);
  });
}

APB_HIP hipError_t hipHostRegister(void* address, std::size_t bytes, unsigned flags) {
  return entry(__func__, [&] {
    if (!address || bytes == 0 || (flags & ~kRegisterFlags) != 0)
      return fail(hipErrorInvalidValue, "%zu bytes at %p, flags 0x%x", bytes, address, flags);
    if (const hipError_t error = refuse_unsafe(); error != hipSuccess) return error;
    if (accessible_from(reinterpret_cast<std::uint64_t>(address), true) <
        bytes)  // a kernel's access would end the process
      return fail(hipErrorInvalidValue, "the %zu bytes at %p are not all mapped and writable", bytes, address);
    if (memory().adopt(address, bytes, flags)) return hipSuccess;
    return fail(hipErrorHostMemoryAlreadyRegistered, "some of the %zu bytes at %p is known already", bytes, address);
  });
}
APB_HIP hipError_t hipHostUnregister(void* address) {
  return entry(__func__, [&] {
    if (!address) return null_argument("the address");
    if (const hipError_t error = refuse_unsafe(); error != hipSuccess) return error;
    settle(-1);
    return memory().abandon(address) ? hipSuccess
                                     : fail(hipErrorHostMemoryNotRegistered, "%p was not registered", address);
  });
}

// Host memory has one address on host and device.
APB_HIP hipError_t hipHostGetDevicePointer(void** out, void* address, unsigned flags) {
  return entry(__func__, [&] {
    if (!out || !address) return null_argument("an argument");
    *out = nullptr;
    if (flags != 0) return fail(hipErrorInvalidValue, "flags 0x%x, must be 0", flags);
    Allocation found;
    if (!live(address, found) || found.device >= 0)
      return fail(hipErrorInvalidValue, "%p is no host memory that devices know", address);
    *out = address;
    return hipSuccess;
  });
}
APB_HIP hipError_t hipHostGetFlags(unsigned* out, void* address) {
  return entry(__func__, [&] {
    if (!out || !address) return null_argument("an argument");
    Allocation found;
    if (!live(address, found) || found.kind != AllocationKind::Host)
      return fail(hipErrorInvalidValue, "%p is not memory of hipHostMalloc", address);
    *out = found.flags;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  return entry(__func__, [&] {
    const Device& device = current_device();
    const std::uint64_t all = device.configuration.memory, used = memory().used(device.ordinal);
    if (!free_bytes && !total) return null_argument("every result");
    if (free_bytes) *free_bytes = used < all ? all - used : 0;
    if (total) *total = all;
    return hipSuccess;
  });
}
