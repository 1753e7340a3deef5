// The optional checks of one workgroup: hazards, LDS races and uninitialised LDS, misaligned addresses. What a card does not tell.
#pragma once

#include <cstdint>
#include <memory>

#include "../execute/checker.h"
#include "configuration.h"

namespace apb::emu {

// Owned by whoever runs the workgroup; all its waves run on one host thread, so nothing here locks.
//   auto checks = make_workgroup_checks(configuration().checks, waves, lds_bytes);   // null: no check is on
//   wave.checker = checks ? checks->of_wave(number) : nullptr;
//   ... when every wave that has not ended stands at its s_barrier: checks->barrier(), then let them go on
//   checks->reset() before the same object serves the next workgroup of the launch.
class WorkgroupChecks {
 public:
  virtual ~WorkgroupChecks() = default;
  virtual Checker* of_wave(std::uint32_t number) = 0;  // number < waves; stays owned here
  virtual void barrier() = 0;
  virtual void reset() = 0;
};

// Null when no switch is on. `lds_bytes` is the workgroup's (static and dynamic).
std::unique_ptr<WorkgroupChecks> make_workgroup_checks(const CheckSwitches& switches, std::uint32_t waves,
                                                       std::uint32_t lds_bytes);

}  // namespace apb::emu
