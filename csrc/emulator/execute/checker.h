// Checks that a card does not make. One object per wave; the memory handlers and the run loop call it when it is there.
#pragma once

#include <cstdint>

#include "wave.h"

namespace apb::emu {

enum class LdsAccess : std::uint8_t { Read, Write, Atomic };

class Checker {
 public:
  virtual ~Checker() = default;
  // Before each instruction: does it read or write a register whose load has not been waited for? Counts vmcnt, lgkmcnt
  // and expcnt as the hardware does; s_waitcnt forgets what has arrived. Raises `hazard`.
  virtual void before(Wave& wave, const Instruction& instruction) = 0;
  // Every LDS access of an active lane, after its bounds are known to hold. A read of bytes that nobody wrote raises
  // lds_uninitialised; two waves on the same bytes since the last barrier, one of them writing without an atomic, lds_race.
  virtual void lds_read(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) = 0;
  virtual void lds_write(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) = 0;
  virtual void lds_atomic(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) = 0;
  // Every access to global, flat or scratch memory of an active lane. Raises `misaligned` when `address` is no multiple of
  // min(bytes, 4) (1 for byte accesses).
  virtual void global(Wave& wave, int lane, std::uint64_t address, std::uint32_t bytes) = 0;

  // The same for all active lanes of one instruction, in the order of lanes: one call instead of 64. `address` is an LDS byte address
  // per lane for lds_lanes, a host address per lane for global_lanes; those of inactive lanes are not looked at.
  virtual void lds_lanes(Wave& wave, LdsAccess access, const std::uint32_t* address, std::uint64_t active,
                         std::uint32_t bytes) = 0;
  virtual void global_lanes(Wave& wave, const std::uint64_t* address, std::uint64_t active, std::uint32_t bytes) = 0;
};

}  // namespace apb::emu
