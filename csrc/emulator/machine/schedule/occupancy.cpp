#include "machine/schedule/occupancy.h"

#include <algorithm>

#include "machine/load/descriptor.h"

namespace apb::emu {
namespace {

constexpr std::uint32_t kSimds = 4, kWavesPerSimd = 8, kBarriers = 16, kRegisters = 512, kRegisterGranule = 8;

std::uint32_t groups_of(std::uint32_t registers, std::uint32_t waves) {
  return kSimds * std::min(kWavesPerSimd, kRegisters / registers) / waves;
}

}  // namespace

std::uint32_t lds_granule(Target target) { return target == Target::Gfx950 ? 1280 : 512; }
std::uint32_t lds_of_unit(Target target) { return target == Target::Gfx950 ? 160u << 10 : 64u << 10; }

Occupancy occupancy(const Kernel& kernel, std::uint64_t block, std::uint64_t dynamic_lds) {
  Occupancy out;
  const Target target = kernel.object->target;
  const std::uint64_t lds = kernel.static_lds + dynamic_lds, most = lds_of_unit(target), granule = lds_granule(target);
  if (block == 0 || block > kernel.max_block) return out;
  out.waves = static_cast<std::uint32_t>((block + kLanes - 1) / kLanes);
  out.by_waves = kSimds * kWavesPerSimd / out.waves;
  // Registers that a wave takes from its SIMD: both files share 512 rows, given out in eights. The descriptor counts them.
  const std::uint32_t both = rsrc::allocated_vgprs(kernel.rsrc1);
  const std::uint32_t vgprs =
      (std::min(rsrc::accum_offset(kernel.rsrc3), both) + kRegisterGranule - 1) / kRegisterGranule * kRegisterGranule;
  out.by_registers = groups_of(both, out.waves);
  out.by_vgprs = groups_of(vgprs, out.waves);
  if (out.waves > 1) out.by_barriers = kBarriers;
  if (lds > most)
    out.by_lds = 0;
  else if (lds != 0)
    out.by_lds = static_cast<std::uint32_t>(most / ((lds + granule - 1) / granule * granule));
  out.workgroups = std::min({out.by_waves, out.by_registers, out.by_lds, out.by_barriers});
  return out;
}

std::string_view Occupancy::limiter() const {
  if (workgroups == 0) return "none fits";
  if (workgroups == by_waves) return "waves";  // all that there are: nothing else costs anything
  if (workgroups == by_lds) return "lds";
  return by_vgprs > workgroups ? "agprs" : "vgprs";
}

std::uint32_t workgroups_per_unit(const Kernel& kernel, std::uint64_t block, std::uint64_t dynamic_lds) {
  return occupancy(kernel, block, dynamic_lds).workgroups;
}

}  // namespace apb::emu
