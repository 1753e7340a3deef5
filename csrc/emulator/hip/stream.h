// Streams, events and what runs on them.
#pragma once

#include <chrono>

#include "machine/memory/shared_file.h"
#include "operation.h"
#include "runtime.h"

namespace apb::emu::hip {

struct Capture;
struct Node;

// Work runs at once, on the thread that enqueues it, unless it must wait for some that is outstanding (task.h). A stream's order is
// the order of its calls; `order` keeps the calls of several threads apart.
struct Stream {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  bool null = false, per_thread = false;
  unsigned long long id = 0;
  std::vector<std::uint32_t> mask;  // compute units that it may use: remembered, without effect
  std::recursive_mutex order;       // recursive: a host function may use its own stream

  // Under capture_mutex().
  std::shared_ptr<Capture> capture;
  std::vector<std::shared_ptr<Node>> tail;  // what the next captured operation depends on

  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();  // a capture that began on it is over, one that it joined is broken

  bool blocking() const { return (flags & hipStreamNonBlocking) == 0; }
};

// The page of an event that processes share. Other processes write it, too: its numbers are compared, and nothing else.
struct EventPage {
  std::atomic<std::uint64_t> recorded{0}, done{0};  // tickets: the last one given out, the highest that is past
  std::atomic<std::int32_t> recorder{0};            // process of the last one
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::int32_t>::is_always_lock_free);

struct Event {
  int device = 0;
  unsigned flags = 0;
  std::mutex mutex;
  std::atomic<bool> recorded{false};
  std::shared_ptr<Task> task;                  // that passes it; null: it is past
  std::chrono::steady_clock::time_point time;  // host clock: execution is on the host
  SharedFile file;                             // hipIpcGetEventHandle: what its handles name
  EventPage* page = nullptr;                   // of that file

  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  // Under capture_mutex(): recorded last in a capture.
  std::shared_ptr<Capture> capture;
  std::vector<std::shared_ptr<Node>> tail;
};

unsigned long long next_stream_id();

// Null and hipStreamLegacy are the current device's null stream, hipStreamPerThread the calling thread's own. Null with
// hipErrorInvalidHandle in `error` when the handle is no stream.
std::shared_ptr<Stream> find_stream(hipStream_t handle, hipError_t& error);
std::shared_ptr<Event> find_event(hipEvent_t handle, hipError_t& error);
// From now on the event stands for this record, which the task passes (null: it passes at once, in record_now).
void begin_record(RecordOperation& record, const std::shared_ptr<Task>& task);
void record_now(const RecordOperation& record);
// The task that passes the event, or null; `foreign`: the ticket that is not past of a record of another process, or 0.
std::shared_ptr<Task> passing(Event& event, std::uint64_t& foreign);
// Until another process's record is past, or that process is gone.
hipError_t wait_foreign(const Event& event, std::uint64_t ticket);
// Maps the page of the event's file.
bool map_page(Event& event);

enum class Until : std::uint8_t { Enqueued, Done };
// Runs the operation, or enqueues it behind what it must wait for, or makes it a node of the graph that the stream captures.
hipError_t submit(hipStream_t handle, Operation operation, Until until = Until::Enqueued);
hipError_t submit(const std::shared_ptr<Stream>& stream, Operation operation, Until until = Until::Enqueued);
// Runs it now, to its end unless it may be `left`.
hipError_t run(const Operation& operation, Stream& stream, Left* left = nullptr);
// Ends an operation that never runs, because its device has a fault or somebody ended it.
void skip(const Operation& operation, hipError_t status);

}  // namespace apb::emu::hip
