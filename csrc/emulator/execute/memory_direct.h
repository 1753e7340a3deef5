// Loads that put their data into LDS instead of registers ("LDS-direct": global_load_lds_*, scratch_load_lds_*,
// buffer_load_* ... lds).
#pragma once

#include "lds.h"

namespace apb::emu {

// LDS address of lane 0, from M0: a buffer load takes M0 as it is (16 bits on gfx942, 18 on gfx950: CDNA3 and CDNA4
// ISA, 9.1.9), global and scratch loads take M0[17:2] * 4 (10.3). The instruction's offset counts for memory and for
// LDS.
inline std::uint32_t direct_base(const Wave& wave, const Instruction& instruction) {
  const std::uint32_t m0 = wave.scalar[sreg::kM0];
  const bool buffer = instruction.encoding == Encoding::Mubuf;
  const std::uint32_t mask = !buffer ? 0x3fffc : wave.target == Target::Gfx950 ? 0x3ffff : 0xffff;
  return (m0 & mask) + static_cast<std::uint32_t>(instruction.offset);
}

// Writes rows of loaded data for the lanes of `active`, which is EXEC. Each lane owns 4 bytes, or 16 when it loads 3 or
// 4 dwords (the fourth stays as it was); sub-dword loads write a whole dword. Lanes that are off leave a hole.
template <Shape S>
inline void write_direct(Wave& wave, const Instruction& instruction, const std::uint32_t* rows) {
  constexpr std::uint32_t kStride = S.bytes > 4 ? 16 : 4;
  constexpr Shape kWritten{S.dwords() * 4};
  alignas(64) std::uint64_t at[kLanes];
  std::uint32_t row[kLanes];
  for (int l = 0; l < kLanes; ++l) row[l] = static_cast<std::uint32_t>(l) * kStride;
  if (!lds_lanes(wave, row, direct_base(wave, instruction), kWritten.bytes, LdsAccess::Write, at)) return;
  const std::uint64_t active = wave.exec();
  store_lanes<kWritten>(at, active, active == kAllLanes && kStride == kWritten.bytes, rows);
  count_lds(wave, active, kWritten.bytes, LdsAccess::Write);
}

}  // namespace apb::emu
