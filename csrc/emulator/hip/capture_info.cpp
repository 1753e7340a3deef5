// Queries of a stream's capture, and a thread's mode towards the captures of others.
#include <utility>

#include "graph.h"

using namespace apb::emu::hip;

namespace {

hipError_t capture_info(hipStream_t handle, hipStreamCaptureStatus* status, unsigned long long* id, hipGraph_t* graph,
                        const hipGraphNode_t** dependencies, std::size_t* count) {
  if (!status) return null_argument("the status");
  hipError_t error = hipSuccess;
  const auto stream = find_stream(handle, error);
  if (!stream) return error;
  const std::lock_guard guard(capture_mutex());
  if (const hipError_t refused = refuse_legacy(*stream, false); refused != hipSuccess) return refused;
  const Capture* capture = stream->capture.get();
  *status = !capture          ? hipStreamCaptureStatusNone
            : capture->broken ? hipStreamCaptureStatusInvalidated
                              : hipStreamCaptureStatusActive;
  if (!capture || capture->broken) return hipSuccess;
  static thread_local std::vector<hipGraphNode_t> handles;  // valid until the thread asks again
  handles.clear();
  for (const auto& node : stream->tail) handles.push_back(handle_of(node));
  if (id) *id = capture->id;
  if (graph) *graph = reinterpret_cast<hipGraph_t>(capture->graph.get());
  if (dependencies) *dependencies = handles.data();
  if (count) *count = handles.size();
  return hipSuccess;
}

}  // namespace

APB_HIP hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus* status) {
  return entry(__func__, [&] { return capture_info(stream, status, nullptr, nullptr, nullptr, nullptr); });
}
APB_HIP hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus* status, unsigned long long* id) {
  return entry(__func__, [&] { return capture_info(stream, status, id, nullptr, nullptr, nullptr); });
}
APB_HIP hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus* status,
                                              unsigned long long* id, hipGraph_t* graph,
                                              const hipGraphNode_t** dependencies, std::size_t* count) {
  return entry(__func__, [&] { return capture_info(stream, status, id, graph, dependencies, count); });
}

APB_HIP hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
  return entry(__func__, [&] {
    if (!mode) return null_argument("the mode");
    if (*mode < hipStreamCaptureModeGlobal || *mode > hipStreamCaptureModeRelaxed)
      return fail(hipErrorInvalidValue, "mode %d", static_cast<int>(*mode));
    std::swap(*mode, thread().capture_mode);
    return hipSuccess;
  });
}
