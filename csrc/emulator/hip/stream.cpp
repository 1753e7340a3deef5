// Streams, and running what is submitted to them.
#include "stream.h"

#include <algorithm>

#include "../machine/interrupt.h"
#include "capture.h"
#include "graph.h"

namespace apb::emu::hip {
namespace {

constexpr int kLeastPriority = 1, kGreatestPriority = -1;

std::shared_ptr<Stream> per_thread_stream() {
  Thread& state = thread();
  auto& slot = state.streams[state.device];
  if (!slot) {
    slot = std::make_shared<Stream>();
    slot->device = state.device;
    slot->per_thread = true;
    slot->id = next_stream_id();
  }
  return slot;
}

hipError_t create(hipStream_t* out, unsigned flags, int priority, std::vector<std::uint32_t> mask) {
  if (!out) return null_argument("the result");
  if ((flags & ~hipStreamNonBlocking) != 0) return fail(hipErrorInvalidValue, "flags 0x%x", flags);
  auto stream = std::make_shared<Stream>();
  stream->device = thread().device;
  stream->flags = flags;
  stream->priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  stream->id = next_stream_id();
  stream->mask = std::move(mask);
  *out = static_cast<hipStream_t>(table<Stream>().add(std::move(stream)));
  return hipSuccess;
}

// For calls that wait for a stream: not while it captures.
hipError_t finished(hipStream_t handle) {
  hipError_t error = hipSuccess;
  const auto stream = find_stream(handle, error);
  if (!stream) return error;
  {
    const std::lock_guard guard(capture_mutex());
    if (stream->capture) {
      break_capture(*stream->capture);
      return fail(hipErrorStreamCaptureUnsupported, "the stream captures");
    }
    if (const hipError_t refused = refuse_legacy(*stream, true); refused != hipSuccess) return refused;
  }
  const std::lock_guard guard(stream->order);  // another thread's call may be running on it
  return find_device(stream->device)->fault.load();
}

template <class Value, class Read>
hipError_t get(hipStream_t handle, Value* out, Read&& read) {
  hipError_t error = hipSuccess;
  const auto stream = find_stream(handle, error);
  if (!stream) return error;
  if (!out) return null_argument("the result");
  *out = read(*stream);
  return hipSuccess;
}

struct Runner {
  Stream& stream;
  hipError_t operator()(const EmptyOperation&) const { return hipSuccess; }
  hipError_t operator()(const KernelOperation& kernel) const { return run_kernel(kernel, stream); }
  hipError_t operator()(const CopyOperation& copy) const { return run_copy(copy); }
  hipError_t operator()(const SetOperation& set) const { return run_set(set); }
  hipError_t operator()(const HostOperation& host) const {
    if (host.callback)
      host.callback(host.stream, hipSuccess, host.data);
    else
      host.function(host.data);
    return hipSuccess;
  }
  hipError_t operator()(const RecordOperation& record) const {
    record_now(*record.event);
    return hipSuccess;
  }
  hipError_t operator()(const WaitOperation&) const { return hipSuccess; }  // whatever was recorded is done
  hipError_t operator()(const GraphOperation& child) const {
    std::vector<std::shared_ptr<Node>> order;
    sorted(*child.graph, order);
    return run_nodes(order, stream);
  }
  hipError_t operator()(const AllocateOperation&) const { return hipSuccess; }  // allocated with its node
  hipError_t operator()(const FreeOperation&) const { return hipSuccess; }      // freed with the node that allocated it
};

}  // namespace

unsigned long long next_stream_id() {
  static std::atomic<unsigned long long> last{0};
  return ++last;
}

std::shared_ptr<Stream> find_stream(hipStream_t handle, hipError_t& error) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number == 0 || number == hipStreamLegacyNumber) return current_device().null_stream;
  if (number == hipStreamPerThreadNumber) return per_thread_stream();
  auto stream = table<Stream>().find(handle);
  if (!stream) error = fail(hipErrorInvalidHandle, "%p is no stream", static_cast<void*>(handle));
  return stream;
}

hipError_t run(const Operation& operation, Stream& stream) { return std::visit(Runner{stream}, operation); }

hipError_t submit(const std::shared_ptr<Stream>& stream, Operation operation) {
  {
    const std::lock_guard guard(capture_mutex());
    if (stream->capture) return capture_operation(stream, std::move(operation));
    if (const hipError_t error = refuse_legacy(*stream, true); error != hipSuccess) return error;
  }
  const Interruption asked;  // a signal while it waits for another thread's kernel is one for this call, too
  const std::lock_guard guard(stream->order);
  if (const hipError_t fault = find_device(stream->device)->fault; fault != hipSuccess) return fault;
  return run(operation, *stream);
}

hipError_t submit(hipStream_t handle, Operation operation) {
  hipError_t error = hipSuccess;
  const auto stream = find_stream(handle, error);
  return stream ? submit(stream, std::move(operation)) : error;
}

}  // namespace apb::emu::hip

using namespace apb::emu::hip;

APB_HIP hipError_t hipStreamCreate(hipStream_t* out) {
  return entry(__func__, [&] { return create(out, 0, 0, {}); });
}
APB_HIP hipError_t hipStreamCreateWithFlags(hipStream_t* out, unsigned flags) {
  return entry(__func__, [&] { return create(out, flags, 0, {}); });
}
APB_HIP hipError_t hipStreamCreateWithPriority(hipStream_t* out, unsigned flags, int priority) {
  return entry(__func__, [&] { return create(out, flags, priority, {}); });
}
APB_HIP hipError_t hipExtStreamCreateWithCUMask(hipStream_t* out, std::uint32_t words, const std::uint32_t* mask) {
  return entry(__func__, [&] {
    if (!mask || words == 0) return fail(hipErrorInvalidValue, "%u words at %p", words, static_cast<const void*>(mask));
    return create(out, 0, 0, std::vector<std::uint32_t>(mask, mask + words));
  });
}
APB_HIP hipError_t hipExtStreamGetCUMask(hipStream_t handle, std::uint32_t words, std::uint32_t* mask) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    const auto stream = find_stream(handle, error);
    if (!stream) return error;
    const std::uint32_t units = find_device(stream->device)->configuration.compute_units, needed = (units + 31) / 32;
    if (!mask || words < needed) return fail(hipErrorInvalidValue, "%u words, %u are needed", words, needed);
    for (std::uint32_t i = 0; i < needed; ++i) {
      const std::uint32_t rest = units - i * 32, full = rest >= 32 ? ~0u : (1u << rest) - 1;
      mask[i] = i < stream->mask.size() ? stream->mask[i] & full : stream->mask.empty() ? full : 0;
    }
    return hipSuccess;
  });
}

APB_HIP hipError_t hipStreamDestroy(hipStream_t handle) {
  return entry(__func__, [&] {
    const auto number = reinterpret_cast<std::uintptr_t>(handle);
    if (number <= hipStreamPerThreadNumber)
      return fail(hipErrorInvalidHandle, "the default streams cannot be destroyed");
    return table<Stream>().take(handle) ? hipSuccess
                                        : fail(hipErrorInvalidHandle, "%p is no stream", static_cast<void*>(handle));
  });
}

APB_HIP hipError_t hipStreamSynchronize(hipStream_t stream) {
  return entry(__func__, [&] { return finished(stream); });
}
APB_HIP hipError_t hipStreamQuery(hipStream_t stream) {
  return entry(__func__, [&] { return finished(stream); });
}

APB_HIP hipError_t hipStreamGetFlags(hipStream_t stream, unsigned* out) {
  return entry(__func__, [&] { return get(stream, out, [](const Stream& s) { return s.flags; }); });
}
APB_HIP hipError_t hipStreamGetPriority(hipStream_t stream, int* out) {
  return entry(__func__, [&] { return get(stream, out, [](const Stream& s) { return s.priority; }); });
}
APB_HIP hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t* out) {
  return entry(__func__, [&] { return get(stream, out, [](const Stream& s) { return s.device; }); });
}
APB_HIP hipError_t hipStreamGetId(hipStream_t stream, unsigned long long* out) {
  return entry(__func__, [&] { return get(stream, out, [](const Stream& s) { return s.id; }); });
}
// Not an error code: the ordinal, or -1.
APB_HIP int hipGetStreamDeviceId(hipStream_t stream) {
  int device = -1;
  return hipStreamGetDevice(stream, &device) == hipSuccess ? device : -1;
}

APB_HIP hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return entry(__func__, [&] {
    if (least) *least = kLeastPriority;
    if (greatest) *greatest = kGreatestPriority;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void* data) {
  return entry(__func__, [&] {
    if (!function) return null_argument("the function");
    HostOperation operation;
    operation.function = function;
    operation.data = data;
    return submit(stream, operation);
  });
}

APB_HIP hipError_t hipStreamAddCallback(hipStream_t handle, hipStreamCallback_t callback, void* data, unsigned flags) {
  return entry(__func__, [&] {
    if (!callback) return null_argument("the callback");
    if (flags != 0) return fail(hipErrorInvalidValue, "flags 0x%x, must be 0", flags);
    hipError_t error = hipSuccess;
    const auto stream = find_stream(handle, error);
    if (!stream) return error;
    HostOperation operation;
    operation.callback = callback;
    operation.data = data;
    operation.stream = handle;
    return submit(stream, operation);
  });
}
