// Runs the workgroups of one launch over the host's cores, on the calling thread and its helpers: to the end, or until all of them
// wait for somebody else's store.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "machine/load/code_object.h"
#include "machine/schedule/grid_sync.h"

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

enum class LaunchResult : std::uint8_t {
  Done,
  InvalidValue,
  InvalidConfiguration,
  TooMuchLds,
  OutOfMemory,
  Fault,
  Waits
};

// A launch that was left before its end.
class LaunchRest {
 public:
  virtual ~LaunchRest() = default;
  // To the end, on the calling thread and its helpers; answers what launch() would have answered.
  virtual LaunchResult finish(Fault& fault, std::string& text) = 0;
};

// `text` says what was wrong; for a fault it is the fault's message. With `rest` it may be left: when all its workgroups have waited for
// two milliseconds for a store that is not theirs, or when it has run for longer than
// the configuration has patience. Then the result is Waits, and
// `request.kernel` must stay as long as the rest.
LaunchResult launch(const LaunchRequest& request, Fault& fault, std::string& text,
                    std::unique_ptr<LaunchRest>* rest = nullptr);

}  // namespace apb::emu
