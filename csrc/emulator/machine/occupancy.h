// How many workgroups of a kernel a compute unit holds at a time.
#pragma once

#include <cstdint>

#include "code_object.h"

namespace apb::emu {

// LDS is given out in pieces: 128 dwords on gfx942, 320 on gfx950 (LLVM, getLdsDwGranularity).
std::uint32_t lds_granule(Target target);
std::uint32_t lds_of_unit(Target target);

// By registers, by LDS, by the barriers that groups of several waves need; 0: not even one fits.
std::uint32_t workgroups_per_unit(const Kernel& kernel, std::uint64_t block, std::uint64_t dynamic_lds);

}  // namespace apb::emu
