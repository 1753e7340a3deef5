// Runs the workgroups of one launch over the host's cores, to the end. Blocking: when it returns, the kernel is done.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "code_object.h"
#include "grid_sync.h"

namespace apb::emu {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};

struct LaunchRequest {
  const Kernel* kernel = nullptr;
  Dim3 grid{}, block{};  // grid in workgroups; block in work items
  Dim3 tail{0, 0, 0};    // work items of the last, partial workgroup per dimension (0: none): hipExtModuleLaunchKernel
  std::uint32_t dynamic_lds = 0;
  std::span<const std::uint8_t>
      arguments;  // explicit arguments, laid out as the metadata says; hidden ones are filled in
  int device = 0;
  std::uint64_t queue = 0;           // the stream, by its number
  bool cooperative = false;          // all workgroups resident at once
  const MultiGrid* grids = nullptr;  // of a cooperative launch over several devices
};

enum class LaunchResult : std::uint8_t { Done, InvalidValue, InvalidConfiguration, TooMuchLds, OutOfMemory, Fault };

// `text` says what was wrong; for a fault it is the fault's message.
LaunchResult launch(const LaunchRequest& request, Fault& fault, std::string& text);

}  // namespace apb::emu
