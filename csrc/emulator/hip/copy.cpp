// Copies: which are allowed, and carrying them out without trusting the caller's pointers.
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "copy.h"
#include "memory.h"
#include "stream.h"

namespace apb::emu::hip {
namespace {

// Bytes from the first to behind the last one touched; false on overflow.
bool span_of(std::size_t width, std::size_t height, std::size_t depth, std::size_t pitch, std::size_t slice,
             std::size_t& out) {
  std::size_t rows = 0, slices = 0;
  return !__builtin_mul_overflow(height - 1, pitch, &rows) && !__builtin_mul_overflow(depth - 1, slice, &slices) &&
         !__builtin_add_overflow(rows, slices, &out) && !__builtin_add_overflow(out, width, &out);
}

enum class Side { Live, Unknown, Bad };

// Is the range all in one live allocation, in none, or half in one?
Side side_of(const void* address, std::size_t bytes, const char* name, hipError_t& error) {
  Allocation found;
  if (!live(address, found)) return Side::Unknown;
  const std::uint64_t begin = reinterpret_cast<std::uint64_t>(address);
  const std::uint64_t rest = found.end() - begin;
  if (rest >= bytes) return Side::Live;
  if (rest == 0) return Side::Unknown;  // the byte behind an allocation is somebody else's
  error =
      fail(hipErrorInvalidValue,
           "the %s, %zu bytes at %p, passes the end of allocation %llu (%llu bytes at 0x%llx) by %llu bytes", name,
           bytes, address, static_cast<unsigned long long>(found.number), static_cast<unsigned long long>(found.bytes),
           static_cast<unsigned long long>(found.begin), static_cast<unsigned long long>(bytes - rest));
  return Side::Bad;
}

hipError_t outside(const char* name, const void* address) {
  char where[512] = "";
  Allocations::instance().describe(thread().device, reinterpret_cast<std::uint64_t>(address), 1, where, sizeof where);
  return fail(hipErrorInvalidValue, "the %s %p is not in device memory: %s", name, address, where);
}

struct Sides {
  Side to = Side::Unknown, from = Side::Unknown;
};

hipError_t check(const CopyOperation& c, Sides& sides) {
  if (c.width == 0 || c.height == 0 || c.depth == 0) return hipSuccess;
  if (!c.to || !c.from) return null_argument(c.to ? "the source" : "the destination");
  const int kind = c.kind;
  if (kind != hipMemcpyDeviceToDeviceNoCU && (kind < hipMemcpyHostToHost || kind > hipMemcpyDefault))
    return fail(hipErrorInvalidMemcpyDirection, "direction %d", kind);
  if (c.height > 1 && (c.to_pitch < c.width || c.from_pitch < c.width))
    return fail(hipErrorInvalidPitchValue, "rows of %zu bytes, pitches %zu and %zu", c.width, c.to_pitch, c.from_pitch);
  std::size_t to_bytes = 0, from_bytes = 0;
  if (!span_of(c.width, c.height, c.depth, c.to_pitch, c.to_slice, to_bytes) ||
      !span_of(c.width, c.height, c.depth, c.from_pitch, c.from_slice, from_bytes))
    return fail(hipErrorInvalidValue, "the extent is too large");
  hipError_t error = hipSuccess;
  sides.to = side_of(c.to, to_bytes, "destination", error);
  if (sides.to != Side::Bad) sides.from = side_of(c.from, from_bytes, "source", error);
  if (error != hipSuccess) return error;
  const bool device_to =
      kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice || kind == hipMemcpyDeviceToDeviceNoCU;
  const bool device_from =
      kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice || kind == hipMemcpyDeviceToDeviceNoCU;
  if (device_to && sides.to != Side::Live) return outside("destination", c.to);
  if (device_from && sides.from != Side::Live) return outside("source", c.from);
  return hipSuccess;
}

// Memory that HIP knows is there. Any other pointer may lead nowhere: the kernel copies then, and answers EFAULT where
// a load would have ended the process. Sandboxes that forbid the call get the plain copy.
hipError_t move(void* to, const void* from, std::size_t bytes, bool trusted) {
  static std::atomic<bool> allowed{true};
  if (trusted || !allowed) {
    std::memmove(to, from, bytes);
    return hipSuccess;
  }
  for (std::size_t done = 0; done < bytes;) {
    const iovec local{static_cast<char*>(to) + done, bytes - done};
    const iovec remote{const_cast<char*>(static_cast<const char*>(from)) + done, bytes - done};
    const ssize_t moved = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (moved > 0) {
      done += static_cast<std::size_t>(moved);
    } else if (errno == EFAULT || moved == 0) {
      return fail(hipErrorInvalidValue, "%zu bytes from %p to %p: one of them is not mapped", bytes, from, to);
    } else {
      allowed = false;
      std::memmove(static_cast<char*>(to) + done, static_cast<const char*>(from) + done, bytes - done);
      return hipSuccess;
    }
  }
  return hipSuccess;
}

}  // namespace

// Memory that HIP has not allocated and does not know: such a copy is done when its call returns.
bool is_pageable(const CopyOperation& c) {
  Allocation found;
  return !live(c.to, found) || !live(c.from, found);
}

hipError_t check_copy(const CopyOperation& operation) {
  Sides sides;
  return check(operation, sides);
}

hipError_t run_copy(const CopyOperation& c) {
  Sides sides;
  if (const hipError_t error = check(c, sides); error != hipSuccess) return error;
  if (c.width == 0 || c.height == 0 || c.depth == 0) return hipSuccess;
  const bool trusted = sides.to == Side::Live && sides.from == Side::Live;
  const bool flat = c.depth == 1 && (c.height == 1 || (c.to_pitch == c.width && c.from_pitch == c.width));
  if (flat) return move(c.to, c.from, c.width * c.height, trusted);
  for (std::size_t z = 0; z < c.depth; ++z) {
    for (std::size_t y = 0; y < c.height; ++y) {
      char* to = static_cast<char*>(c.to) + z * c.to_slice + y * c.to_pitch;
      const char* from = static_cast<const char*>(c.from) + z * c.from_slice + y * c.from_pitch;
      if (const hipError_t error = move(to, from, c.width, trusted); error != hipSuccess) return error;
    }
  }
  return hipSuccess;
}

CopyOperation flat_copy(void* to, const void* from, std::size_t bytes, hipMemcpyKind kind) {
  CopyOperation out;
  out.to = to;
  out.from = from;
  out.width = out.to_pitch = out.from_pitch = bytes;
  out.kind = kind;
  return out;
}

std::size_t slice_bytes(std::size_t pitch, std::size_t rows) {
  std::size_t bytes = 0;
  return __builtin_mul_overflow(pitch, rows, &bytes) ? SIZE_MAX : bytes;
}

hipError_t place_in_box(const void* base, std::size_t pitch, std::size_t slice, const hipPos& at, void*& out) {
  std::size_t rows = 0, slices = 0, bytes = 0;
  std::uintptr_t address = 0;
  if (__builtin_mul_overflow(at.y, pitch, &rows) || __builtin_mul_overflow(at.z, slice, &slices) ||
      __builtin_add_overflow(rows, slices, &bytes) || __builtin_add_overflow(bytes, at.x, &bytes) ||
      __builtin_add_overflow(bytes, reinterpret_cast<std::uintptr_t>(base), &address))
    return fail(hipErrorInvalidValue, "the position (%zu, %zu, %zu) of a box with a pitch of %zu bytes is no address",
                at.x, at.y, at.z, pitch);
  out = base ? reinterpret_cast<void*>(address) : nullptr;
  return hipSuccess;
}

hipError_t copy_of(const hipMemcpy3DParms& p, CopyOperation& out) {
  if (p.srcArray || p.dstArray) return fail(hipErrorNotSupported, "arrays");
  out.to_pitch = p.dstPtr.pitch;
  out.from_pitch = p.srcPtr.pitch;
  out.to_slice = slice_bytes(p.dstPtr.pitch, p.dstPtr.ysize);
  out.from_slice = slice_bytes(p.srcPtr.pitch, p.srcPtr.ysize);
  void* from = nullptr;
  if (const hipError_t error = place_in_box(p.dstPtr.ptr, out.to_pitch, out.to_slice, p.dstPos, out.to);
      error != hipSuccess)
    return error;
  if (const hipError_t error = place_in_box(p.srcPtr.ptr, out.from_pitch, out.from_slice, p.srcPos, from);
      error != hipSuccess)
    return error;
  out.from = from;
  out.width = p.extent.width;
  out.height = p.extent.height;
  out.depth = p.extent.depth;
  out.kind = p.kind;
  return hipSuccess;
}

hipMemcpy3DParms params_of(const CopyOperation& c) {
  hipMemcpy3DParms out{};
  out.srcPtr = {const_cast<void*>(c.from), c.from_pitch, c.width,
                c.from_pitch ? std::max(c.from_slice / c.from_pitch, c.height) : c.height};
  out.dstPtr = {c.to, c.to_pitch, c.width, c.to_pitch ? std::max(c.to_slice / c.to_pitch, c.height) : c.height};
  out.extent = {c.width, c.height, c.depth};
  out.kind = c.kind;
  return out;
}

}  // namespace apb::emu::hip
