// Streams, and running what is submitted to them.
#include "stream.h"

#include <algorithm>

#include "capture.h"
#include "graph.h"
#include "machine/schedule/interrupt.h"
#include "task.h"

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

// For calls that ask for a stream's work: not while it captures.
hipError_t finished(hipStream_t handle, bool wait) {
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
  // Another thread's call may be running on it.
  std::unique_lock guard(stream->order, std::defer_lock);
  if (wait)
    guard.lock();
  else if (!guard.try_lock())
    return hipErrorNotReady;
  const TaskList open = tasks_before(*stream);
  guard.unlock();
  if (!wait && !open.empty()) return hipErrorNotReady;
  return synchronize(*find_device(stream->device), open);
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
  Left* left;
  hipError_t operator()(const EmptyOperation&) const { return hipSuccess; }
  hipError_t operator()(const KernelOperation& kernel) const { return run_kernel(kernel, stream, left); }
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
    RecordOperation begun = record;
    if (!begun.task) begin_record(begun, nullptr);
    record_now(begun);
    return hipSuccess;
  }
  // Waits as a graph's node. A call's wait is an order among tasks.
  hipError_t operator()(const WaitOperation& wait) const {
    std::uint64_t foreign = 0;
    if (const auto task = passing(*wait.event, foreign)) wait_for({task});
    return foreign ? wait_foreign(*wait.event, foreign) : hipSuccess;
  }
  hipError_t operator()(const GraphOperation& child) const {
    std::vector<std::shared_ptr<Node>> order;
    sorted(*child.graph, order);
    return run_nodes(order, stream, left);
  }
  hipError_t operator()(const AllocateOperation&) const { return hipSuccess; }  // allocated with its node
  hipError_t operator()(const FreeOperation&) const { return hipSuccess; }      // freed with the node that allocated it
};

// Tasks for what cannot run now, or was left in the middle.
std::shared_ptr<Task> enqueue_operation(const std::shared_ptr<Stream>& stream, Operation operation, Left left,
                                        TaskList before) {
  if (const auto* graph = std::get_if<GraphOperation>(&operation))
    return enqueue_graph(stream, *graph->graph, std::move(left), before);
  if (left.rest) return enqueue_rest(stream, std::move(operation), std::move(left.rest));
  auto task = std::make_shared<Task>(stream, std::move(operation));
  if (auto* record = std::get_if<RecordOperation>(&task->operation)) begin_record(*record, task);
  return enqueue(std::move(task), std::move(before));
}

// The stream's next operation waits for what the event stands for now, and no longer when it is recorded again.
std::shared_ptr<Task> enqueue_wait(const std::shared_ptr<Stream>& stream, const WaitOperation& wait, TaskList before) {
  std::uint64_t foreign = 0;
  if (auto task = passing(*wait.event, foreign)) before.push_back(std::move(task));
  if (before.empty() && foreign == 0) return nullptr;
  auto task = std::make_shared<Task>(stream, EmptyOperation{});
  if (foreign != 0) task->action = [event = wait.event, foreign] { return wait_foreign(*event, foreign); };
  return enqueue(std::move(task), std::move(before));
}

// Runs it, or what of it can run now; `task` passes when all of it has, and is null when that is so already.
hipError_t begin(const std::shared_ptr<Stream>& stream, Operation operation, std::shared_ptr<Task>& task) {
  TaskList before = tasks_before(*stream);
  if (const auto* wait = std::get_if<WaitOperation>(&operation)) {
    task = enqueue_wait(stream, *wait, std::move(before));
    return hipSuccess;
  }
  Left left;
  // A graph's nodes may wait for an event that somebody else's task passes.
  if (before.empty() && !(outstanding() && std::holds_alternative<GraphOperation>(operation))) {
    const hipError_t error = run(operation, *stream, configuration().launch_blocking ? nullptr : &left);
    if (!left.rest) return error;
  }
  task = enqueue_operation(stream, std::move(operation), std::move(left), std::move(before));
  return hipSuccess;
}

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

hipError_t run(const Operation& operation, Stream& stream, Left* left) {
  return std::visit(Runner{stream, left}, operation);
}

void skip(const Operation& operation, hipError_t status) {
  if (const auto* host = std::get_if<HostOperation>(&operation); host && host->callback)
    host->callback(host->stream, status, host->data);
  if (const auto* record = std::get_if<RecordOperation>(&operation); record && record->task) record_now(*record);
}

hipError_t submit(const std::shared_ptr<Stream>& stream, Operation operation, Until until) {
  {
    const std::lock_guard guard(capture_mutex());
    if (stream->capture) return capture_operation(stream, std::move(operation));
    if (const hipError_t error = refuse_legacy(*stream, true); error != hipSuccess) return error;
  }
  const InterruptionScope asked;  // a signal while it waits for another thread's kernel is one for this call, too
  std::unique_lock guard(stream->order);
  if (const hipError_t fault = find_device(stream->device)->fault; fault != hipSuccess) return fault;
  std::shared_ptr<Task> task;
  const hipError_t error = begin(stream, std::move(operation), task);
  guard.unlock();
  if (!task || until == Until::Enqueued) return error;
  wait_for({task});
  return task->result;
}

hipError_t submit(hipStream_t handle, Operation operation, Until until) {
  hipError_t error = hipSuccess;
  const auto stream = find_stream(handle, error);
  return stream ? submit(stream, std::move(operation), until) : error;
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
  return entry(__func__, [&] { return finished(stream, true); });
}
APB_HIP hipError_t hipStreamQuery(hipStream_t stream) {
  return entry(__func__, [&] { return finished(stream, false); });
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
