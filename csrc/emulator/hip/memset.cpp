// Filling memory.
#include <algorithm>
#include <cstring>

#include "capture.h"
#include "memory.h"
#include "stream.h"

namespace apb::emu::hip {
namespace {

bool bytes_of(const SetOperation& set, std::size_t& out) {
  const hipMemsetParams& p = set.params;
  std::size_t width = 0, rows = 0, slices = 0;
  return !__builtin_mul_overflow(p.width, p.elementSize, &width) &&
         !__builtin_mul_overflow(p.height - 1, p.pitch, &rows) &&
         !__builtin_mul_overflow(set.depth - 1, set.slice, &slices) && !__builtin_add_overflow(rows, slices, &out) &&
         !__builtin_add_overflow(out, width, &out);
}

bool empty(const SetOperation& set) { return set.params.width == 0 || set.params.height == 0 || set.depth == 0; }

template <class Element>
void fill(void* at, unsigned value, std::size_t count) {
  // Destinations need no more than their element's alignment from the interface, and not even that in practice.
  const auto element = static_cast<Element>(value);
  auto* bytes = static_cast<unsigned char*>(at);
  for (std::size_t i = 0; i < count; ++i) std::memcpy(bytes + i * sizeof(Element), &element, sizeof element);
}

SetOperation flat(void* to, unsigned value, std::size_t count, unsigned element) {
  SetOperation out;
  out.params = {to, element, 1, count * element, value, count};
  return out;
}

SetOperation rows(void* to, std::size_t pitch, unsigned value, std::size_t width, std::size_t height,
                  unsigned element) {
  SetOperation out;
  out.params = {to, element, height, pitch, value, width};
  return out;
}

SetOperation box(const hipPitchedPtr& to, int value, const hipExtent& extent) {
  SetOperation out = rows(to.ptr, to.pitch, static_cast<unsigned>(value), extent.width, extent.height, 1);
  out.slice = to.pitch * to.ysize;
  out.depth = extent.depth;
  return out;
}

hipError_t set_now(const SetOperation& operation) {
  return submit(current_device().null_stream, operation, Until::Done);
}

hipError_t set_on(hipStream_t handle, const SetOperation& operation) {
  hipError_t error = hipSuccess;
  const auto stream = find_stream(handle, error);
  if (!stream) return error;
  if (const hipError_t wrong = check_set(operation); wrong != hipSuccess) return wrong;
  return submit(stream, operation);
}

}  // namespace

hipError_t check_set(const SetOperation& set) {
  const hipMemsetParams& p = set.params;
  if (empty(set)) return hipSuccess;
  if (p.elementSize != 1 && p.elementSize != 2 && p.elementSize != 4)
    return fail(hipErrorInvalidValue, "elements of %u bytes", p.elementSize);
  if (!p.dst) return null_argument("the destination");
  std::size_t bytes = 0;
  if (!bytes_of(set, bytes)) return fail(hipErrorInvalidValue, "the extent is too large");
  if (p.height > 1 && p.pitch < p.width * p.elementSize)
    return fail(hipErrorInvalidPitchValue, "rows of %zu bytes, a pitch of %zu", p.width * p.elementSize, p.pitch);
  Allocation found;
  const std::uint64_t begin = reinterpret_cast<std::uint64_t>(p.dst);
  if (live(p.dst, found) && found.end() - begin >= bytes) return hipSuccess;
  char where[512] = "";
  Allocations::instance().describe(thread().device, begin, bytes, where, sizeof where);
  return fail(hipErrorInvalidValue, "%zu bytes at %p: %s", bytes, p.dst, where);
}

hipError_t run_set(const SetOperation& set) {
  if (const hipError_t error = check_set(set); error != hipSuccess) return error;
  if (empty(set)) return hipSuccess;
  const hipMemsetParams& p = set.params;
  for (std::size_t z = 0; z < set.depth; ++z) {
    for (std::size_t y = 0; y < p.height; ++y) {
      char* at = static_cast<char*>(p.dst) + z * set.slice + y * p.pitch;
      if (p.elementSize == 1)
        std::memset(at, static_cast<int>(p.value & 0xff), p.width);
      else if (p.elementSize == 2)
        fill<std::uint16_t>(at, p.value, p.width);
      else
        fill<std::uint32_t>(at, p.value, p.width);
    }
  }
  return hipSuccess;
}

}  // namespace apb::emu::hip

using namespace apb::emu::hip;

APB_HIP hipError_t hipMemset(void* to, int value, std::size_t bytes) {
  return entry(__func__, [&] { return set_now(flat(to, static_cast<unsigned>(value), bytes, 1)); });
}
APB_HIP hipError_t hipMemsetAsync(void* to, int value, std::size_t bytes, hipStream_t stream) {
  return entry(__func__, [&] { return set_on(stream, flat(to, static_cast<unsigned>(value), bytes, 1)); });
}
APB_HIP hipError_t hipMemsetD8(hipDeviceptr_t to, unsigned char value, std::size_t count) {
  return entry(__func__, [&] { return set_now(flat(to, value, count, 1)); });
}
APB_HIP hipError_t hipMemsetD8Async(hipDeviceptr_t to, unsigned char value, std::size_t count, hipStream_t stream) {
  return entry(__func__, [&] { return set_on(stream, flat(to, value, count, 1)); });
}
APB_HIP hipError_t hipMemsetD16(hipDeviceptr_t to, unsigned short value, std::size_t count) {
  return entry(__func__, [&] { return set_now(flat(to, value, count, 2)); });
}
APB_HIP hipError_t hipMemsetD16Async(hipDeviceptr_t to, unsigned short value, std::size_t count, hipStream_t stream) {
  return entry(__func__, [&] { return set_on(stream, flat(to, value, count, 2)); });
}
APB_HIP hipError_t hipMemsetD32(hipDeviceptr_t to, int value, std::size_t count) {
  return entry(__func__, [&] { return set_now(flat(to, static_cast<unsigned>(value), count, 4)); });
}
APB_HIP hipError_t hipMemsetD32Async(hipDeviceptr_t to, int value, std::size_t count, hipStream_t stream) {
  return entry(__func__, [&] { return set_on(stream, flat(to, static_cast<unsigned>(value), count, 4)); });
}
APB_HIP hipError_t hipMemset2D(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  return entry(__func__, [&] { return set_now(rows(to, pitch, static_cast<unsigned>(value), width, height, 1)); });
}
APB_HIP hipError_t hipMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height,
                                    hipStream_t stream) {
  return entry(__func__,
               [&] { return set_on(stream, rows(to, pitch, static_cast<unsigned>(value), width, height, 1)); });
}
APB_HIP hipError_t hipMemset3D(hipPitchedPtr to, int value, hipExtent extent) {
  return entry(__func__, [&] { return set_now(box(to, value, extent)); });
}
APB_HIP hipError_t hipMemset3DAsync(hipPitchedPtr to, int value, hipExtent extent, hipStream_t stream) {
  return entry(__func__, [&] { return set_on(stream, box(to, value, extent)); });
}

#define APB_MEMSET_ROWS(BITS, TYPE)                                                                                 \
  APB_HIP hipError_t hipMemsetD2D##BITS(hipDeviceptr_t to, std::size_t pitch, TYPE value, std::size_t width,        \
                                        std::size_t height) {                                                       \
    return entry(__func__, [&] { return set_now(rows(to, pitch, value, width, height, BITS / 8)); });               \
  }                                                                                                                 \
  APB_HIP hipError_t hipMemsetD2D##BITS##Async(hipDeviceptr_t to, std::size_t pitch, TYPE value, std::size_t width, \
                                               std::size_t height, hipStream_t stream) {                            \
    return entry(__func__, [&] { return set_on(stream, rows(to, pitch, value, width, height, BITS / 8)); });        \
  }
APB_MEMSET_ROWS(8, unsigned char)
APB_MEMSET_ROWS(16, unsigned short)
APB_MEMSET_ROWS(32, unsigned)
