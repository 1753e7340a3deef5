// The observer of a running wave: checks that a card does not make, counters, a trace, a debugger. The run loop and the memory
// handlers call a wave's observer if it has one. Without one the usual loop runs and nothing here costs anything.
#pragma once

#include <cstdint>

#include "wave.h"

namespace apb::emu {

enum class LdsAccess : std::uint8_t { Read, Write, Atomic };

class Observer {
 public:
  virtual ~Observer() = default;
  // Before each instruction; wave.pc already points behind it. Whoever stops the wave here (`raise`, or
  // Stop::Yield with wave.pc set back) keeps it from being executed.
  virtual void before(Wave& wave, const Instruction& instruction) = 0;
  // When it was executed, or has stopped the wave: wave.stop says.
  virtual void after(Wave& /*wave*/, const Instruction& /*instruction*/) {}
  // Every LDS access of an active lane, after its bounds are known to hold.
  virtual void lds_read(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) = 0;
  virtual void lds_write(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) = 0;
  virtual void lds_atomic(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) = 0;
  // Every access to global, flat or scratch memory of an active lane; lane -1: a scalar load.
  virtual void global(Wave& wave, int lane, std::uint64_t address, std::uint32_t bytes) = 0;

  // The same for all active lanes of one instruction, in the order of lanes: one call instead of 64. `address` is an LDS byte address
  // per lane for lds_lanes, a host address per lane for global_lanes; those of inactive lanes are not looked at.
  virtual void lds_lanes(Wave& wave, LdsAccess access, const std::uint32_t* address, std::uint64_t active,
                         std::uint32_t bytes) = 0;
  virtual void global_lanes(Wave& wave, const std::uint64_t* address, std::uint64_t active, std::uint32_t bytes) = 0;
};

}  // namespace apb::emu
