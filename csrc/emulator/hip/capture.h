// Stream capture: who captures, and what may not be called meanwhile.
#pragma once

#include <thread>

#include "stream.h"

namespace apb::emu::hip {

struct Capture {
  unsigned long long id = 0;
  hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
  std::thread::id owner;
  std::shared_ptr<Graph> graph;
  bool given = false;  // hipStreamBeginCaptureToGraph: the graph is the caller's
  Stream* origin = nullptr;
  std::vector<std::weak_ptr<Stream>> streams;
  bool broken = false, ended = false;
};

// The mutex of captures and graphs. Recursive: submitting to a stream and adding a node both take it.
std::recursive_mutex& capture_mutex();

// For calls that may synchronise in secret (allocation, module loading): hipErrorStreamCaptureUnsupported, and the
// captures are broken, when the thread's interaction mode forbids it: global - another capture in global mode or one of
// this thread; thread local - one of this thread.
hipError_t refuse_unsafe();
// For calls that wait for everything.
hipError_t refuse_in_any_capture(hipError_t code);
// For the legacy stream: it would wait for every blocking stream, capturing ones too.
hipError_t refuse_legacy(const Stream& stream, bool break_captures);

// Marks the capture broken: whatever comes next in it is hipErrorStreamCaptureInvalidated.
void break_capture(Capture& capture);
// Implements hipEventRecord and hipStreamWaitEvent on a capturing stream, or with an event of a capture. Call with
// capture_mutex() held.
hipError_t capture_wait(const std::shared_ptr<Stream>& stream, const Event& event);
// Adds the operation to the stream's capture. Call with capture_mutex() held and stream->capture set.
hipError_t capture_operation(const std::shared_ptr<Stream>& stream, Operation operation);

}  // namespace apb::emu::hip
