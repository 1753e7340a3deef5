// The launch entry points.
#include "launch_api.h"

#include "module.h"
#include "stream.h"

namespace apb::emu::hip {
namespace {

LaunchShape shape_of(Dim3 grid, Dim3 block, std::size_t lds) {
  LaunchShape out;
  out.grid = grid;
  out.block = block;
  out.lds = lds > UINT32_MAX ? UINT32_MAX : static_cast<std::uint32_t>(lds);
  return out;
}

Dim3 wide(const dim3& d) { return {d.x, d.y, d.z}; }

hipError_t record(hipEvent_t event, hipStream_t stream) {
  hipError_t error = hipSuccess;
  if (!event) return hipSuccess;
  const auto found = find_event(event, error);
  return found ? submit(stream, RecordOperation{found}) : error;
}

// Between two events, which take the times of start and end.
hipError_t timed_launch(hipStream_t stream, const void* function, const LaunchShape& shape, void** params, void** extra,
                        hipEvent_t first, hipEvent_t last) {
  if (const hipError_t error = record(first, stream); error != hipSuccess) return error;
  if (const hipError_t error = launch_on(stream, function, shape, params, extra); error != hipSuccess) return error;
  return record(last, stream);
}

// hipExtModuleLaunchKernel counts its grid in work items, and the last workgroup of a dimension may be partial.
hipError_t ext_launch(hipFunction_t function, Dim3 items, Dim3 block, std::size_t lds, hipStream_t stream,
                      void** params, void** extra, hipEvent_t first, hipEvent_t last) {
  const auto groups = [](std::uint32_t all, std::uint32_t each) {
    return each == 0 ? 0 : static_cast<std::uint32_t>((static_cast<std::uint64_t>(all) + each - 1) / each);
  };
  const auto rest = [](std::uint32_t all, std::uint32_t each) { return each == 0 ? 0 : all % each; };
  LaunchShape shape =
      shape_of({groups(items.x, block.x), groups(items.y, block.y), groups(items.z, block.z)}, block, lds);
  shape.tail = {rest(items.x, block.x), rest(items.y, block.y), rest(items.z, block.z)};
  return timed_launch(stream, function, shape, params, extra, first, last);
}

hipError_t read_attributes(const hipLaunchAttribute* attributes, unsigned count, bool& cooperative) {
  if (!attributes && count != 0) return null_argument("the attributes");
  for (unsigned i = 0; i < count; ++i) {
    const hipLaunchAttribute& attribute = attributes[i];
    const auto number = [&](int index) { return reinterpret_cast<const int*>(attribute.value.pad)[index]; };
    switch (attribute.id) {
      case hipLaunchAttributeCooperative: cooperative = number(0) != 0; break;
      case hipLaunchAttributePriority: break;  // nothing runs at the same time on the stream
      case hipLaunchAttributeClusterDimension:
        if (number(0) * number(1) * number(2) != 1)
          return fail(hipErrorNotSupported, "clusters: gfx942 and gfx950 have none");
        break;
      default: return fail(hipErrorNotSupported, "launch attribute %u", attribute.id);
    }
  }
  return hipSuccess;
}

hipError_t cooperative_launch(hipStream_t stream, const void* function, LaunchShape shape, void** params) {
  shape.cooperative = true;
  return launch_on(stream, function, shape, params, nullptr);
}

}  // namespace
}  // namespace apb::emu::hip

using namespace apb::emu;
using namespace apb::emu::hip;

APB_HIP hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                         unsigned by, unsigned bz, unsigned lds, hipStream_t stream, void** params,
                                         void** extra) {
  return entry(__func__,
               [&] { return launch_on(stream, function, shape_of({gx, gy, gz}, {bx, by, bz}, lds), params, extra); });
}

APB_HIP hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t function, unsigned gx, unsigned gy, unsigned gz,
                                                    unsigned bx, unsigned by, unsigned bz, unsigned lds,
                                                    hipStream_t stream, void** params) {
  return entry(__func__,
               [&] { return cooperative_launch(stream, function, shape_of({gx, gy, gz}, {bx, by, bz}, lds), params); });
}

APB_HIP hipError_t hipExtModuleLaunchKernel(hipFunction_t function, std::uint32_t x, std::uint32_t y, std::uint32_t z,
                                            std::uint32_t bx, std::uint32_t by, std::uint32_t bz, std::size_t lds,
                                            hipStream_t stream, void** params, void** extra, hipEvent_t first,
                                            hipEvent_t last, std::uint32_t) {
  return entry(__func__,
               [&] { return ext_launch(function, {x, y, z}, {bx, by, bz}, lds, stream, params, extra, first, last); });
}
APB_HIP hipError_t hipHccModuleLaunchKernel(hipFunction_t function, std::uint32_t x, std::uint32_t y, std::uint32_t z,
                                            std::uint32_t bx, std::uint32_t by, std::uint32_t bz, std::size_t lds,
                                            hipStream_t stream, void** params, void** extra, hipEvent_t first,
                                            hipEvent_t last) {
  return entry(__func__,
               [&] { return ext_launch(function, {x, y, z}, {bx, by, bz}, lds, stream, params, extra, first, last); });
}

// Host programs compiled by hipcc call it with C++ linkage: the mangled names of HIP's own header.
[[gnu::visibility("default")]] hipError_t
ext_launch_mangled(hipFunction_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::size_t, hipStream_t, void**, void**, hipEvent_t, hipEvent_t, std::uint32_t) __asm__(
    "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j");
hipError_t ext_launch_mangled(hipFunction_t function, std::uint32_t x, std::uint32_t y, std::uint32_t z,
                              std::uint32_t bx, std::uint32_t by, std::uint32_t bz, std::size_t lds, hipStream_t stream,
                              void** params, void** extra, hipEvent_t first, hipEvent_t last, std::uint32_t flags) {
  return hipExtModuleLaunchKernel(function, x, y, z, bx, by, bz, lds, stream, params, extra, first, last, flags);
}

APB_HIP hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG* c, hipFunction_t function, void** params,
                                        void** extra) {
  return entry(__func__, [&] {
    if (!c) return null_argument("the configuration");
    LaunchShape shape = shape_of({c->gridDimX, c->gridDimY, c->gridDimZ}, {c->blockDimX, c->blockDimY, c->blockDimZ},
                                 c->sharedMemBytes);
    if (const hipError_t error = read_attributes(c->attrs, c->numAttrs, shape.cooperative); error != hipSuccess)
      return error;
    return launch_on(c->hStream, function, shape, params, extra);
  });
}

APB_HIP hipError_t hipLaunchKernelExC(const hipLaunchConfig_t* c, const void* function, void** params) {
  return entry(__func__, [&] {
    if (!c) return null_argument("the configuration");
    LaunchShape shape = shape_of(wide(c->gridDim), wide(c->blockDim), c->dynamicSmemBytes);
    if (const hipError_t error = read_attributes(c->attrs, c->numAttrs, shape.cooperative); error != hipSuccess)
      return error;
    return launch_on(c->stream, function, shape, params, nullptr);
  });
}

APB_HIP hipError_t hipLaunchKernel(const void* function, dim3 grid, dim3 block, void** params, std::size_t lds,
                                   hipStream_t stream) {
  return entry(__func__,
               [&] { return launch_on(stream, function, shape_of(wide(grid), wide(block), lds), params, nullptr); });
}
APB_HIP hipError_t hipLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** params, unsigned lds,
                                              hipStream_t stream) {
  return entry(__func__,
               [&] { return cooperative_launch(stream, function, shape_of(wide(grid), wide(block), lds), params); });
}
APB_HIP hipError_t hipExtLaunchKernel(const void* function, dim3 grid, dim3 block, void** params, std::size_t lds,
                                      hipStream_t stream, hipEvent_t first, hipEvent_t last, int) {
  return entry(__func__, [&] {
    return timed_launch(stream, function, shape_of(wide(grid), wide(block), lds), params, nullptr, first, last);
  });
}

// A kernel call of hipcc's: configuration first, then the stub fetches it and launches.
APB_HIP hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, std::size_t lds, hipStream_t stream) {
  return entry(__func__, [&] {
    thread().calls.push_back({grid, block, lds, stream});
    return hipSuccess;
  });
}
APB_HIP hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, std::size_t* lds, hipStream_t* stream) {
  return entry(__func__, [&] {
    auto& calls = thread().calls;
    if (calls.empty()) return fail(hipErrorMissingConfiguration, "a kernel stub without a configuration");
    const CallConfiguration call = calls.back();
    calls.pop_back();
    if (!grid || !block || !lds || !stream) return null_argument("a result");
    *grid = call.grid;
    *block = call.block;
    *lds = call.shared;
    *stream = call.stream;
    return hipSuccess;
  });
}
