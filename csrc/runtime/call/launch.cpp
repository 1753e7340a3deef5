#include "call/launch.h"

#include <cstring>

#include "call/workspace.h"
#include "expressions/real.h"

namespace apb {
namespace {

// HIP_LAUNCH_PARAM_* and CU_LAUNCH_PARAM_*: equal but for the end mark.
void* const kBufferPointer = reinterpret_cast<void*>(1);
void* const kBufferSize = reinterpret_cast<void*>(2);
void* const kHipEnd = reinterpret_cast<void*>(3);
void* const kCudaEnd = nullptr;

constexpr std::size_t kKernargAlign = 16;

// `real`: the place in Prepared::reals of its program.
void lay_out_argument(const OperatorBlock& block, const layout::Arg& arg, std::int64_t value, std::uint32_t real,
                      std::uint8_t* kernargs, Prepared& out) {
  const auto patch = [&](PatchKind kind, std::uint32_t operand, std::int64_t addend) {
    out.patches.push_back({kind, static_cast<std::uint16_t>(operand), static_cast<std::uint16_t>(arg.offset), addend});
  };
  switch (static_cast<ArgKind>(arg.kind)) {
    case ArgKind::Tensor: patch(PatchKind::Tensor, arg.operand, 0); break;
    case ArgKind::Workspace: patch(PatchKind::Workspace, 0, value); break;
    case ArgKind::Float:
      patch(arg.size == 4 ? PatchKind::Float32 : PatchKind::Float64,
            static_cast<std::uint32_t>(block.float_attribute(arg.operand)), 0);
      break;
    case ArgKind::Int:
      std::memcpy(kernargs + arg.offset, &value, arg.size);  // little endian: the low bytes
      break;
    case ArgKind::Real: patch(arg.size == 4 ? PatchKind::Real32 : PatchKind::Real64, real, 0); break;
    case ArgKind::Null: break;  // the buffer is zero already
  }
}

// `size` bytes of a float argument.
inline void write_float(double value, bool narrow, std::uint8_t* at) {
  const auto rounded = static_cast<float>(value);
  if (narrow)
    std::memcpy(at, &rounded, 4);
  else
    std::memcpy(at, &value, 8);
}

inline void write_patch(const Patch& patch, const Prepared& prepared, const Call& call, std::uint64_t workspace,
                        std::uint8_t* kernargs) {
  std::uint8_t* const at = kernargs + patch.offset;
  switch (patch.kind) {
    case PatchKind::Tensor: {
      const TensorArg& tensor = call.tensors[patch.operand];
      const std::uint64_t address = tensor.given ? tensor.address : 0;
      std::memcpy(at, &address, 8);
      break;
    }
    case PatchKind::Workspace: {
      const std::uint64_t address = workspace + static_cast<std::uint64_t>(patch.addend);
      std::memcpy(at, &address, 8);
      break;
    }
    case PatchKind::Float32: write_float(call.reals[patch.operand], true, at); break;
    case PatchKind::Float64: write_float(call.reals[patch.operand], false, at); break;
    case PatchKind::Real32:
    case PatchKind::Real64:
      write_float(evaluate_real(prepared.reals[patch.operand], call.reals.data()), patch.kind == PatchKind::Real32, at);
      break;
  }
}

}  // namespace

LaunchFailure launch_steps(const Driver& driver, Prepared& prepared, const Call& call, void* stream,
                           std::uint64_t workspace, std::uint64_t& launches) {
  for (const PreparedStep& step : prepared.steps) {
    std::uint8_t* kernargs = prepared.kernargs.data() + step.kernargs;
    for (std::uint32_t i = step.first_patch; i < step.end_patch; ++i) {
      write_patch(prepared.patches[i], prepared, call, workspace, kernargs);
    }
    std::size_t size = step.kernarg_size;
    void* extra[] = {kBufferPointer, kernargs, kBufferSize, &size, driver.is_hip() ? kHipEnd : kCudaEnd};
    const int code = driver.table.launch(step.function, step.grid[0], step.grid[1], step.grid[2], step.block[0],
                                         step.block[1], step.block[2], step.lds, stream, nullptr, extra);
    if (code != 0) [[unlikely]]
      return {&step, code};
    ++launches;
  }
  return {};
}

Error LaunchFailure::error(const Driver& driver, const Prepared& prepared) const {
  Error error;
  const OperatorBlock& block = *prepared.block;
  driver.fail(ErrorKind::Launch, cat("launch kernel ", block.text(step->entry->name), " of ", block.name()),
              driver.is_hip() ? "ModuleLaunchKernel" : "LaunchKernel", code, error);
  error.found += cat(" for a grid of ", step->grid[0], " x ", step->grid[1], " x ", step->grid[2], " workgroups of ",
                     step->block[0], " x ", step->block[1], " x ", step->block[2], " threads with ", step->lds,
                     " bytes of dynamic LDS");
  return error;
}

void Prepared::drop(Prepared* prepared) {
  if (prepared == nullptr) return;
  if (prepared->users == 0) {
    delete prepared;
  } else {
    prepared->dropped = true;
  }
}

std::unique_ptr<Prepared> prepare(Device& device, const LaunchPlan& plan, bool check_capture, void* stream,
                                  Error& error) {
  auto out = std::make_unique<Prepared>();
  const OperatorBlock& block = *plan.block;
  out->block = &block;
  out->workspace = plan.workspace;
  out->kernargs.reserve(64);  // never null, even for kernels without arguments
  for (const StepPlan& step : plan.steps) {
    if (step.grid[0] == 0 || step.grid[1] == 0 || step.grid[2] == 0) continue;
    void* function = device.function(block, *step.entry, step.lds, check_capture, stream, error);
    if (function == nullptr) return nullptr;
    PreparedStep made{function,
                      step.entry,
                      step.grid,
                      {step.step->block_x, step.step->block_y, step.step->block_z},
                      step.lds,
                      step.step->kernarg_size,
                      static_cast<std::uint32_t>(out->kernargs.size()),
                      static_cast<std::uint32_t>(out->patches.size()),
                      0};
    const std::size_t room = (made.kernarg_size + kKernargAlign - 1) / kKernargAlign * kKernargAlign;
    out->kernargs.resize(out->kernargs.size() + room, 0);
    const auto args = block.array(step.step->args);
    auto real = static_cast<std::uint32_t>(out->reals.size());
    for (std::size_t i = 0; i < args.size(); ++i) {
      lay_out_argument(block, args[i], step.integers[i], real, out->kernargs.data() + made.kernargs, *out);
      if (static_cast<ArgKind>(args[i].kind) == ArgKind::Real) ++real;
    }
    out->reals.insert(out->reals.end(), step.reals.begin(), step.reals.end());
    made.end_patch = static_cast<std::uint32_t>(out->patches.size());
    out->steps.push_back(made);
  }
  return out;
}

bool launch(Device& device, Prepared& prepared, const Call& call, void* stream, std::uint64_t& launches, Error& error) {
  if (forked_after_open()) [[unlikely]] {
    return fork_error(cat("launch ", prepared.block->name()), error);
  }
  if (prepared.steps.empty()) return true;
  DeviceScope scope(device);
  if (!scope.enter(error)) return false;
  const auto done = [&](std::uint64_t workspace) {
    const LaunchFailure failure = launch_steps(device.driver(), prepared, call, stream, workspace, launches);
    if (failure.step != nullptr) error = failure.error(device.driver(), prepared);
    return failure.step == nullptr;
  };
  if (prepared.workspace == 0 && !device.driver().waits) return done(0);
  ++prepared.users;
  bool launched = false;
  if (prepared.workspace == 0) {
    launched = done(0);
  } else {
    Workspace workspace;
    launched = workspace.allocate(device, prepared, call, stream, error) && done(workspace.address());
    workspace.release();
  }
  if (--prepared.users == 0 && prepared.dropped) delete &prepared;
  return launched;
}

}  // namespace apb
