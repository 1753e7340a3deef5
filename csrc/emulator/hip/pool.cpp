// Stream-ordered allocation and its pools.
#include "pool.h"

#include <cstring>

#include "capture.h"
#include "machine/memory/allocations.h"
#include "machine/settings/configuration.h"
#include "memory.h"
#include "task.h"

namespace apb::emu::hip {
namespace {

// The pool of an address, to account for it when it is freed.
struct Origin {
  std::weak_ptr<Pool> pool;
  std::uint64_t bytes;
};
struct Origins {
  std::mutex mutex;
  std::unordered_map<const void*, Origin> of;
};
Origins& origins() {
  static Origins* const only = new Origins;
  return *only;
}

void take_back(const Origin& origin) {
  if (const auto pool = origin.pool.lock()) {
    const std::lock_guard guard(pool->mutex);
    pool->used -= origin.bytes;
  }
}

std::shared_ptr<Pool> find_pool(hipMemPool_t handle, hipError_t& error) {
  std::shared_ptr<Pool> pool = table<Pool>().find(handle);
  if (!pool) error = fail(hipErrorInvalidValue, "%p is no memory pool", static_cast<void*>(handle));
  return pool;
}

hipMemPool_t handle_of(const std::shared_ptr<Pool>& pool) { return reinterpret_cast<hipMemPool_t>(pool.get()); }

hipError_t allocate_on(const std::shared_ptr<Stream>& stream, std::shared_ptr<Pool> pool, std::size_t bytes,
                       void** out) {
  Device& device = *find_device(stream->device);
  if (!pool) {
    const std::lock_guard guard(device.mutex);
    pool = device.pool;
  }
  const std::lock_guard guard(capture_mutex());
  if (!stream->capture) {
    if (const hipError_t error = refuse_legacy(*stream, true); error != hipSuccess) return error;
    return pool_allocate(pool, bytes, out);
  }
  if (const hipError_t error = pool_allocate(pool, bytes, out); error != hipSuccess) return error;
  AllocateOperation operation;
  operation.params.poolProps.allocType = hipMemAllocationTypePinned;
  operation.params.poolProps.location = {hipMemLocationTypeDevice, pool->device};
  operation.params.bytesize = bytes;
  operation.params.dptr = *out;
  operation.memory = std::make_shared<GraphMemory>();
  operation.memory->address = *out;
  Allocation found;
  if (live(*out, found)) operation.memory->number = found.number;
  return capture_operation(stream, std::move(operation));
}

hipError_t allocate(void** out, std::size_t bytes, std::shared_ptr<Pool> pool, hipStream_t handle) {
  if (!out) return null_argument("the result");
  *out = nullptr;
  hipError_t error = hipSuccess;
  const auto stream = find_stream(handle, error);
  if (!stream) return error;
  return bytes == 0 ? hipSuccess : allocate_on(stream, std::move(pool), bytes, out);
}

hipError_t attribute(Pool& pool, hipMemPoolAttr which, void* value, bool write) {
  const std::lock_guard guard(pool.mutex);
  const auto number = [&](std::uint64_t& field) {
    auto* at = static_cast<std::uint64_t*>(value);
    write ? (void)(field = *at) : (void)(*at = field);
    return hipSuccess;
  };
  switch (which) {
    case hipMemPoolReuseFollowEventDependencies:
    case hipMemPoolReuseAllowOpportunistic:
    case hipMemPoolReuseAllowInternalDependencies: {
      int& field = pool.reuse[which - hipMemPoolReuseFollowEventDependencies];
      auto* at = static_cast<int*>(value);
      write ? (void)(field = *at != 0) : (void)(*at = field);
      return hipSuccess;
    }
    case hipMemPoolAttrReleaseThreshold: return number(pool.release_threshold);
    case hipMemPoolAttrReservedMemCurrent:
    case hipMemPoolAttrUsedMemCurrent:
      return write ? fail(hipErrorInvalidValue, "attribute %d cannot be set", static_cast<int>(which))
                   : number(pool.used);
    case hipMemPoolAttrReservedMemHigh:
    case hipMemPoolAttrUsedMemHigh:
      if (!write) return number(pool.used_high);
      if (*static_cast<std::uint64_t*>(value) != 0)
        return fail(hipErrorInvalidValue, "a high-water mark can only be set to 0");
      pool.used_high = pool.used;
      return hipSuccess;
  }
  return fail(hipErrorInvalidValue, "attribute %d", static_cast<int>(which));
}

}  // namespace

hipError_t pool_allocate(const std::shared_ptr<Pool>& pool, std::size_t bytes, void** out) {
  {
    const std::lock_guard guard(pool->mutex);
    if (pool->limit != 0 && pool->used + bytes > pool->limit)
      return fail(hipErrorOutOfMemory, "the pool may hold %zu bytes, %llu are used", pool->limit,
                  static_cast<unsigned long long>(pool->used));
  }
  *out = Allocations::instance().allocate(pool->device, bytes, AllocationKind::Pool, 0);
  if (!*out) return fail(hipErrorOutOfMemory, "no %zu bytes on device %d", bytes, pool->device);
  // Fresh pages are zeros anyway, and cost nothing until they are touched.
  if (const std::uint8_t fill = configuration().fill; fill != 0) std::memset(*out, fill, bytes);
  Origins& all = origins();
  const std::lock_guard guard(all.mutex);
  all.of[*out] = {pool, bytes};
  const std::lock_guard inner(pool->mutex);
  pool->used += bytes;
  pool->used_high = std::max(pool->used_high, pool->used);
  return hipSuccess;
}

void pool_forget(const void* address) {
  Origins& all = origins();
  const std::lock_guard guard(all.mutex);
  const auto it = all.of.find(address);
  if (it == all.of.end()) return;
  take_back(it->second);
  all.of.erase(it);
}

}  // namespace apb::emu::hip

using namespace apb::emu;
using namespace apb::emu::hip;

APB_HIP hipError_t hipMallocAsync(void** out, std::size_t bytes, hipStream_t stream) {
  return entry(__func__, [&] { return allocate(out, bytes, nullptr, stream); });
}

APB_HIP hipError_t hipMallocFromPoolAsync(void** out, std::size_t bytes, hipMemPool_t handle, hipStream_t stream) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    auto pool = find_pool(handle, error);
    return pool ? allocate(out, bytes, std::move(pool), stream) : error;
  });
}

APB_HIP hipError_t hipFreeAsync(void* address, hipStream_t handle) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    const auto stream = find_stream(handle, error);
    if (!stream) return error;
    if (!address) return null_argument("the address");
    const std::lock_guard guard(capture_mutex());
    if (stream->capture) return capture_operation(stream, FreeOperation{address});
    if (const hipError_t refused = refuse_legacy(*stream, true); refused != hipSuccess) return refused;
    TaskList before = tasks_before(*stream);
    Allocation found;
    if (before.empty() || !live(address, found)) return device_free(address);
    auto task = std::make_shared<Task>(stream, EmptyOperation{});
    task->action = [address] { return device_free(address); };
    task->always = true;
    enqueue(std::move(task), std::move(before));
    return hipSuccess;
  });
}

APB_HIP hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t* out, int ordinal) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    const Device* device = find_device(ordinal);
    if (!device) return no_such_device(ordinal);
    *out = handle_of(device->default_pool);
    return hipSuccess;
  });
}

APB_HIP hipError_t hipDeviceGetMemPool(hipMemPool_t* out, int ordinal) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    Device* device = find_device(ordinal);
    if (!device) return no_such_device(ordinal);
    const std::lock_guard guard(device->mutex);
    *out = handle_of(device->pool);
    return hipSuccess;
  });
}

APB_HIP hipError_t hipDeviceSetMemPool(int ordinal, hipMemPool_t handle) {
  return entry(__func__, [&] {
    Device* device = find_device(ordinal);
    if (!device) return no_such_device(ordinal);
    hipError_t error = hipSuccess;
    const auto pool = find_pool(handle, error);
    if (!pool) return error;
    if (pool->device != ordinal) return fail(hipErrorInvalidValue, "the pool belongs to device %d", pool->device);
    const std::lock_guard guard(device->mutex);
    device->pool = pool;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipMemPoolCreate(hipMemPool_t* out, const hipMemPoolProps* wanted) {
  return entry(__func__, [&] {
    if (!out || !wanted) return null_argument("an argument");
    if (wanted->allocType != hipMemAllocationTypePinned || wanted->location.type != hipMemLocationTypeDevice)
      return fail(hipErrorInvalidValue, "only pinned memory of a device has pools");
    if (!find_device(wanted->location.id)) return no_such_device(wanted->location.id);
    if (wanted->handleTypes != 0) return fail(hipErrorNotSupported, "pools that are shared with other processes");
    auto pool = std::make_shared<Pool>();
    pool->device = wanted->location.id;
    pool->limit = wanted->maxSize;
    *out = static_cast<hipMemPool_t>(table<Pool>().add(std::move(pool)));
    return hipSuccess;
  });
}

// Memory that came from the pool lives on.
APB_HIP hipError_t hipMemPoolDestroy(hipMemPool_t handle) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    const auto pool = find_pool(handle, error);
    if (!pool) return error;
    Device& device = *find_device(pool->device);
    if (pool == device.default_pool) return fail(hipErrorInvalidValue, "the default pool cannot be destroyed");
    const std::lock_guard guard(device.mutex);
    if (device.pool == pool) device.pool = device.default_pool;
    table<Pool>().take(handle);
    return hipSuccess;
  });
}

APB_HIP hipError_t hipMemPoolTrimTo(hipMemPool_t handle, std::size_t) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    find_pool(handle, error);
    return error;
  });
}

APB_HIP hipError_t hipMemPoolGetAttribute(hipMemPool_t handle, hipMemPoolAttr which, void* value) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    const auto pool = find_pool(handle, error);
    if (!pool) return error;
    return value ? attribute(*pool, which, value, false) : null_argument("the result");
  });
}
APB_HIP hipError_t hipMemPoolSetAttribute(hipMemPool_t handle, hipMemPoolAttr which, void* value) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    const auto pool = find_pool(handle, error);
    if (!pool) return error;
    return value ? attribute(*pool, which, value, true) : null_argument("the value");
  });
}

APB_HIP hipError_t hipMemPoolSetAccess(hipMemPool_t handle, const hipMemAccessDesc* list, std::size_t count) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    const auto pool = find_pool(handle, error);
    if (!pool) return error;
    if (!list && count != 0) return null_argument("the list");
    for (std::size_t i = 0; i < count; ++i) {
      const int device = list[i].location.id;
      if (list[i].location.type != hipMemLocationTypeDevice || !find_device(device)) return no_such_device(device);
      const std::lock_guard guard(pool->mutex);
      pool->access[device] = list[i].flags;
      if (device != pool->device) Allocations::instance().set_peer(device, pool->device, list[i].flags != 0);
    }
    return hipSuccess;
  });
}

APB_HIP hipError_t hipMemPoolGetAccess(int* out, hipMemPool_t handle, hipMemLocation* location) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    const auto pool = find_pool(handle, error);
    if (!pool) return error;
    if (!out || !location) return null_argument("an argument");
    const std::lock_guard guard(pool->mutex);
    const auto it = pool->access.find(location->id);
    *out = it != pool->access.end() ? it->second : location->id == pool->device ? 3 : 0;
    return hipSuccess;
  });
}
