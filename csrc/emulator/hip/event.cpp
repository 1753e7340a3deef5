// Events: a point in a stream, with the time at which it was passed.
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill is POSIX, <csignal> need not have it
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "capture.h"
#include "machine/memory/page.h"
#include "task.h"

namespace apb::emu::hip {
namespace {

constexpr unsigned kEventFlags = hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess |
                                 hipEventDisableSystemFence | hipEventReleaseToDevice | hipEventReleaseToSystem;

hipError_t create(hipEvent_t* out, unsigned flags) {
  if (!out) return null_argument("the result");
  if ((flags & ~kEventFlags) != 0) return fail(hipErrorInvalidValue, "flags 0x%x", flags);
  if ((flags & hipEventReleaseToDevice) && (flags & hipEventReleaseToSystem))
    return fail(hipErrorInvalidValue, "both kinds of release");
  if ((flags & hipEventInterprocess) && !(flags & hipEventDisableTiming))
    return fail(hipErrorInvalidValue, "an event of several processes without hipEventDisableTiming");
  auto event = std::make_shared<Event>();
  event->device = thread().device;
  event->flags = flags;
  *out = static_cast<hipEvent_t>(table<Event>().add(std::move(event)));
  return hipSuccess;
}

hipError_t record(hipEvent_t handle, hipStream_t stream_handle, bool external) {
  hipError_t error = hipSuccess;
  const auto event = find_event(handle, error);
  if (!event) return error;
  const auto stream = find_stream(stream_handle, error);
  if (!stream) return error;
  if (event->device != stream->device)
    return fail(hipErrorInvalidHandle, "the event belongs to device %d, the stream to device %d", event->device,
                stream->device);
  {
    const std::lock_guard guard(capture_mutex());
    if (stream->capture && !external) {
      if (stream->capture->broken) return hipErrorStreamCaptureInvalidated;
      event->capture = stream->capture;
      event->tail = stream->tail;
      return hipSuccess;
    }
    if (!stream->capture) {
      event->capture.reset();
      event->tail.clear();
    }
  }
  return submit(stream, RecordOperation{event});
}

hipError_t wait(hipStream_t stream_handle, hipEvent_t handle, unsigned flags) {
  if ((flags & ~hipEventWaitExternal) != 0) return fail(hipErrorInvalidValue, "flags 0x%x", flags);
  hipError_t error = hipSuccess;
  const auto event = find_event(handle, error);
  if (!event) return error;
  const auto stream = find_stream(stream_handle, error);
  if (!stream) return error;
  {
    const std::lock_guard guard(capture_mutex());
    if (!(flags & hipEventWaitExternal) && (stream->capture || event->capture)) return capture_wait(stream, *event);
  }
  return submit(stream, WaitOperation{event});
}

// For calls that look at a time: not when the event lies in a capture.
hipError_t outside_capture(const Event& event) {
  const std::lock_guard guard(capture_mutex());
  if (!event.capture) return hipSuccess;
  if (!event.capture->ended) break_capture(*event.capture);
  return fail(hipErrorCapturedEvent, "the event was last recorded in a capture");
}

hipError_t finished(hipEvent_t handle, bool wait) {
  hipError_t error = hipSuccess;
  const auto event = find_event(handle, error);
  if (!event) return error;
  if (const hipError_t captured = outside_capture(*event); captured != hipSuccess) return captured;
  std::uint64_t foreign = 0;
  auto task = passing(*event, foreign);
  if (!wait && (task || foreign != 0)) return hipErrorNotReady;
  TaskList open;
  if (task) open.push_back(std::move(task));
  error = synchronize(*find_device(event->device), open);
  return error == hipSuccess && foreign != 0 ? wait_foreign(*event, foreign) : error;
}

// hipErrorNotReady while it is not, hipErrorInvalidHandle when it never was recorded.
hipError_t passed(Event& event, std::chrono::steady_clock::time_point& time) {
  const std::lock_guard guard(event.mutex);
  time = event.time;
  if (!event.recorded) return fail(hipErrorInvalidHandle, "an event was never recorded");
  return event.task ? hipErrorNotReady : hipSuccess;
}

bool gone(std::int32_t process) { return process > 0 && ::kill(process, 0) != 0 && errno == ESRCH; }

}  // namespace

std::shared_ptr<Event> find_event(hipEvent_t handle, hipError_t& error) {
  auto event = table<Event>().find(handle);
  if (!event) error = fail(hipErrorInvalidHandle, "%p is no event", static_cast<void*>(handle));
  return event;
}

Event::~Event() {
  if (page) ::munmap(page, kPage);
}

bool map_page(Event& event) {
  void* at = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, event.file.descriptor(), 0);
  if (at == MAP_FAILED) return false;
  event.page = static_cast<EventPage*>(at);  // zeros are an event that was never recorded
  return true;
}

void begin_record(RecordOperation& record, const std::shared_ptr<Task>& task) {
  Event& event = *record.event;
  const std::lock_guard guard(event.mutex);
  record.task = task.get();
  event.recorded = true;
  event.task = task;
  if (!event.page) return;
  event.page->recorder = ::getpid();
  record.ticket = event.page->recorded.fetch_add(1) + 1;
}

void record_now(const RecordOperation& record) {
  Event& event = *record.event;
  const std::lock_guard guard(event.mutex);
  const bool latest = event.task.get() == record.task;
  if (event.page) {
    // Shared since: hipIpcGetEventHandle has given the latest record the first ticket.
    const std::uint64_t ticket = record.ticket ? record.ticket : latest ? 1 : 0;
    std::uint64_t done = event.page->done;
    while (done < ticket && !event.page->done.compare_exchange_weak(done, ticket)) {
    }
  }
  if (!latest) return;
  event.task.reset();
  event.time = std::chrono::steady_clock::now();
}

std::shared_ptr<Task> passing(Event& event, std::uint64_t& foreign) {
  foreign = 0;
  const std::lock_guard guard(event.mutex);
  if (event.task && !event.task->done) return event.task;
  if (!event.page) return nullptr;
  const std::uint64_t last = event.page->recorded;
  if (event.page->done < last && !gone(event.page->recorder)) foreign = last;
  return nullptr;
}

hipError_t wait_foreign(const Event& event, std::uint64_t ticket) {
  constexpr std::chrono::microseconds kRest{100};
  constexpr unsigned kLook = 256;  // rests between looks whether that process lives
  const InterruptionScope scope;
  for (unsigned i = 1; event.page->done < ticket; ++i) {
    if (scope.state()->due()) return fail(hipErrorLaunchFailure, "interrupted while it waited for another process");
    if (i % kLook == 0 && gone(event.page->recorder)) return hipSuccess;  // its work has ended with it
    std::this_thread::sleep_for(kRest);
  }
  return hipSuccess;
}

}  // namespace apb::emu::hip

using namespace apb::emu::hip;

APB_HIP hipError_t hipEventCreate(hipEvent_t* out) {
  return entry(__func__, [&] { return create(out, 0); });
}
APB_HIP hipError_t hipEventCreateWithFlags(hipEvent_t* out, unsigned flags) {
  return entry(__func__, [&] { return create(out, flags); });
}

APB_HIP hipError_t hipEventDestroy(hipEvent_t handle) {
  return entry(__func__, [&] {
    return table<Event>().take(handle) ? hipSuccess
                                       : fail(hipErrorInvalidHandle, "%p is no event", static_cast<void*>(handle));
  });
}

APB_HIP hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return entry(__func__, [&] { return record(event, stream, false); });
}
APB_HIP hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned flags) {
  return entry(__func__, [&] {
    if ((flags & ~hipEventRecordExternal) != 0) return fail(hipErrorInvalidValue, "flags 0x%x", flags);
    return record(event, stream, (flags & hipEventRecordExternal) != 0);
  });
}

APB_HIP hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) {
  return entry(__func__, [&] { return wait(stream, event, flags); });
}

// An event that was never recorded is complete.
APB_HIP hipError_t hipEventQuery(hipEvent_t event) {
  return entry(__func__, [&] { return finished(event, false); });
}
APB_HIP hipError_t hipEventSynchronize(hipEvent_t event) {
  return entry(__func__, [&] { return finished(event, true); });
}

APB_HIP hipError_t hipEventElapsedTime(float* out, hipEvent_t first, hipEvent_t last) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    hipError_t error = hipSuccess;
    const auto from = find_event(first, error);
    const auto to = from ? find_event(last, error) : nullptr;
    if (!to) return error;
    if (const hipError_t captured = outside_capture(*from); captured != hipSuccess) return captured;
    if (const hipError_t captured = outside_capture(*to); captured != hipSuccess) return captured;
    if ((from->flags | to->flags) & hipEventDisableTiming)
      return fail(hipErrorInvalidHandle, "an event was created without timing");
    std::chrono::steady_clock::time_point begin, end;
    if (const hipError_t open = passed(*from, begin); open != hipSuccess) return open;
    if (const hipError_t open = passed(*to, end); open != hipSuccess) return open;
    *out = std::chrono::duration<float, std::milli>(end - begin).count();
    return hipSuccess;
  });
}
