// Streams, events and what runs on them.
#pragma once

#include <chrono>

#include "../machine/shared_file.h"
#include "operation.h"
#include "runtime.h"

namespace apb::emu::hip {

struct Capture;
struct Node;

// Work runs at once, on the thread that enqueues it: when a call returns, its work is done and every earlier one on
// every stream too. A stream's order is therefore the order of its calls; `order` keeps the calls of several threads
// apart.
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

struct Event {
  int device = 0;
  unsigned flags = 0;
  std::mutex mutex;
  std::atomic<bool> recorded{false};
  std::chrono::steady_clock::time_point time;  // host clock: execution is on the host
  SharedFile file;                             // hipIpcGetEventHandle: what its handles name

  // Under capture_mutex(): recorded last in a capture.
  std::shared_ptr<Capture> capture;
  std::vector<std::shared_ptr<Node>> tail;
};

unsigned long long next_stream_id();

// Null and hipStreamLegacy are the current device's null stream, hipStreamPerThread the calling thread's own. Null with
// hipErrorInvalidHandle in `error` when the handle is no stream.
std::shared_ptr<Stream> find_stream(hipStream_t handle, hipError_t& error);
std::shared_ptr<Event> find_event(hipEvent_t handle, hipError_t& error);
void record_now(Event& event);

// Runs the operation, or makes it a node of the graph that the stream captures.
hipError_t submit(hipStream_t handle, Operation operation);
hipError_t submit(const std::shared_ptr<Stream>& stream, Operation operation);
// Runs it now.
hipError_t run(const Operation& operation, Stream& stream);

}  // namespace apb::emu::hip
