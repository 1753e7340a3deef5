// One launch, from any of the entry points.
#pragma once

#include "operation.h"

namespace apb::emu::hip {

struct LaunchShape {
  Dim3 grid, block, tail{0, 0, 0};
  std::uint32_t lds = 0;
  bool cooperative = false;
};

// Checks shape and arguments and copies the arguments; `params` or `extra`, not both.
hipError_t make_launch(const void* handle, const LaunchShape& shape, void** params, void** extra, KernelOperation& out);
hipError_t launch_on(hipStream_t handle, const void* function, const LaunchShape& shape, void** params, void** extra);

}  // namespace apb::emu::hip
