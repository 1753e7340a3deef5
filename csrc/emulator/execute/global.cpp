// GLOBAL: loads, stores, atomics and loads to LDS at 64-bit addresses that never are LDS or scratch.
#include "global.h"

#include "atomic.h"
#include "bind.h"
#include "memory_direct.h"
#include "memory_operands.h"
#include "memory_table.h"
#include "operands.h"

namespace apb::emu {
namespace {

// address = SGPR pair + 32-bit unsigned VGPR + offset, or VGPR pair + offset; the offset is signed (13 bits).
void addresses(const Wave& wave, const Instruction& instruction, const Operand& scalar, std::uint64_t* out) {
  const std::uint32_t* low = wave.row(flat_address(instruction));
  const auto offset = static_cast<std::uint64_t>(static_cast<std::int64_t>(instruction.offset));
  if (scalar.used()) {
    const std::uint64_t base = read64(wave, scalar) + offset;
    for (int l = 0; l < kLanes; ++l) out[l] = base + low[l];
    return;
  }
  const std::uint32_t* high = low + kLanes;
  for (int l = 0; l < kLanes; ++l) out[l] = (low[l] | static_cast<std::uint64_t>(high[l]) << 32) + offset;
}

template <Shape S>
void load(Wave& wave, const Instruction& instruction) {
  alignas(64) std::uint64_t at[kLanes];
  addresses(wave, instruction, load_scalar(instruction), at);
  const std::uint64_t active = wave.exec();
  const bool contiguous = active == kAllLanes && is_contiguous(at, S.bytes);
  if (!reach_lanes(wave, at, active, contiguous, S.bytes)) return;
  load_lanes<S>(at, active, contiguous, wave.row(instruction.destination[0]));
  count_read(wave, active, S.bytes);
}

template <Shape S>
void store(Wave& wave, const Instruction& instruction) {
  alignas(64) std::uint64_t at[kLanes];
  addresses(wave, instruction, store_scalar(instruction), at);
  const std::uint64_t active = wave.exec();
  const bool contiguous = active == kAllLanes && is_contiguous(at, S.bytes);
  if (!reach_lanes(wave, at, active, contiguous, S.bytes)) return;
  store_lanes<S>(at, active, contiguous, wave.row(flat_data(instruction)));
  count_written(wave, active, S.bytes);
}

template <Shape S>
void load_to_lds(Wave& wave, const Instruction& instruction) {
  alignas(64) std::uint64_t at[kLanes];
  addresses(wave, instruction, load_scalar(instruction), at);
  const std::uint64_t active = wave.exec();
  const bool contiguous = active == kAllLanes && is_contiguous(at, S.bytes);
  if (!reach_lanes(wave, at, active, contiguous, S.bytes)) return;
  alignas(64) std::uint32_t rows[S.dwords() * kLanes];
  load_lanes<S>(at, active, contiguous, rows);
  count_read(wave, active, S.bytes);
  write_direct<S>(wave, instruction, rows);
}

void atomic_operation(Wave& wave, const Instruction& instruction) {
  const auto& operation = *static_cast<const atomic::MemoryOperation*>(instruction.function);
  alignas(64) std::uint64_t at[kLanes];
  addresses(wave, instruction, store_scalar(instruction), at);
  const std::uint64_t active = wave.exec();
  if (!atomic::aligned_lanes(wave, at, active, operation.bytes)) return;
  if (!reach_lanes(wave, at, active, false, operation.bytes)) return;
  std::uint32_t* old = instruction.sc0 ? wave.row(instruction.destination[0]) : nullptr;  // sc0: return what was there
  const unsigned unchanged = operation.run(at, active, wave.row(flat_data(instruction)), old);
  atomic::count(wave, active, unchanged, operation.bytes);
}

const MemoryTable& table() {
  static const MemoryTable rows{
      APB_MEMORY_LOADS_AND_STORES(GLOBAL, load, store),
      {Opcode::GLOBAL_LOAD_LDS_UBYTE, load_to_lds<Shape{1}>},
      {Opcode::GLOBAL_LOAD_LDS_SBYTE, load_to_lds<Shape{1, true}>},
      {Opcode::GLOBAL_LOAD_LDS_USHORT, load_to_lds<Shape{2}>},
      {Opcode::GLOBAL_LOAD_LDS_SSHORT, load_to_lds<Shape{2, true}>},
      {Opcode::GLOBAL_LOAD_LDS_DWORD, load_to_lds<Shape{4}>},
      {Opcode::GLOBAL_LOAD_LDS_DWORDX3, load_to_lds<Shape{12}>},
      {Opcode::GLOBAL_LOAD_LDS_DWORDX4, load_to_lds<Shape{16}>},
      APB_MEMORY_ATOMICS(GLOBAL, atomic_operation),
  };
  return rows;
}

}  // namespace

bool bind_global_segment(Instruction& instruction) { return table().bind(instruction); }

bool bind_global(Target target, Instruction& instruction) {
  const bool wide_direct =
      instruction.opcode == Opcode::GLOBAL_LOAD_LDS_DWORDX3 || instruction.opcode == Opcode::GLOBAL_LOAD_LDS_DWORDX4;
  if (wide_direct && target != Target::Gfx950) return false;
  return bind_global_segment(instruction) || bind_flat_segment(instruction) || bind_scratch_segment(instruction);
}

}  // namespace apb::emu
