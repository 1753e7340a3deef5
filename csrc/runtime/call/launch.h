// A prepared launch: everything of a call that does not change while its key stays the same, laid out so that a
// launch is a copy, a few patches and the driver's call.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "choice/select.h"
#include "driver/module_cache.h"
#include "tensors/call.h"
#include "tensors/footprint.h"

namespace apb {

enum class PatchKind : std::uint8_t { Tensor, Workspace, Float32, Float64, Real32, Real64 };

// A value to write into the kernargs at every call. It is the address of tensor `operand`, workspace + addend, attribute
// `operand` as a float, or the result of program `operand` of Prepared::reals.
struct Patch {
  PatchKind kind;
  std::uint16_t operand;
  std::uint16_t offset;
  std::int64_t addend;
};

struct PreparedStep {
  void* function;
  const layout::Entry* entry;
  std::array<std::uint32_t, 3> grid;
  std::array<std::uint32_t, 3> block;
  std::uint32_t lds;
  std::uint32_t kernarg_size;
  std::uint32_t kernargs;  // position in Prepared::kernargs
  std::uint32_t first_patch;
  std::uint32_t end_patch;
};

struct Prepared {
  std::vector<std::uint64_t> key;  // filled in by the memo
  const OperatorBlock* block = nullptr;
  std::vector<PreparedStep> steps;  // without those whose grid has a zero
  std::vector<Patch> patches;
  std::vector<MemoryPair> pairs;  // compared at each call
  std::vector<std::vector<std::uint8_t>> reals;
  std::vector<std::uint8_t> kernargs;  // of all steps; patched in place, which the GIL makes safe
  std::uint64_t workspace = 0;
  std::uint32_t used = 0;   // the memo's clock when it was last used
  std::uint32_t users = 0;  // calls until their launch has ended, during which other Python code may run
  bool dropped = false;

  // Deletes it now, or as soon as the last user is done.
  static void drop(Prepared* prepared);
};

// Loads the kernels of `plan` on `device` (see Device::function for `check_capture`) and lays out the launch. Call it
// without the GIL. Null with an Error.
std::unique_ptr<Prepared> prepare(Device& device, const LaunchPlan& plan, bool check_capture, void* stream,
                                  Error& error);

// The step whose launch the driver refused, and its code; null when all went well.
struct LaunchFailure {
  const PreparedStep* step = nullptr;
  int code = 0;

  Error error(const Driver& driver, const Prepared& prepared) const;
};

// Launches all steps in order. `launches` counts them. The device is current; the GIL is held, since the kernargs are
// written in place.
LaunchFailure launch_steps(const Driver& driver, Prepared& prepared, const Call& call, void* stream,
                           std::uint64_t workspace, std::uint64_t& launches);

// Tells whether launch_steps() is all the work of this call.
inline bool nothing_to_prepare(const Device& device, const Prepared& prepared) {
  return prepared.workspace == 0 && !forked_after_open() && (prepared.steps.empty() || device.is_current());
}

// Launches all steps, whatever that takes: the device made current, workspace. False with Launch, Driver or Fork.
[[nodiscard]] bool launch(Device& device, Prepared& prepared, const Call& call, void* stream, std::uint64_t& launches,
                          Error& error);

}  // namespace apb
