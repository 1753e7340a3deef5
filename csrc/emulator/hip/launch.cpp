// Kernel launches.
#include <algorithm>
#include <span>

#include "launch_api.h"
#include "machine/memory/untrusted.h"
#include "module.h"
#include "stream.h"

namespace apb::emu::hip {
namespace {

constexpr std::uint64_t kMaxItems =
    0xffffffff;  // of a grid's dimension: the packet that starts a kernel counts work items in 32 bits

// The HIP error of a fault in a kernel. HIP has no code for an unknown instruction.
hipError_t code_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::IllegalAddress: return hipErrorIllegalAddress;
    case FaultKind::Trap: return hipErrorAssert;                     // assert() and __builtin_trap() are s_trap
    case FaultKind::InstructionLimit: return hipErrorLaunchTimeOut;  // a card would hang until its watchdog steps in
    default: return hipErrorLaunchFailure;
  }
}

hipError_t code_of(LaunchResult result) {
  switch (result) {
    case LaunchResult::Done: return hipSuccess;
    case LaunchResult::InvalidValue: return hipErrorInvalidValue;
    case LaunchResult::InvalidConfiguration: return hipErrorInvalidConfiguration;
    case LaunchResult::TooMuchLds: return hipErrorInvalidValue;
    case LaunchResult::OutOfMemory: return hipErrorOutOfMemory;
    case LaunchResult::Fault:
    case LaunchResult::Waits: break;
  }
  return hipErrorLaunchFailure;
}

// A cooperative grid waits for itself: all of it must be on the device at once.
hipError_t check_resident(const KernelOperation& k, const Device& device, std::uint64_t items) {
  const std::uint64_t plane = static_cast<std::uint64_t>(k.grid.x) * k.grid.y;
  const std::uint64_t groups = plane > UINT64_MAX / k.grid.z ? UINT64_MAX : plane * k.grid.z;
  const std::uint64_t room =
      static_cast<std::uint64_t>(blocks_per_unit(*k.function, items, k.lds)) * device.configuration.compute_units;
  if (groups <= room) return hipSuccess;
  return fail(hipErrorCooperativeLaunchTooLarge, "%s: %llu workgroups, %llu fit on the device",
              k.function->name.c_str(), static_cast<unsigned long long>(groups), static_cast<unsigned long long>(room));
}

hipError_t check_shape(const KernelOperation& k, const Device& device) {
  const Kernel& kernel = *k.function->kernel;
  const char* name = k.function->name.c_str();
  const std::uint64_t items = static_cast<std::uint64_t>(k.block.x) * k.block.y * k.block.z;
  if (k.grid.x == 0 || k.grid.y == 0 || k.grid.z == 0 || items == 0)
    return fail(hipErrorInvalidConfiguration, "%s: a grid of %u x %u x %u blocks of %u x %u x %u", name, k.grid.x,
                k.grid.y, k.grid.z, k.block.x, k.block.y, k.block.z);
  if (k.block.x > 1024 || k.block.y > 1024 || k.block.z > 1024 || items > 1024)
    return fail(hipErrorInvalidConfiguration, "%s: a block of %u x %u x %u work items, at most 1024", name, k.block.x,
                k.block.y, k.block.z);
  if (items > kernel.max_block)
    return fail(hipErrorLaunchFailure, "%s: a block of %llu work items, the kernel was compiled for at most %u", name,
                static_cast<unsigned long long>(items), kernel.max_block);
  const auto too_wide = [](std::uint64_t grid, std::uint64_t block) { return grid * block > kMaxItems; };
  if (too_wide(k.grid.x, k.block.x) || too_wide(k.grid.y, k.block.y) || too_wide(k.grid.z, k.block.z))
    return fail(hipErrorInvalidConfiguration,
                "%s: a grid of %u x %u x %u blocks of %u x %u x %u has more than 2^32-1 work items in a dimension",
                name, k.grid.x, k.grid.y, k.grid.z, k.block.x, k.block.y, k.block.z);
  const std::uint64_t lds = static_cast<std::uint64_t>(kernel.static_lds) + k.lds;
  if (lds > device.lds_bytes())
    return fail(hipErrorInvalidValue, "%s: %u bytes of static and %u of dynamic LDS, the device has %u", name,
                kernel.static_lds, k.lds, device.lds_bytes());
  return k.cooperative ? check_resident(k, device, items) : hipSuccess;
}

hipError_t not_there(const Function& function, const char* what, std::size_t number, const void* address) {
  return fail(hipErrorInvalidValue, "%s: %s %zu at %p is not mapped", function.name.c_str(), what, number, address);
}

// kernelParams: one pointer for each explicit argument of the metadata.
hipError_t gather(const Function& function, void** params, std::vector<std::uint8_t>& out) {
  out.assign(function.argument_bytes, 0);
  std::vector<const KernelArgument*> arguments;
  for (const KernelArgument& argument : function.kernel->arguments)
    if (argument.kind != ArgumentKind::Hidden) arguments.push_back(&argument);
  std::vector<const void*> from(arguments.size());
  std::vector<Piece> pieces;
  pieces.reserve(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) pieces.push_back({&from[i], params + i, sizeof from[i]});
  if (const std::size_t wrong = read_untrusted(pieces); wrong != kAllRead)
    return not_there(function, "kernelParams, entry", wrong, params + wrong);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!from[i])
      return fail(hipErrorInvalidValue, "%s: the pointer to argument %zu is null", function.name.c_str(), i);
    pieces[i] = {out.data() + arguments[i]->offset, from[i], arguments[i]->size};
  }
  const std::size_t wrong = read_untrusted(pieces);
  return wrong == kAllRead ? hipSuccess : not_there(function, "argument", wrong, from[wrong]);
}

struct Extra {
  const std::uint8_t* buffer = nullptr;
  const std::size_t* size = nullptr;
};

// extra: a list of names and values that an end mark closes.
hipError_t read_extra(const Function& function, void** extra, Extra& out) {
  constexpr std::size_t kLongest = 16;  // a list without an end is not followed into the unknown
  for (std::size_t i = 0; i < kLongest; ++i, extra += 2) {
    std::uintptr_t name = 0;
    const void* value = nullptr;
    if (!read_untrusted(extra, name)) return not_there(function, "`extra`, name", i, extra);
    if (name == hipLaunchParamEnd)
      return out.size ? hipSuccess : fail(hipErrorInvalidValue, "%s: `extra` has no size", function.name.c_str());
    if (!read_untrusted(extra + 1, value)) return not_there(function, "`extra`, value", i, extra + 1);
    if (name == hipLaunchParamBufferPointer)
      out.buffer = static_cast<const std::uint8_t*>(value);
    else if (name == hipLaunchParamBufferSize)
      out.size = static_cast<const std::size_t*>(value);
    else
      return fail(hipErrorInvalidValue, "%s: %#zx in `extra`", function.name.c_str(), std::size_t{name});
  }
  return fail(hipErrorInvalidValue, "%s: `extra` has no end", function.name.c_str());
}

// The arguments as the kernel sees them.
hipError_t unpack(const Function& function, void** extra, std::vector<std::uint8_t>& out) {
  Extra from;
  if (const hipError_t error = read_extra(function, extra, from); error != hipSuccess) return error;
  std::size_t size = 0;
  if (!read_untrusted(from.size, size)) return not_there(function, "`extra`, size", 0, from.size);
  if (!from.buffer && size != 0) return fail(hipErrorInvalidValue, "%s: `extra` has no buffer", function.name.c_str());
  // Without metadata of arguments all that is known is the size of the whole segment.
  const std::size_t least =
      function.kernel->arguments.empty() ? function.kernel->kernarg_bytes : function.argument_bytes;
  // HIP does not compare the sizes, and callers leave out what the kernel never reads: AITER passes 448 bytes to fused
  // MoE kernels that declare 480. What is missing is not there: a kernel that reads it has a fault. Hidden arguments lie
  // behind the explicit ones, so a kernel with those needs all of them.
  const bool all_explicit = std::ranges::none_of(
      function.kernel->arguments, [](const KernelArgument& a) { return a.kind == ArgumentKind::Hidden; });
  if (size < least && !all_explicit)
    return fail(hipErrorInvalidValue, "%s: %zu bytes of arguments, the kernel reads %zu", function.name.c_str(), size,
                least);
  if (size < least)
    log(LogLevel::Warning, "%s: %zu bytes of arguments, the kernel declares %zu", function.name.c_str(), size, least);
  out.resize(std::min(size, least));
  const Piece piece{out.data(), from.buffer, out.size()};
  return read_untrusted(std::span(&piece, 1)) == kAllRead ? hipSuccess
                                                          : not_there(function, "`extra`, buffer", 0, from.buffer);
}

hipError_t pack(const Function& function, void** params, void** extra, std::vector<std::uint8_t>& out) {
  if (params && extra) return fail(hipErrorInvalidValue, "%s: both kernelParams and extra", function.name.c_str());
  if (params && function.argument_bytes != 0) return gather(function, params, out);
  if (extra) return unpack(function, extra, out);
  const std::size_t least =
      function.kernel->arguments.empty() ? function.kernel->kernarg_bytes : function.argument_bytes;
  if (least != 0)
    return fail(
        hipErrorInvalidValue, "%s: %s, the kernel reads %zu bytes of arguments", function.name.c_str(),
        params ? "kernelParams for a kernel whose metadata lists no arguments" : "neither kernelParams nor extra",
        least);
  out.clear();
  return hipSuccess;
}

}  // namespace

hipError_t make_launch(const void* handle, const LaunchShape& shape, void** params, void** extra,
                       KernelOperation& out) {
  hipError_t error = hipSuccess;
  out.function = find_function(handle, error);
  if (!out.function) return error;
  out.grid = shape.grid;
  out.block = shape.block;
  out.tail = shape.tail;
  out.lds = shape.lds;
  out.cooperative = shape.cooperative;
  if (error = check_shape(out, *find_device(out.function->code->device)); error != hipSuccess) return error;
  return pack(*out.function, params, extra, out.arguments);
}

hipError_t launch_on(hipStream_t handle, const void* function, const LaunchShape& shape, void** params, void** extra) {
  hipError_t error = hipSuccess;
  const auto stream = find_stream(handle, error);
  if (!stream) return error;
  KernelOperation operation;
  if (error = make_launch(function, shape, params, extra, operation); error != hipSuccess) return error;
  if (operation.function->code->device != stream->device)
    return fail(hipErrorInvalidHandle, "%s was loaded on device %d, the stream belongs to device %d",
                operation.function->name.c_str(), operation.function->code->device, stream->device);
  return submit(stream, std::move(operation));
}

namespace {

// The launch that faults answers the error itself where its work is done when the call returns, as HIP allows (a call may return
// errors of earlier work). The device then stays in error.
hipError_t answer(LaunchResult result, const Fault& fault, const std::string& text, const Stream& stream) {
  if (result == LaunchResult::Done) return hipSuccess;
  if (result != LaunchResult::Fault) return fail(code_of(result), "%s", text.c_str());
  const hipError_t code = code_of(fault.kind);
  // Nobody's kernel is at fault when somebody lost patience: the device stays usable, as after a debugger's stop.
  if (fault.kind != FaultKind::Interrupted) find_device(stream.device)->fault = code;
  remember_fault(text);
  return fail(code, "%s", text.c_str());
}

}  // namespace

hipError_t run_kernel(const KernelOperation& operation, Stream& stream, Left* left) {
  LaunchRequest request;
  request.kernel = operation.function->kernel;
  request.grid = operation.grid;
  request.block = operation.block;
  request.tail = operation.tail;
  request.dynamic_lds = operation.lds;
  request.arguments = operation.arguments;
  request.device = stream.device;
  request.queue = stream.id;
  request.cooperative = operation.cooperative;
  request.grids = operation.grids;
  Fault fault;
  std::string text;
  const LaunchResult result = launch(request, fault, text, left ? &left->rest : nullptr);
  return result == LaunchResult::Waits ? hipSuccess : answer(result, fault, text, stream);
}

hipError_t finish_kernel(LaunchRest& rest, Stream& stream) {
  Fault fault;
  std::string text;
  const LaunchResult result = rest.finish(fault, text);
  return answer(result, fault, text, stream);
}

}  // namespace apb::emu::hip
