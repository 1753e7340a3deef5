// An operation of a stream, or of a graph's node. One type for both: a captured call is the same call, later.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "hip_types.h"
#include "machine/schedule/launch.h"

namespace apb::emu::hip {

struct Function;
struct Event;
struct Graph;
struct Stream;
struct Task;

struct EmptyOperation {};

struct KernelOperation {
  std::shared_ptr<Function> function;
  Dim3 grid, block, tail{0, 0, 0};
  std::uint32_t lds = 0;
  bool cooperative = false;
  const MultiGrid* grids = nullptr;     // of a cooperative launch over several devices, while it runs
  std::vector<std::uint8_t> arguments;  // copied when the call is made: the caller's are dead afterwards
};

// `depth` slices of `height` rows of `width` bytes.
struct CopyOperation {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t to_pitch = 0, from_pitch = 0, to_slice = 0, from_slice = 0;
  std::size_t width = 0, height = 1, depth = 1;
  hipMemcpyKind kind = hipMemcpyDefault;
};

// `depth` slices of `height` rows of `width` elements.
struct SetOperation {
  hipMemsetParams params{};
  std::size_t slice = 0, depth = 1;
};

struct HostOperation {
  hipHostFn_t function = nullptr;
  void* data = nullptr;
  hipStreamCallback_t callback = nullptr;  // hipStreamAddCallback: with the stream and its status
  hipStream_t stream = nullptr;
};

struct RecordOperation {
  std::shared_ptr<Event> event;
  const Task* task = nullptr;  // that the event waits for; null: recorded when it runs
  std::uint64_t ticket = 0;    // of an event that processes share
};
struct WaitOperation {
  std::shared_ptr<Event> event;
};
struct GraphOperation {
  std::shared_ptr<Graph> graph;
};

// Memory of a graph is allocated when its node is made, so that the address is known, and freed with the last user of
// the node.
struct GraphMemory {
  void* address = nullptr;
  std::uint64_t number = 0;

  GraphMemory() = default;
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;
  ~GraphMemory();
};
struct AllocateOperation {
  hipMemAllocNodeParams params{};
  std::shared_ptr<GraphMemory> memory;
};
struct FreeOperation {
  void* address = nullptr;
};

using Operation = std::variant<EmptyOperation, KernelOperation, CopyOperation, SetOperation, HostOperation,
                               RecordOperation, WaitOperation, GraphOperation, AllocateOperation, FreeOperation>;

// The place where the enqueuing thread left an operation whose kernel waits for somebody else.
struct Left {
  std::unique_ptr<LaunchRest> rest;
  std::vector<std::size_t> path;  // of a graph: which node, innermost first
};

// Checks and runs each kind; defined in launch.cpp, copy.cpp, memset.cpp. Without `left` the kernel is run to its end.
hipError_t run_kernel(const KernelOperation& operation, Stream& stream, Left* left);
hipError_t finish_kernel(LaunchRest& rest, Stream& stream);
bool is_pageable(const CopyOperation& c);
hipError_t check_copy(const CopyOperation& operation);
hipError_t run_copy(const CopyOperation& c);
hipError_t check_set(const SetOperation& set);
hipError_t run_set(const SetOperation& set);

}  // namespace apb::emu::hip
