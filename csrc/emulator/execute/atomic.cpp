#include "atomic.h"

namespace apb::emu::atomic {

bool aligned_lanes(Wave& wave, const std::uint64_t* address, std::uint64_t active, std::uint32_t bytes) {
  for (std::uint64_t rest = active; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    if (address[l] % bytes == 0) continue;
    raise(wave, FaultKind::Misaligned, l, "atomic of %u bytes at address 0x%llx, which is no multiple of its size",
          bytes, static_cast<unsigned long long>(address[l]));
    return false;
  }
  return true;
}

}  // namespace apb::emu::atomic
