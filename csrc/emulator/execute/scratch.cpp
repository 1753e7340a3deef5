// SCRATCH: the lane's private memory. The hardware interleaves the lanes' dwords in memory; nobody can see that, so
// here each lane's bytes lie together.
#include "global.h"
#include "memory_direct.h"
#include "memory_operands.h"
#include "memory_table.h"
#include "operands.h"

namespace apb::emu {
namespace {

// offset = [VGPR, unsigned] + [SGPR, unsigned] + signed instruction offset (CDNA4 ISA, table 56), checked against the
// lane's allocation and turned into host addresses. False: the wave has stopped.
bool addresses(Wave& wave, const Instruction& instruction, const Operand& scalar, std::uint32_t bytes,
               std::uint64_t* out) {
  const Operand& vector = flat_address(instruction);
  const auto base = static_cast<std::uint64_t>(static_cast<std::int64_t>(instruction.offset)) +
                    (scalar.used() ? read32(wave, scalar) : 0);
  if (vector.used()) {
    const std::uint32_t* row = wave.row(vector);
    for (int l = 0; l < kLanes; ++l) out[l] = base + row[l];
  } else {
    for (int l = 0; l < kLanes; ++l) out[l] = base;
  }
  for (std::uint64_t rest = wave.exec(); rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    if (out[l] >= wave.scratch_bytes || out[l] + bytes > wave.scratch_bytes) {
      raise(wave, FaultKind::IllegalAddress, l,
            "scratch access of %u bytes at offset %lld, of %u bytes of scratch per lane", bytes,
            static_cast<long long>(out[l]), wave.scratch_bytes);
      return false;
    }
    if (wave.observer) wave.observer->global(wave, l, out[l], bytes);
    if (wave.stop == Stop::Fault) return false;
  }
  const auto memory = reinterpret_cast<std::uint64_t>(wave.scratch);
  for (int l = 0; l < kLanes; ++l) out[l] += memory + static_cast<std::uint64_t>(l) * wave.scratch_bytes;
  return true;
}

template <Shape S>
void load(Wave& wave, const Instruction& instruction) {
  alignas(64) std::uint64_t at[kLanes];
  if (!addresses(wave, instruction, load_scalar(instruction), S.bytes, at)) return;
  load_lanes<S>(at, wave.exec(), false, wave.row(instruction.destination[0]));
  count_read(wave, wave.exec(), S.bytes);
}

template <Shape S>
void store(Wave& wave, const Instruction& instruction) {
  alignas(64) std::uint64_t at[kLanes];
  if (!addresses(wave, instruction, store_scalar(instruction), S.bytes, at)) return;
  store_lanes<S>(at, wave.exec(), false, wave.row(flat_data(instruction)));
  count_written(wave, wave.exec(), S.bytes);
}

template <Shape S>
void load_to_lds(Wave& wave, const Instruction& instruction) {
  alignas(64) std::uint64_t at[kLanes];
  if (!addresses(wave, instruction, load_scalar(instruction), S.bytes, at)) return;
  alignas(64) std::uint32_t rows[S.dwords() * kLanes];
  load_lanes<S>(at, wave.exec(), false, rows);
  count_read(wave, wave.exec(), S.bytes);
  write_direct<S>(wave, instruction, rows);
}

}  // namespace

bool bind_scratch_segment(Instruction& instruction) {
  static const MemoryTable rows{
      APB_MEMORY_LOADS_AND_STORES(SCRATCH, load, store),
      {Opcode::SCRATCH_LOAD_LDS_UBYTE, load_to_lds<Shape{1}>},
      {Opcode::SCRATCH_LOAD_LDS_SBYTE, load_to_lds<Shape{1, true}>},
      {Opcode::SCRATCH_LOAD_LDS_USHORT, load_to_lds<Shape{2}>},
      {Opcode::SCRATCH_LOAD_LDS_SSHORT, load_to_lds<Shape{2, true}>},
      {Opcode::SCRATCH_LOAD_LDS_DWORD, load_to_lds<Shape{4}>},
  };
  return rows.bind(instruction);
}

}  // namespace apb::emu
