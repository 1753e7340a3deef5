// Questions about addresses, and advice about memory.
#include <cstring>

#include "capture.h"
#include "memory.h"
#include "pool.h"

namespace apb::emu::hip {
namespace {

hipMemoryType memory_type(AllocationKind kind) {
  switch (kind) {
    case AllocationKind::Host:
    case AllocationKind::Registered: return hipMemoryTypeHost;
    case AllocationKind::Managed: return hipMemoryTypeManaged;
    default: return hipMemoryTypeDevice;
  }
}

bool on_host(const Allocation& found) { return memory_type(found.kind) != hipMemoryTypeDevice; }
int device_of(const Allocation& found) { return found.device >= 0 ? found.device : 0; }

template <class Value>
hipError_t put(void* out, Value value) {
  std::memcpy(out, &value, sizeof value);
  return hipSuccess;
}

// Widths as the interface documents them for each attribute.
hipError_t attribute_of(void* out, hipPointer_attribute attribute, void* address, const Allocation& found) {
  switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_CONTEXT: return put<void*>(out, find_device(device_of(found))->primary.get());
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE: return put<unsigned>(out, static_cast<unsigned>(memory_type(found.kind)));
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER: return put(out, address);
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!on_host(found)) return quiet(hipErrorInvalidValue, "%p is device memory", address);
      return put(out, address);
    case HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS: return put<unsigned>(out, 1);
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID: return put<std::uint64_t>(out, found.number);
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED: return put<unsigned>(out, found.kind == AllocationKind::Managed);
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return put<int>(out, device_of(found));
    case HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE:
      return put<unsigned>(out, found.kind == AllocationKind::Device);
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR: return put<std::uint64_t>(out, found.begin);
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE: return put<std::uint64_t>(out, found.bytes);
    case HIP_POINTER_ATTRIBUTE_MAPPED: return put<unsigned>(out, 1);
    case HIP_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return put<std::uint64_t>(out, 0);
    case HIP_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return put<unsigned>(out, 0);
    case HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS: return put<unsigned>(out, 3);
    case HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put<void*>(
          out, found.kind == AllocationKind::Pool ? find_device(device_of(found))->default_pool.get() : nullptr);
    default: return fail(hipErrorInvalidValue, "attribute %d", static_cast<int>(attribute));
  }
}

hipError_t advice(const void* address, std::size_t bytes, int where) {
  Allocation found;
  if (!live(address, found) || bytes == 0 ||
      found.begin + found.bytes - reinterpret_cast<std::uint64_t>(address) < bytes)
    return fail(hipErrorInvalidValue, "%zu bytes at %p are not all in one allocation", bytes, address);
  if (where != hipCpuDeviceId && !find_device(where)) return no_such_device(where);
  return hipSuccess;  // memory does not move here
}

int place(hipMemLocation location) { return location.type == hipMemLocationTypeDevice ? location.id : hipCpuDeviceId; }

}  // namespace
}  // namespace apb::emu::hip

using namespace apb::emu;
using namespace apb::emu::hip;

// For memory that HIP does not know the answer is a success with hipMemoryTypeUnregistered (HIP 6).
APB_HIP hipError_t hipPointerGetAttributes(hipPointerAttribute_t* out, const void* address) {
  return entry(__func__, [&] {
    if (!out || !address) return null_argument("an argument");
    *out = {};
    Allocation found;
    if (!live(address, found)) {
      out->device = hipInvalidDeviceId;
      out->type = hipMemoryTypeUnregistered;
      return hipSuccess;
    }
    out->type = memory_type(found.kind);
    out->device = device_of(found);
    out->devicePointer = const_cast<void*>(address);
    out->hostPointer = on_host(found) ? const_cast<void*>(address) : nullptr;
    out->isManaged = found.kind == AllocationKind::Managed;
    out->allocationFlags = found.flags;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipPointerGetAttribute(void* out, hipPointer_attribute attribute, hipDeviceptr_t address) {
  return entry(__func__, [&] {
    if (!out || !address) return null_argument("an argument");
    Allocation found;
    if (!live(address, found)) return quiet(hipErrorInvalidValue, "%p is in no live allocation", address);
    return attribute_of(out, attribute, address, found);
  });
}

APB_HIP hipError_t hipDrvPointerGetAttributes(unsigned count, hipPointer_attribute* attributes, void** out,
                                              hipDeviceptr_t address) {
  return entry(__func__, [&] {
    if (!attributes || !out || count == 0) return null_argument("an argument");
    Allocation found;
    const bool known = live(address, found);
    for (unsigned i = 0; i < count; ++i) {
      if (!out[i]) return null_argument("a result");
      // Unknown memory has null for every attribute, and that is a success.
      if (!known || attribute_of(out[i], attributes[i], address, found) != hipSuccess) put<int>(out[i], 0);
    }
    return hipSuccess;
  });
}

APB_HIP hipError_t hipPointerSetAttribute(const void* value, hipPointer_attribute attribute, hipDeviceptr_t address) {
  return entry(__func__, [&] {
    Allocation found;
    if (!value || !live(address, found)) return fail(hipErrorInvalidValue, "%p is in no live allocation", address);
    if (attribute != HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS)
      return fail(hipErrorInvalidValue, "attribute %d", static_cast<int>(attribute));
    return hipSuccess;  // every memory operation is synchronous here
  });
}

APB_HIP hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, std::size_t* bytes, hipDeviceptr_t address) {
  return entry(__func__, [&] {
    Allocation found;
    if (!live(address, found)) return fail(hipErrorNotFound, "%p is in no live allocation", address);
    if (base) *base = reinterpret_cast<void*>(found.begin);
    if (bytes) *bytes = found.bytes;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipMemPtrGetInfo(void* address, std::size_t* bytes) {
  return entry(__func__, [&] {
    if (!bytes) return null_argument("the result");
    Allocation found;
    if (!live(address, found) || found.begin != reinterpret_cast<std::uint64_t>(address))
      return fail(hipErrorInvalidValue, "%p is not the start of an allocation", address);
    *bytes = found.bytes;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipMemPrefetchAsync(const void* address, std::size_t bytes, int device, hipStream_t stream) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    return find_stream(stream, error) ? advice(address, bytes, device) : error;
  });
}
APB_HIP hipError_t hipMemPrefetchAsync_v2(const void* address, std::size_t bytes, hipMemLocation location,
                                          unsigned flags, hipStream_t stream) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    if (flags != 0) return fail(hipErrorInvalidValue, "flags 0x%x, must be 0", flags);
    return find_stream(stream, error) ? advice(address, bytes, place(location)) : error;
  });
}
APB_HIP hipError_t hipMemAdvise(const void* address, std::size_t bytes, int, int device) {
  return entry(__func__, [&] { return advice(address, bytes, device); });
}
APB_HIP hipError_t hipMemAdvise_v2(const void* address, std::size_t bytes, int, hipMemLocation location) {
  return entry(__func__, [&] { return advice(address, bytes, place(location)); });
}
APB_HIP hipError_t hipStreamAttachMemAsync(hipStream_t stream, void* address, std::size_t, unsigned) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    Allocation found;
    if (!find_stream(stream, error)) return error;
    if (!live(address, found) || found.kind != AllocationKind::Managed)
      return fail(hipErrorInvalidValue, "%p is not managed memory", address);
    return hipSuccess;
  });
}
