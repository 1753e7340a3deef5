// The number of workgroups of a kernel that a compute unit holds at a time, and the resource that limits it.
#pragma once

#include <cstdint>
#include <string_view>

#include "machine/load/code_object.h"

namespace apb::emu {

// LDS is given out in pieces: 128 dwords on gfx942, 320 on gfx950 (LLVM, getLdsDwGranularity).
std::uint32_t lds_granule(Target target);
std::uint32_t lds_of_unit(Target target);

// Workgroups at a time by each of the things that they share.
struct Occupancy {
  static constexpr std::uint32_t kNoLimit = UINT32_MAX;
  std::uint32_t workgroups = 0;                  // the least of them; 0: not even one fits
  std::uint32_t by_waves = 0;                    // eight waves for each of four SIMDs
  std::uint32_t by_registers = 0, by_vgprs = 0;  // both files together; had the kernel no accumulation VGPRs
  std::uint32_t by_lds = kNoLimit, by_barriers = kNoLimit;
  std::uint32_t waves = 0;  // of a workgroup
  // "waves", "vgprs", "agprs" (VGPRs alone would leave room for more), "lds" or "none fits". Barriers never: 16 groups of two waves are all
  // the waves that there are.
  std::string_view limiter() const;
};
Occupancy occupancy(const Kernel& kernel, std::uint64_t block, std::uint64_t dynamic_lds);

// By registers, by LDS, by the barriers that groups of several waves need; 0: not even one fits.
std::uint32_t workgroups_per_unit(const Kernel& kernel, std::uint64_t block, std::uint64_t dynamic_lds);

}  // namespace apb::emu
