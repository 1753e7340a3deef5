// FLAT: each lane's 64-bit address may be global memory, LDS (in the shared aperture) or its scratch (in the private
// aperture).
#include "atomic.h"
#include "global.h"
#include "memory_operands.h"
#include "memory_table.h"

namespace apb::emu {
namespace {

// The apertures are 4 GiB each; the low 32 bits are the address inside.
inline constexpr std::uint64_t kApertureBytes = std::uint64_t{1} << 32;

// Lanes by where their address points, addresses turned into host addresses.
struct Resolved {
  alignas(64) std::uint64_t at[kLanes];
  std::uint64_t global = 0, shared = 0;  // lanes; the rest of EXEC is scratch
};

// vgpr pair + 12-bit unsigned offset; checks all lanes. False: the wave has stopped.
bool resolve(Wave& wave, const Instruction& instruction, std::uint32_t bytes, LdsAccess access, Resolved& out) {
  const std::uint32_t* low = wave.row(flat_address(instruction));
  const auto offset = static_cast<std::uint64_t>(static_cast<std::int64_t>(instruction.offset));
  for (int l = 0; l < kLanes; ++l) out.at[l] = (low[l] | static_cast<std::uint64_t>(low[kLanes + l]) << 32) + offset;
  const std::uint64_t active = wave.exec(), shared_base = wave.group->shared_base,
                      private_base = wave.group->private_base;
  std::uint64_t scratch = 0;
  for (int l = 0; l < kLanes; ++l) {
    out.shared |= static_cast<std::uint64_t>(out.at[l] - shared_base < kApertureBytes) << l;
    scratch |= static_cast<std::uint64_t>(out.at[l] - private_base < kApertureBytes) << l;
  }
  out.shared &= active;
  scratch &= active & ~out.shared;
  out.global = active & ~out.shared & ~scratch;
  if (!reach_lanes(wave, out.at, out.global, false, bytes)) return false;
  for (std::uint64_t rest = out.shared; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    if (!reach_lds(wave, l, out.at[l] - shared_base, bytes, access)) return false;
    out.at[l] = reinterpret_cast<std::uint64_t>(wave.group->lds) + (out.at[l] - shared_base);
  }
  for (std::uint64_t rest = scratch; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    const std::uint64_t inside = out.at[l] - private_base;
    if (inside + bytes > wave.scratch_bytes) {
      raise(wave, FaultKind::IllegalAddress, l,
            "flat access of %u bytes at scratch offset %llu, of %u bytes of scratch per lane", bytes,
            static_cast<unsigned long long>(inside), wave.scratch_bytes);
      return false;
    }
    if (wave.observer) wave.observer->global(wave, l, inside, bytes);
    if (wave.stop == Stop::Fault) return false;
    out.at[l] =
        reinterpret_cast<std::uint64_t>(wave.scratch) + static_cast<std::uint64_t>(l) * wave.scratch_bytes + inside;
  }
  return true;
}

template <Shape S>
void load(Wave& wave, const Instruction& instruction) {
  Resolved lane;
  if (!resolve(wave, instruction, S.bytes, LdsAccess::Read, lane)) return;
  const std::uint64_t active = wave.exec();
  load_lanes<S>(lane.at, active, active == kAllLanes && is_contiguous(lane.at, S.bytes),
                wave.row(instruction.destination[0]));
  count_read(wave, active & ~lane.shared, S.bytes);
  count_lds(wave, lane.shared, S.bytes, LdsAccess::Read);
}

template <Shape S>
void store(Wave& wave, const Instruction& instruction) {
  Resolved lane;
  if (!resolve(wave, instruction, S.bytes, LdsAccess::Write, lane)) return;
  const std::uint64_t active = wave.exec();
  store_lanes<S>(lane.at, active, active == kAllLanes && is_contiguous(lane.at, S.bytes),
                 wave.row(flat_data(instruction)));
  count_written(wave, active & ~lane.shared, S.bytes);
  count_lds(wave, lane.shared, S.bytes, LdsAccess::Write);
}

void atomic_operation(Wave& wave, const Instruction& instruction) {
  const auto& operation = *static_cast<const atomic::MemoryOperation*>(instruction.function);
  Resolved lane;
  if (!resolve(wave, instruction, operation.bytes, LdsAccess::Atomic, lane)) return;
  const std::uint64_t active = wave.exec();
  if (!atomic::aligned_lanes(wave, lane.at, active, operation.bytes)) return;
  std::uint32_t* old = instruction.sc0 ? wave.row(instruction.destination[0]) : nullptr;
  const unsigned unchanged = operation.run(lane.at, active, wave.row(flat_data(instruction)), old);
  atomic::count(wave, active & ~lane.shared, unchanged, operation.bytes);
  count_lds(wave, lane.shared, operation.bytes, LdsAccess::Atomic);
}

}  // namespace

bool bind_flat_segment(Instruction& instruction) {
  static const MemoryTable rows{
      APB_MEMORY_LOADS_AND_STORES(FLAT, load, store),
      APB_MEMORY_ATOMICS(FLAT, atomic_operation),
  };
  return rows.bind(instruction);
}

}  // namespace apb::emu
