// Stream capture.
#include "capture.h"

#include <algorithm>
#include <set>

#include "graph.h"

namespace apb::emu::hip {
namespace {

std::vector<std::shared_ptr<Capture>>& captures() {
  static auto* const active = new std::vector<std::shared_ptr<Capture>>;
  return *active;
}

bool mine(const Capture& capture) { return capture.owner == std::this_thread::get_id(); }

bool has_blocking_stream(const Capture& capture, int device) {
  return std::any_of(capture.streams.begin(), capture.streams.end(), [&](const std::weak_ptr<Stream>& weak) {
    const auto stream = weak.lock();
    return stream && stream->device == device && stream->blocking();
  });
}

void join(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Capture>& capture) {
  stream->capture = capture;
  stream->tail.clear();
  capture->streams.push_back(stream);
}

void depend(Stream& stream, const std::vector<std::shared_ptr<Node>>& nodes) {
  for (const auto& node : nodes)
    if (std::find(stream.tail.begin(), stream.tail.end(), node) == stream.tail.end()) stream.tail.push_back(node);
}

hipError_t begin(hipStream_t handle, hipStreamCaptureMode mode, std::shared_ptr<Graph> graph,
                 const std::vector<std::shared_ptr<Node>>& after, bool given) {
  if (mode < hipStreamCaptureModeGlobal || mode > hipStreamCaptureModeRelaxed)
    return fail(hipErrorInvalidValue, "mode %d", static_cast<int>(mode));
  hipError_t error = hipSuccess;
  const auto stream = find_stream(handle, error);
  if (!stream) return error;
  if (stream->null) return fail(hipErrorStreamCaptureUnsupported, "the legacy stream cannot capture");
  static unsigned long long last_id = 0;
  const std::lock_guard guard(capture_mutex());
  if (stream->capture) return fail(hipErrorIllegalState, "the stream captures already");
  auto capture = std::make_shared<Capture>();
  capture->id = ++last_id;
  capture->mode = mode;
  capture->owner = std::this_thread::get_id();
  capture->graph = std::move(graph);
  capture->given = given;
  if (!given) table<Graph>().add(capture->graph);
  capture->origin = stream.get();
  join(stream, capture);
  stream->tail = after;
  captures().push_back(std::move(capture));
  return hipSuccess;
}

// Every stream must have come back: what it did last must lie before what the origin did last.
bool joined(const Capture& capture) {
  std::set<const Node*> reached;
  std::vector<const Node*> open;
  open.reserve(capture.origin->tail.size());
  for (const auto& node : capture.origin->tail) open.push_back(node.get());
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (!reached.insert(node).second) continue;
    for (const auto& dependency : node->dependencies) open.push_back(dependency.get());
  }
  for (const auto& weak : capture.streams) {
    const auto stream = weak.lock();
    if (!stream || stream->capture.get() != &capture) continue;
    for (const auto& node : stream->tail)
      if (!reached.contains(node.get())) return false;
  }
  return true;
}

void close(const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  for (const auto& weak : capture->streams) {
    const auto stream = weak.lock();
    if (!stream || stream->capture != capture) continue;
    stream->capture.reset();
    stream->tail.clear();
  }
  std::erase(captures(), capture);
}

hipError_t end(hipStream_t handle, hipGraph_t* out) {
  if (!out) return null_argument("the result");
  hipError_t error = hipSuccess;
  const auto stream = find_stream(handle, error);
  if (!stream) return error;
  const std::lock_guard guard(capture_mutex());
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) return fail(hipErrorIllegalState, "the stream does not capture");
  if (capture->origin != stream.get()) {
    break_capture(*capture);
    return fail(hipErrorStreamCaptureUnmatched, "the capture began on another stream");
  }
  if (capture->mode != hipStreamCaptureModeRelaxed && !mine(*capture))
    return fail(hipErrorStreamCaptureWrongThread, "the capture began on another thread");
  const bool complete = joined(*capture);
  close(capture);
  *out = nullptr;
  if ((capture->broken || !complete) && !capture->given) {
    forget_nodes(*capture->graph);
    table<Graph>().take(capture->graph.get());
  }
  if (capture->broken) return fail(hipErrorStreamCaptureInvalidated, "an earlier call broke the capture");
  if (!complete)
    return fail(hipErrorStreamCaptureUnjoined,
                "a stream that joined the capture did not come back to the one where it began");
  *out = reinterpret_cast<hipGraph_t>(capture->graph.get());
  return hipSuccess;
}

}  // namespace

// Destroyed, or its thread has ended. Nobody can end the capture any more, and it must not stand in everybody's way for
// ever.
Stream::~Stream() {
  if (!capture) return;
  const std::lock_guard guard(capture_mutex());
  break_capture(*capture);
  if (capture->origin != this) return;
  const std::shared_ptr<Capture> ended = std::move(capture);
  if (!ended->given) {
    forget_nodes(*ended->graph);
    table<Graph>().take(ended->graph.get());
  }
  close(ended);
}

std::recursive_mutex& capture_mutex() {
  static std::recursive_mutex* const mutex = new std::recursive_mutex;
  return *mutex;
}

void break_capture(Capture& capture) { capture.broken = true; }

hipError_t refuse_unsafe() {
  const hipStreamCaptureMode mode = thread().capture_mode;
  if (mode == hipStreamCaptureModeRelaxed) return hipSuccess;
  const std::lock_guard guard(capture_mutex());
  bool refused = false;
  for (const auto& capture : captures()) {
    const bool own = mine(*capture) && capture->mode != hipStreamCaptureModeRelaxed;
    const bool global = mode == hipStreamCaptureModeGlobal && capture->mode == hipStreamCaptureModeGlobal;
    if (!own && !global) continue;
    break_capture(*capture);
    refused = true;
  }
  return refused ? fail(hipErrorStreamCaptureUnsupported, "not while a stream captures") : hipSuccess;
}

hipError_t refuse_in_any_capture(hipError_t code) {
  const std::lock_guard guard(capture_mutex());
  for (const auto& capture : captures()) break_capture(*capture);
  return captures().empty() ? hipSuccess : fail(code, "not while a stream captures");
}

hipError_t refuse_legacy(const Stream& stream, bool break_captures) {
  if (!stream.null) return hipSuccess;
  const std::lock_guard guard(capture_mutex());
  bool refused = false;
  for (const auto& capture : captures()) {
    if (!has_blocking_stream(*capture, stream.device)) continue;
    if (break_captures) break_capture(*capture);
    refused = true;
  }
  return refused ? fail(hipErrorStreamCaptureImplicit, "the legacy stream waits for blocking streams, and one captures")
                 : hipSuccess;
}

hipError_t capture_operation(const std::shared_ptr<Stream>& stream, Operation operation) {
  Capture& capture = *stream->capture;
  if (capture.broken) return fail(hipErrorStreamCaptureInvalidated, "an earlier call broke the capture");
  if (const auto* host = std::get_if<HostOperation>(&operation); host && host->callback) {
    break_capture(capture);
    return fail(hipErrorStreamCaptureUnsupported, "callbacks cannot be captured, hipLaunchHostFunc can");
  }
  auto node = add_node(capture.graph, std::move(operation), stream->tail);
  stream->tail = {std::move(node)};
  return hipSuccess;
}

hipError_t capture_wait(const std::shared_ptr<Stream>& stream, const Event& event) {
  if (!event.capture) {
    if (!event.recorded) return hipSuccess;  // nothing to wait for
    break_capture(*stream->capture);
    return fail(hipErrorStreamCaptureIsolation, "the event was recorded outside the capture");
  }
  if (event.capture->ended) return fail(hipErrorCapturedEvent, "the event belongs to a capture that has ended");
  if (event.capture->broken) return fail(hipErrorStreamCaptureInvalidated, "an earlier call broke the capture");
  if (stream->null) {
    break_capture(*event.capture);
    return fail(hipErrorStreamCaptureImplicit, "the legacy stream cannot join a capture");
  }
  if (!stream->capture) join(stream, event.capture);
  if (stream->capture != event.capture) {
    break_capture(*stream->capture);
    break_capture(*event.capture);
    return fail(hipErrorStreamCaptureMerge, "stream and event belong to two captures");
  }
  depend(*stream, event.tail);
  return hipSuccess;
}

}  // namespace apb::emu::hip

using namespace apb::emu::hip;

APB_HIP hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  return entry(__func__, [&] { return begin(stream, mode, std::make_shared<Graph>(), {}, false); });
}

APB_HIP hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t handle,
                                                const hipGraphNode_t* dependencies, const hipGraphEdgeData*,
                                                std::size_t count, hipStreamCaptureMode mode) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    auto graph = find_graph(handle, error);
    std::vector<std::shared_ptr<Node>> after;
    if (!graph || !find_nodes(graph, dependencies, count, after, error)) return error;
    return begin(stream, mode, std::move(graph), after, true);
  });
}

APB_HIP hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* out) {
  return entry(__func__, [&] { return end(stream, out); });
}

APB_HIP hipError_t hipStreamUpdateCaptureDependencies(hipStream_t handle, hipGraphNode_t* dependencies,
                                                      std::size_t count, unsigned flags) {
  return entry(__func__, [&] {
    constexpr unsigned kAdd = 0, kReplace = 1;
    if (flags != kAdd && flags != kReplace) return fail(hipErrorInvalidValue, "flags 0x%x", flags);
    hipError_t error = hipSuccess;
    const auto stream = find_stream(handle, error);
    if (!stream) return error;
    const std::lock_guard guard(capture_mutex());
    if (!stream->capture) return fail(hipErrorIllegalState, "the stream does not capture");
    std::vector<std::shared_ptr<Node>> nodes;
    if (!find_nodes(stream->capture->graph, dependencies, count, nodes, error)) return error;
    if (flags == kReplace) stream->tail.clear();
    depend(*stream, nodes);
    return hipSuccess;
  });
}
