// Shared by the files of DS instructions.
#pragma once

#include "memory_lanes.h"
#include "memory_operands.h"

namespace apb::emu {

bool bind_lds_atomic(Instruction& instruction);
bool bind_lds_cross(Instruction& instruction);      // ds_swizzle, ds_permute, ds_bpermute: no memory
bool bind_lds_transpose(Instruction& instruction);  // ds_read_*_tr_*, gfx950

// The 16-bit offset of instructions with one address.
inline std::uint32_t lds_offset(const Instruction& i) { return i.offset0 | static_cast<std::uint32_t>(i.offset1) << 8; }

// Host addresses of the active lanes' `bytes` at VGPR + offset (32-bit sum). M0 does not limit the range on gfx9.
// False: a lane is out of bounds or the observer objected; the wave has stopped.
inline bool lds_lanes(Wave& wave, const std::uint32_t* row, std::uint32_t offset, std::uint32_t bytes, LdsAccess access,
                      std::uint64_t* out) {
  const std::uint64_t active = wave.exec();
  const auto base = reinterpret_cast<std::uint64_t>(wave.group->lds);
  std::uint32_t highest = 0;
  for (int l = 0; l < kLanes; ++l) {
    const std::uint32_t at = row[l] + offset;
    highest = at > highest ? at : highest;
    out[l] = base + at;
  }
  if (active != kAllLanes) {
    highest = 0;
    for_lanes(active, [&](int l) { highest = row[l] + offset > highest ? row[l] + offset : highest; });
  }
  const bool inside = !active || std::uint64_t{highest} + bytes <= wave.group->lds_bytes;
  if (inside) [[likely]] {
    if (!wave.observer) [[likely]]
      return true;
    std::uint32_t at[kLanes];
    for (int l = 0; l < kLanes; ++l) at[l] = row[l] + offset;
    wave.observer->lds_lanes(wave, access, at, active, bytes);
    return wave.stop != Stop::Fault;
  }
  for (std::uint64_t rest = active; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    if (!reach_lds(wave, l, row[l] + offset, bytes, access)) return false;
  }
  return true;
}

}  // namespace apb::emu
