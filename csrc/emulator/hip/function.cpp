// Queries of a function: attributes and occupancy.
#include <algorithm>
#include <climits>

#include "machine/schedule/occupancy.h"
#include "module.h"

namespace apb::emu::hip {
namespace {

constexpr int kWave = 64;

int max_dynamic(const Function& function) {
  const int limit = static_cast<int>(find_device(function.code->device)->lds_bytes() - function.kernel->static_lds);
  const int asked = function.max_dynamic_lds;
  return asked > 0 ? asked : std::max(limit, 0);
}

}  // namespace

int blocks_per_unit(const Function& function, std::size_t block, std::size_t dynamic_lds) {
  return static_cast<int>(workgroups_per_unit(*function.kernel, block, dynamic_lds));
}

namespace {

hipError_t max_blocks(int* out, const void* handle, int block, std::size_t dynamic_lds) {
  if (!out) return null_argument("the result");
  hipError_t error = hipSuccess;
  const auto function = find_function(handle, error);
  if (!function) return error;
  if (block <= 0) return fail(hipErrorInvalidValue, "a block of %d", block);
  *out = blocks_per_unit(*function, static_cast<std::size_t>(block), dynamic_lds);
  return hipSuccess;
}

// The largest block with the most resident work items, and the grid that fills the device with it.
hipError_t best_block(int* grid, int* block, const void* handle, std::size_t dynamic_lds, int limit) {
  if (!grid || !block) return null_argument("a result");
  hipError_t error = hipSuccess;
  const auto function = find_function(handle, error);
  if (!function) return error;
  if (limit < 0) return fail(hipErrorInvalidValue, "a limit of %d", limit);
  const int most = std::min(limit > 0 ? limit : INT_MAX, static_cast<int>(function->kernel->max_block));
  int best = 0, best_items = 0, best_count = 0;
  for (int size = std::max(most / kWave, 1) * kWave; size > 0; size -= kWave) {
    const int items = std::min(size, most),
              count = blocks_per_unit(*function, static_cast<std::size_t>(items), dynamic_lds);
    if (count * items <= best_items) continue;
    best = items, best_items = count * items, best_count = count;
  }
  *block = best;
  *grid = best_count * static_cast<int>(find_device(function->code->device)->configuration.compute_units);
  return hipSuccess;
}

hipError_t attribute_of(const Function& function, int attribute, int& out) {
  const Kernel& kernel = *function.kernel;
  const int architecture = find_device(function.code->device)->configuration.target == Target::Gfx950 ? 95 : 94;
  switch (attribute) {
    case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: out = static_cast<int>(kernel.max_block); return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: out = static_cast<int>(kernel.static_lds); return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: out = 0; return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: out = static_cast<int>(kernel.private_bytes); return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_NUM_REGS: out = static_cast<int>(kernel.vgprs); return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_PTX_VERSION:
    case HIP_FUNC_ATTRIBUTE_BINARY_VERSION: out = architecture; return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA: out = 0; return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: out = max_dynamic(function); return hipSuccess;
    case HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: out = 0; return hipSuccess;
    default: return fail(hipErrorInvalidValue, "attribute %d", attribute);
  }
}

}  // namespace
}  // namespace apb::emu::hip

using namespace apb::emu::hip;

APB_HIP hipError_t hipFuncGetAttribute(int* out, hipFunction_attribute attribute, hipFunction_t handle) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    hipError_t error = hipSuccess;
    const auto function = find_function(handle, error);
    return function ? attribute_of(*function, attribute, *out) : error;
  });
}

APB_HIP hipError_t hipFuncGetAttributes(hipFuncAttributes* out, const void* handle) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    hipError_t error = hipSuccess;
    const auto function = find_function(handle, error);
    if (!function) return error;
    *out = {};
    int value = 0;
    const auto get = [&](int attribute) { return attribute_of(*function, attribute, value), value; };
    out->binaryVersion = get(HIP_FUNC_ATTRIBUTE_BINARY_VERSION);
    out->ptxVersion = get(HIP_FUNC_ATTRIBUTE_PTX_VERSION);
    out->localSizeBytes = static_cast<std::size_t>(get(HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
    out->sharedSizeBytes = static_cast<std::size_t>(get(HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
    out->maxDynamicSharedSizeBytes = get(HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    out->maxThreadsPerBlock = get(HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    out->numRegs = get(HIP_FUNC_ATTRIBUTE_NUM_REGS);
    return hipSuccess;
  });
}

APB_HIP hipError_t hipFuncSetAttribute(const void* handle, hipFuncAttribute attribute, int value) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    const auto function = find_function(handle, error);
    if (!function) return error;
    if (attribute == hipFuncAttributePreferredSharedMemoryCarveout) return hipSuccess;  // a hint
    if (attribute != hipFuncAttributeMaxDynamicSharedMemorySize)
      return fail(hipErrorInvalidValue, "attribute %d", static_cast<int>(attribute));
    const int limit = static_cast<int>(find_device(function->code->device)->lds_bytes() - function->kernel->static_lds);
    if (value < 0 || value > limit)
      return fail(hipErrorInvalidValue, "%d bytes of dynamic LDS, %d are left", value, limit);
    function->max_dynamic_lds = value;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipFuncSetCacheConfig(const void* handle, int value) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    if (!find_function(handle, error)) return error;
    return value >= 0 && value <= 3 ? hipSuccess : fail(hipErrorInvalidValue, "cache configuration %d", value);
  });
}
APB_HIP hipError_t hipFuncSetSharedMemConfig(const void* handle, int value) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    if (!find_function(handle, error)) return error;
    return value >= 0 && value <= 2 ? hipSuccess : fail(hipErrorInvalidValue, "bank configuration %d", value);
  });
}

APB_HIP hipError_t hipKernelGetName(const char** out, hipKernel_t handle) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    hipError_t error = hipSuccess;
    const auto function = find_function(handle, error);
    if (function) *out = function->name.c_str();
    return error;
  });
}
// Not error codes: a name, or null.
APB_HIP const char* hipKernelNameRef(hipFunction_t handle) {
  const auto function = table<Function>().find(handle);
  return function ? function->name.c_str() : nullptr;
}
APB_HIP const char* hipKernelNameRefByPtr(const void* host, hipStream_t) {
  hipError_t error = hipSuccess;
  const auto function = find_function(host, error);
  return function ? function->name.c_str() : nullptr;
}

#define APB_MAX_BLOCKS(NAME, HANDLE)                                                                    \
  APB_HIP hipError_t NAME(int* out, HANDLE function, int block, std::size_t lds) {                      \
    return entry(__func__, [&] { return max_blocks(out, function, block, lds); });                      \
  }                                                                                                     \
  APB_HIP hipError_t NAME##WithFlags(int* out, HANDLE function, int block, std::size_t lds, unsigned) { \
    return entry(__func__, [&] { return max_blocks(out, function, block, lds); });                      \
  }
APB_MAX_BLOCKS(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, hipFunction_t)
APB_MAX_BLOCKS(hipOccupancyMaxActiveBlocksPerMultiprocessor, const void*)

APB_HIP hipError_t hipModuleOccupancyMaxPotentialBlockSize(int* grid, int* block, hipFunction_t function,
                                                           std::size_t lds, int limit) {
  return entry(__func__, [&] { return best_block(grid, block, function, lds, limit); });
}
APB_HIP hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, hipFunction_t function,
                                                                    std::size_t lds, int limit, unsigned) {
  return entry(__func__, [&] { return best_block(grid, block, function, lds, limit); });
}
APB_HIP hipError_t hipOccupancyMaxPotentialBlockSize(int* grid, int* block, const void* function, std::size_t lds,
                                                     int limit) {
  return entry(__func__, [&] { return best_block(grid, block, function, lds, limit); });
}
APB_HIP hipError_t hipOccupancyAvailableDynamicSMemPerBlock(std::size_t* out, const void* handle, int blocks,
                                                            int block) {
  return entry(__func__, [&] {
    if (!out || blocks <= 0 || block <= 0) return fail(hipErrorInvalidValue, "%d blocks of %d", blocks, block);
    hipError_t error = hipSuccess;
    const auto function = find_function(handle, error);
    if (!function) return error;
    if (blocks_per_unit(*function, static_cast<std::size_t>(block), 0) < blocks)
      return fail(hipErrorInvalidValue, "%d blocks of %d do not fit", blocks, block);
    const std::size_t each = find_device(function->code->device)->lds_bytes() / static_cast<std::size_t>(blocks),
                      own = function->kernel->static_lds;
    *out = each > own ? each - own : 0;
    return hipSuccess;
  });
}
