#include "occupancy.h"

#include <algorithm>

namespace apb::emu {
namespace {

constexpr std::uint32_t kSimds = 4, kWavesPerSimd = 8, kBarriers = 16, kRegisters = 512, kRegisterGranule = 8;

// Registers that a wave takes from its SIMD: both files share 512 rows, given out in eights. rsrc1 [5:0] of the
// descriptor counts them.
std::uint32_t allocated_registers(const Kernel& kernel) { return ((kernel.rsrc1 & 0x3f) + 1) * kRegisterGranule; }

}  // namespace

std::uint32_t lds_granule(Target target) { return target == Target::Gfx950 ? 1280 : 512; }
std::uint32_t lds_of_unit(Target target) { return target == Target::Gfx950 ? 160u << 10 : 64u << 10; }

std::uint32_t workgroups_per_unit(const Kernel& kernel, std::uint64_t block, std::uint64_t dynamic_lds) {
  const Target target = kernel.object->target;
  const std::uint64_t lds = kernel.static_lds + dynamic_lds, most = lds_of_unit(target), granule = lds_granule(target);
  if (block == 0 || block > kernel.max_block || lds > most) return 0;
  const auto waves = static_cast<std::uint32_t>((block + kLanes - 1) / kLanes);
  std::uint32_t count = kSimds * std::min(kWavesPerSimd, kRegisters / allocated_registers(kernel)) / waves;
  if (waves > 1) count = std::min(count, kBarriers);
  if (lds != 0) count = std::min(count, static_cast<std::uint32_t>(most / ((lds + granule - 1) / granule * granule)));
  return count;
}

}  // namespace apb::emu
