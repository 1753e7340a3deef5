// Memory and events that processes share. A handle is 64 bytes that came from anywhere: it is believed only where the file
// that it names says the same.
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "capture.h"
#include "machine/memory/page.h"
#include "memory.h"
#include "task.h"

namespace apb::emu::hip {
namespace {

constexpr unsigned kLazyPeerAccess = 1;  // hipIpcMemLazyEnablePeerAccess, the only way that HIP knows
constexpr std::uint64_t kMemoryMark = 0x31'6d'65'6d'2d'62'70'61, kEventMark = 0x31'74'76'65'2d'62'70'61;
constexpr const char* kEventKind = "event";

// The content of the 64 bytes of a handle, of memory and of events alike.
struct Handle {
  std::uint64_t mark = 0;
  FilePlace place;
  std::uint64_t bytes = 0, offset = 0;  // of the allocation; of the address in it
  std::uint64_t unused = 0;
  std::uint64_t check = 0;  // of all before it: damage is told apart from a process that is gone

  std::uint64_t sum() const {
    std::uint64_t value = 0xcbf29ce484222325;  // FNV-1a
    const auto* at = reinterpret_cast<const unsigned char*>(this);
    for (std::size_t i = 0; i < offsetof(Handle, check); ++i) value = (value ^ at[i]) * 0x100000001b3;
    return value;
  }
};
static_assert(sizeof(Handle) == sizeof(hipIpcMemHandle_t) && sizeof(Handle) == sizeof(hipIpcEventHandle_t));

template <class Out>
void write(Handle handle, Out* out) {
  handle.check = handle.sum();
  std::memcpy(out, &handle, sizeof handle);
}

// hipErrorInvalidValue: no such handle. hipErrorInvalidContext: one of this process, as HIP answers.
template <class In>
hipError_t read(const In& in, std::uint64_t mark, Handle& out) {
  std::memcpy(&out, &in, sizeof out);
  if (out.mark != mark || out.check != out.sum() || out.place.process <= 0 || out.place.descriptor < 0)
    return fail(hipErrorInvalidValue, "these 64 bytes are no handle of the embedded device's %s, or they are damaged",
                mark == kMemoryMark ? "memory" : "events");
  if (out.place.process != ::getpid()) return hipSuccess;
  return fail(hipErrorInvalidContext, "the handle was made by this process, which has what it stands for already");
}

hipError_t get_memory(hipIpcMemHandle_t* out, void* address) {
  if (!out || !address) return null_argument("an argument");
  Allocation found;
  if (!live(address, found))
    return fail(hipErrorInvalidDevicePointer, "%p is in no live allocation (freed already?)", address);
  if (found.kind != AllocationKind::Device)
    return fail(hipErrorInvalidDevicePointer, "%p is not memory of hipMalloc or hipExtMallocWithFlags", address);
  Handle handle;
  handle.mark = kMemoryMark;
  handle.bytes = found.bytes;
  handle.offset = reinterpret_cast<std::uint64_t>(address) - found.begin;
  std::string problem;
  if (!Allocations::instance().share(found.begin, handle.place, problem))
    return fail(hipErrorOutOfMemory, "the %llu bytes of %p cannot be shared: %s",
                static_cast<unsigned long long>(found.bytes), address, problem.c_str());
  write(handle, out);
  return hipSuccess;
}

hipError_t open_memory(void** out, const hipIpcMemHandle_t& in, unsigned flags) {
  if (!out) return null_argument("the result");
  *out = nullptr;
  if (flags != kLazyPeerAccess)
    return fail(hipErrorInvalidValue, "flags 0x%x, must be hipIpcMemLazyEnablePeerAccess (1)", flags);
  Handle handle;
  if (const hipError_t error = read(in, kMemoryMark, handle); error != hipSuccess) return error;
  constexpr std::uint64_t kMost = 1ull << 47;  // of addresses
  if (handle.bytes == 0 || handle.bytes > kMost || handle.offset >= handle.bytes)
    return fail(hipErrorInvalidValue, "a handle of the byte %llu of %llu",
                static_cast<unsigned long long>(handle.offset), static_cast<unsigned long long>(handle.bytes));
  std::string problem;
  SharedFile file = SharedFile::open(handle.place, kMemoryKind, round_up(handle.bytes, kPage), problem);
  if (!file.valid()) return fail(hipErrorInvalidDevicePointer, "the handle cannot be opened: %s", problem.c_str());
  void* const base = Allocations::instance().import(std::move(file), thread().device, handle.bytes);
  if (!base)
    return fail(hipErrorInvalidDevicePointer, "no addresses for %llu bytes on device %d",
                static_cast<unsigned long long>(handle.bytes), thread().device);
  *out = static_cast<std::uint8_t*>(base) + handle.offset;
  return hipSuccess;
}

// The file holds the event's page (EventPage). Each record takes a ticket there, and the event is past when its last one is.
hipError_t get_event(hipIpcEventHandle_t* out, hipEvent_t handle) {
  if (!out) return null_argument("the result");
  hipError_t error = hipSuccess;
  const auto event = find_event(handle, error);
  if (!event) return error;
  if ((event->flags & hipEventInterprocess) == 0)
    return fail(hipErrorInvalidConfiguration, "the event was created without hipEventInterprocess");
  const std::lock_guard guard(event->mutex);
  std::string problem;
  if (!event->file.valid()) event->file = SharedFile::create(kEventKind, kPage, problem);
  if (event->file.valid() && !event->page) {
    if (!map_page(*event)) return fail(hipErrorOutOfMemory, "the event's page cannot be mapped");
    if (event->task) event->page->recorded = 1, event->page->recorder = ::getpid();  // see record_now
  }
  Handle made;
  made.mark = kEventMark;
  made.bytes = kPage;
  if (!event->file.valid() || !event->file.place(made.place))
    return fail(hipErrorOutOfMemory, "the event cannot be shared: %s",
                problem.empty() ? "its descriptor was closed by the program" : problem.c_str());
  write(made, out);
  return hipSuccess;
}

hipError_t open_event(hipEvent_t* out, const hipIpcEventHandle_t& in) {
  if (!out) return null_argument("the result");
  Handle handle;
  if (const hipError_t error = read(in, kEventMark, handle); error != hipSuccess) return error;
  std::string problem;
  auto event = std::make_shared<Event>();
  event->file = SharedFile::open(handle.place, kEventKind, kPage, problem);
  if (!event->file.valid()) return fail(hipErrorInvalidValue, "the handle cannot be opened: %s", problem.c_str());
  if (!map_page(*event)) return fail(hipErrorOutOfMemory, "the event's page cannot be mapped");
  event->device = thread().device;
  event->flags = hipEventInterprocess | hipEventDisableTiming;
  *out = static_cast<hipEvent_t>(table<Event>().add(std::move(event)));
  return hipSuccess;
}

}  // namespace
}  // namespace apb::emu::hip

using namespace apb::emu;
using namespace apb::emu::hip;

APB_HIP hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t* out, void* address) {
  return entry(__func__, [&] { return get_memory(out, address); });
}

APB_HIP hipError_t hipIpcOpenMemHandle(void** out, hipIpcMemHandle_t handle, unsigned flags) {
  return entry(__func__, [&] {
    if (const hipError_t error = refuse_unsafe(); error != hipSuccess) return error;
    return open_memory(out, handle, flags);
  });
}

APB_HIP hipError_t hipIpcCloseMemHandle(void* address) {
  return entry(__func__, [&] {
    if (!address) return null_argument("the address");
    if (const hipError_t error = refuse_unsafe(); error != hipSuccess) return error;
    settle(-1);
    if (Allocations::instance().close(reinterpret_cast<std::uint64_t>(address))) return hipSuccess;
    return fail(hipErrorInvalidHandle, "%p is in no memory that hipIpcOpenMemHandle opened (closed already?)", address);
  });
}

APB_HIP hipError_t hipIpcGetEventHandle(hipIpcEventHandle_t* out, hipEvent_t event) {
  return entry(__func__, [&] { return get_event(out, event); });
}

APB_HIP hipError_t hipIpcOpenEventHandle(hipEvent_t* out, hipIpcEventHandle_t handle) {
  return entry(__func__, [&] { return open_event(out, handle); });
}
