// Banks are 4 bytes wide. Which lanes share a phase was measured with SQ_LDS_BANK_CONFLICT on cards: HipKittens' phase and bank solvers
// (gfx950: ds_read_b64, b96, b128, ds_write_b64; gfx942: ds_read_b64) and AMD's Composable Kernel documentation, "LDS bank conflicts"
// (ds_read_b128 of 32 banks, ds_write_b128). Accesses of 4 bytes and less go by halves of the wave, as AMD's OpenCL guide says; that
// gfx950 has all 64 banks for them when it reads, as for ds_read_b64, is assumed. Atomics go as writes do.
// A lane alone takes as many phases as all: ROCm Compute Profiler's documentation, "Profiling by example", LDS.
#include "machine/profile/lds_banks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

namespace apb::emu {
namespace {

constexpr std::uint64_t lanes(int first, int last) { return (~0ull >> (63 - last)) & (~0ull << first); }
constexpr std::array<std::uint64_t, 2> kHalves{lanes(0, 31), lanes(32, 63)};
constexpr std::array<std::uint64_t, 4> kQuarters{lanes(0, 15), lanes(16, 31), lanes(32, 47), lanes(48, 63)};
constexpr std::array<std::uint64_t, 8> kEighths{lanes(0, 7),   lanes(8, 15),  lanes(16, 23), lanes(24, 31),
                                                lanes(32, 39), lanes(40, 47), lanes(48, 55), lanes(56, 63)};

// Fours of lanes that a half of the wave is read in.
constexpr std::uint64_t kFirst16 = lanes(0, 3) | lanes(12, 15) | lanes(20, 27);
constexpr std::uint64_t kSecond16 = lanes(4, 11) | lanes(16, 19) | lanes(28, 31);
constexpr std::array<std::uint64_t, 4> kReadQuarters{kFirst16, kSecond16, kFirst16 << 32, kSecond16 << 32};
constexpr std::array<std::uint64_t, 4> kReadEighths{lanes(0, 3) | lanes(20, 23), lanes(4, 7) | lanes(16, 19),
                                                    lanes(8, 11) | lanes(28, 31), lanes(12, 15) | lanes(24, 27)};
constexpr std::array<std::uint64_t, 8> kAllReadEighths{
    kReadEighths[0],       kReadEighths[1],       kReadEighths[2],       kReadEighths[3],
    kReadEighths[0] << 32, kReadEighths[1] << 32, kReadEighths[2] << 32, kReadEighths[3] << 32};

struct Ports {
  std::span<const std::uint64_t> phases;
  unsigned banks;
};

Ports ports_of(Target target, bool reads, std::uint32_t bytes) {
  const bool wide = target == Target::Gfx950 && reads;
  if (bytes <= 4) return {kHalves, wide ? 64u : 32u};
  if (!reads) return {bytes <= 8 ? std::span<const std::uint64_t>(kQuarters) : kEighths, 32};
  if (bytes <= 8) return wide ? Ports{kHalves, 64} : Ports{kReadQuarters, 32};
  if (bytes > 12 && wide) return {kReadQuarters, 64};
  return {kAllReadEighths, 32};
}

constexpr std::size_t kMostDwords = 32 * 2;  // of a phase: 32 lanes of 8 bytes; an access across a dword has one more

struct Phase {
  std::array<std::uint32_t, kMostDwords * 2> dword;
  std::size_t count = 0;
  void add(std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t d = first; d <= last && count < dword.size(); ++d) dword[count++] = d;
  }
};

// Different dwords of the bank that has the most; the same dword is read once for all lanes.
std::uint32_t deepest(Phase& phase, unsigned banks) {
  std::array<std::uint32_t, 64> depth{};
  auto* const end = phase.dword.begin() + static_cast<std::ptrdiff_t>(phase.count);
  std::sort(phase.dword.begin(), end);
  std::uint32_t most = 0;
  for (auto* at = phase.dword.begin(); at != end; ++at) {
    if (at != phase.dword.begin() && *at == at[-1]) continue;
    most = std::max(most, ++depth[*at % banks]);
  }
  return most;
}

// The number of lanes that change the same dword, for the dword with the most.
std::uint32_t most_alike(const Phase& phase) {
  std::uint32_t most = 0, run = 0;
  for (std::size_t i = 0; i < phase.count; ++i) {
    run = i != 0 && phase.dword[i] == phase.dword[i - 1] ? run + 1 : 1;
    most = std::max(most, run);
  }
  return most;
}

}  // namespace

BankCost bank_cost(Target target, LdsAccess access, const std::uint32_t* address, std::uint64_t active,
                   std::uint32_t bytes) {
  BankCost cost;
  if (active == 0) return cost;
  const Ports ports = ports_of(target, access == LdsAccess::Read, bytes);
  cost.phases = static_cast<std::uint32_t>(ports.phases.size());
  for (const std::uint64_t together : ports.phases) {
    Phase phase;
    for (std::uint64_t rest = active & together; rest != 0; rest &= rest - 1) {
      const std::uint32_t at = address[std::countr_zero(rest)];
      phase.add(at / 4, (at + bytes - 1) / 4);
    }
    if (phase.count == 0) continue;
    cost.conflicts += deepest(phase, ports.banks) - 1;
    if (access == LdsAccess::Atomic) cost.same += most_alike(phase) - 1;
  }
  return cost;
}

}  // namespace apb::emu
