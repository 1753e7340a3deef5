// One cooperative launch over several devices: a grid on each, all of which wait for each other.
#include <thread>
#include <utility>

#include "capture.h"
#include "launch_api.h"
#include "machine/schedule/interrupt.h"
#include "module.h"
#include "stream.h"
#include "task.h"

namespace apb::emu::hip {
namespace {

struct Part {
  std::shared_ptr<Stream> stream;
  KernelOperation kernel;
  MultiGrid grids;
};

std::uint64_t items_of(const KernelOperation& k) {
  return std::uint64_t{k.grid.x} * k.grid.y * k.grid.z * k.block.x * k.block.y * k.block.z;
}

hipError_t add(std::vector<Part>& parts, const void* function, hipStream_t handle, LaunchShape shape, void** params) {
  hipError_t error = hipSuccess;
  Part part;
  part.stream = find_stream(handle, error);
  if (!part.stream) return error;
  for (const Part& other : parts)
    if (other.stream->device == part.stream->device)
      return fail(hipErrorInvalidDevice, "two of the launches are on device %d", part.stream->device);
  // A host stub is loaded for the current device, and each grid is on another one.
  const int current = std::exchange(thread().device, part.stream->device);
  shape.cooperative = true;
  error = make_launch(function, shape, params, nullptr, part.kernel);
  thread().device = current;
  if (error != hipSuccess) return error;
  if (part.kernel.function->code->device != part.stream->device)
    return fail(hipErrorInvalidHandle, "%s was loaded on device %d, its stream belongs to device %d",
                part.kernel.function->name.c_str(), part.kernel.function->code->device, part.stream->device);
  parts.push_back(std::move(part));
  return hipSuccess;
}

// Each device's grid on a thread of its own, because a launch returns when its kernel is done.
hipError_t run_all(std::vector<Part>& parts) {
  struct {
    SyncWords words;
    std::uint8_t behind[kBehindSync] = {};
  } barrier;
  std::uint64_t items = 0;
  for (Part& part : parts) {
    part.grids = {&barrier.words, static_cast<std::uint32_t>(&part - parts.data()),
                  static_cast<std::uint32_t>(parts.size()), items, 0};
    items += items_of(part.kernel);
  }
  std::vector<hipError_t> answers(parts.size(), hipSuccess);
  const auto run_part = [&](std::size_t i) {
    const std::lock_guard guard(parts[i].stream->order);
    wait_for(tasks_before(*parts[i].stream));
    const hipError_t fault = find_device(parts[i].stream->device)->fault;
    answers[i] = fault != hipSuccess ? fault : run(parts[i].kernel, *parts[i].stream);
  };
  for (Part& part : parts) {
    part.grids.items = items;
    part.kernel.grids = &part.grids;
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < parts.size(); ++i) threads.emplace_back(run_part, i);
  run_part(0);
  for (std::thread& one : threads) one.join();
  for (const hipError_t answer : answers)
    if (answer != hipSuccess) return answer;
  return hipSuccess;
}

// `part(i, parts)` adds the i-th launch.
template <class AddPart> hipError_t launch_all(const void* list, unsigned count, AddPart&& part) {
  if (!list) return null_argument("the list of launches");
  if (count == 0 || count > devices().size())
    return fail(hipErrorInvalidValue, "%u launches for %zu devices", count, devices().size());
  if (const hipError_t error = refuse_in_any_capture(hipErrorStreamCaptureUnsupported); error != hipSuccess)
    return error;
  std::vector<Part> parts;
  for (unsigned i = 0; i < count; ++i)
    if (const hipError_t error = part(i, parts); error != hipSuccess) return error;
  const InterruptionScope asked;
  return run_all(parts);
}

}  // namespace
}  // namespace apb::emu::hip

using namespace apb::emu::hip;

APB_HIP hipError_t hipLaunchCooperativeKernelMultiDevice(const hipLaunchParams* list, int count, unsigned) {
  return entry(__func__, [&] {
    return launch_all(list, count > 0 ? static_cast<unsigned>(count) : 0u, [&](unsigned i, std::vector<Part>& parts) {
      const hipLaunchParams& p = list[i];
      LaunchShape shape;
      shape.grid = {p.gridDim.x, p.gridDim.y, p.gridDim.z};
      shape.block = {p.blockDim.x, p.blockDim.y, p.blockDim.z};
      shape.lds = static_cast<std::uint32_t>(p.sharedMem);
      return add(parts, p.func, p.stream, shape, p.args);
    });
  });
}

APB_HIP hipError_t hipModuleLaunchCooperativeKernelMultiDevice(const hipFunctionLaunchParams* list, unsigned count,
                                                               unsigned) {
  return entry(__func__, [&] {
    return launch_all(list, count, [&](unsigned i, std::vector<Part>& parts) {
      const hipFunctionLaunchParams& p = list[i];
      LaunchShape shape;
      shape.grid = {p.gridDimX, p.gridDimY, p.gridDimZ};
      shape.block = {p.blockDimX, p.blockDimY, p.blockDimZ};
      shape.lds = p.sharedMemBytes;
      return add(parts, p.function, p.hStream, shape, p.kernelParams);
    });
  });
}
