// DS: reads and writes of LDS, the forms addressed by the lane number, append and consume.
#include "lds.h"

#include "bind.h"
#include "memory_table.h"

namespace apb::emu {
namespace {

template <Shape S>
void read(Wave& wave, const Instruction& instruction) {
  alignas(64) std::uint64_t at[kLanes];
  if (!lds_lanes(wave, wave.row(lds_address(instruction)), lds_offset(instruction), S.bytes, LdsAccess::Read, at))
    return;
  const std::uint64_t active = wave.exec();
  load_lanes<S>(at, active, active == kAllLanes && is_contiguous(at, S.bytes), wave.row(instruction.destination[0]));
  count_lds(wave, active, S.bytes, LdsAccess::Read);
}

template <Shape S>
void write(Wave& wave, const Instruction& instruction) {
  alignas(64) std::uint64_t at[kLanes];
  if (!lds_lanes(wave, wave.row(lds_address(instruction)), lds_offset(instruction), S.bytes, LdsAccess::Write, at))
    return;
  const std::uint64_t active = wave.exec();
  store_lanes<S>(at, active, active == kAllLanes && is_contiguous(at, S.bytes), wave.row(lds_data(instruction)));
  count_lds(wave, active, S.bytes, LdsAccess::Write);
}

// As lds_lanes(), for one of an instruction's two addresses. A card checks each. Where a finding is passed over
// (machine/check/findings.h), a lane with missing bytes is left out of `lanes` for this address alone.
bool lds_half(Wave& wave, std::uint32_t offset, std::uint32_t bytes, LdsAccess access, std::uint64_t* out,
              std::uint64_t& lanes) {
  const std::uint64_t exec = wave.exec();
  const std::uint32_t* row = wave.row(lds_address(*wave.current));
  lanes = exec;
  bool there = lds_lanes(wave, row, offset, bytes, access, out);
  while (!there && lanes != 0 && wave.fault.kind == FaultKind::LdsOutOfBounds && wave.group->tolerates != nullptr &&
         wave.group->tolerates(wave)) {
    lanes &= ~(std::uint64_t{1} << wave.fault.lane);
    wave.stop = Stop::None;
    wave.fault = {};
    wave.set_pair(sreg::kExec, lanes);
    there = lds_lanes(wave, row, offset, bytes, access, out);
  }
  wave.set_pair(sreg::kExec, exec);
  return there;
}

// Two values from one address; each offset counts in elements, or in 64 elements ("st64").
template <Shape S, int Scale>
void read2(Wave& wave, const Instruction& instruction) {
  alignas(64) std::uint64_t first[kLanes], second[kLanes];
  std::uint64_t lanes[2];
  constexpr std::uint32_t kUnit = S.bytes * Scale;
  if (!lds_half(wave, instruction.offset0 * kUnit, S.bytes, LdsAccess::Read, first, lanes[0])) return;
  if (!lds_half(wave, instruction.offset1 * kUnit, S.bytes, LdsAccess::Read, second, lanes[1])) return;
  std::uint32_t* out = wave.row(instruction.destination[0]);
  load_lanes<S>(first, lanes[0], false, out);
  load_lanes<S>(second, lanes[1], false, out + S.dwords() * kLanes);
  for (int half = 0; half < 2; ++half) {  // what is not there reads as 0
    for_lanes(wave.exec() & ~lanes[half], [&](int lane) {
      for (int d = 0; d < S.dwords(); ++d) out[(half * S.dwords() + d) * kLanes + lane] = 0;
    });
    count_lds(wave, lanes[half], S.bytes, LdsAccess::Read);
  }
}

template <Shape S, int Scale>
void write2(Wave& wave, const Instruction& instruction) {
  alignas(64) std::uint64_t first[kLanes], second[kLanes];
  std::uint64_t lanes[2];
  constexpr std::uint32_t kUnit = S.bytes * Scale;
  if (!lds_half(wave, instruction.offset0 * kUnit, S.bytes, LdsAccess::Write, first, lanes[0])) return;
  if (!lds_half(wave, instruction.offset1 * kUnit, S.bytes, LdsAccess::Write, second, lanes[1])) return;
  store_lanes<S>(first, lanes[0], false, wave.row(lds_data(instruction)));
  store_lanes<S>(second, lanes[1], false, wave.row(lds_data2(instruction)));
  count_lds(wave, lanes[0], S.bytes, LdsAccess::Write);
  count_lds(wave, lanes[1], S.bytes, LdsAccess::Write);
}

// M0 as an address: 16 bits name all of gfx942's 64 KiB; gfx950 has 160 KiB.
std::uint32_t m0_address(const Wave& wave) {
  return wave.scalar[sreg::kM0] & (wave.target == Target::Gfx950 ? 0x3ffff : 0xffff);
}

// Address: offset + M0[15:0] + lane * 4.
bool thread_addresses(Wave& wave, const Instruction& instruction, LdsAccess access, std::uint64_t* out) {
  std::uint32_t row[kLanes];
  const std::uint32_t base = wave.scalar[sreg::kM0] & 0xffff;
  for (int l = 0; l < kLanes; ++l) row[l] = base + static_cast<std::uint32_t>(l) * 4;
  return lds_lanes(wave, row, lds_offset(instruction), 4, access, out);
}

void read_addtid(Wave& wave, const Instruction& instruction) {
  alignas(64) std::uint64_t at[kLanes];
  if (!thread_addresses(wave, instruction, LdsAccess::Read, at)) return;
  load_lanes<Shape{4}>(at, wave.exec(), wave.exec() == kAllLanes, wave.row(instruction.destination[0]));
  count_lds(wave, wave.exec(), 4, LdsAccess::Read);
}

void write_addtid(Wave& wave, const Instruction& instruction) {
  alignas(64) std::uint64_t at[kLanes];
  if (!thread_addresses(wave, instruction, LdsAccess::Write, at)) return;
  store_lanes<Shape{4}>(at, wave.exec(), wave.exec() == kAllLanes, wave.row(lds_lone_data(instruction)));
  count_lds(wave, wave.exec(), 4, LdsAccess::Write);
}

// One counter for the whole wave, at M0 + offset: append adds the number of active lanes, consume takes it away; every
// active lane gets what was there before.
template <bool Append>
void count_lanes(Wave& wave, const Instruction& instruction) {
  const std::uint64_t active = wave.exec(), address = std::uint64_t{m0_address(wave)} + lds_offset(instruction);
  if (!active) return;
  if (!reach_lds(wave, std::countr_zero(active), address, 4, LdsAccess::Atomic)) return;
  const auto host = reinterpret_cast<std::uint64_t>(wave.group->lds) + address;
  const auto before = read_host<std::uint32_t>(host), number = static_cast<std::uint32_t>(std::popcount(active));
  write_host<std::uint32_t>(host, Append ? before + number : before - number);
  std::uint32_t* out = wave.row(instruction.destination[0]);
  for_lanes(active, [&](int l) { out[l] = before; });
  count_lds(wave, 1, 4, LdsAccess::Atomic);
}

void nothing(Wave&, const Instruction&) {}

const MemoryTable& table() {
  static const MemoryTable rows{
      {Opcode::DS_NOP, nothing},
      {Opcode::DS_READ_U8, read<Shape{1}>},
      {Opcode::DS_READ_I8, read<Shape{1, true}>},
      {Opcode::DS_READ_U16, read<Shape{2}>},
      {Opcode::DS_READ_I16, read<Shape{2, true}>},
      {Opcode::DS_READ_U8_D16, read<Shape{1, false, Half::Low}>},
      {Opcode::DS_READ_U8_D16_HI, read<Shape{1, false, Half::High}>},
      {Opcode::DS_READ_I8_D16, read<Shape{1, true, Half::Low}>},
      {Opcode::DS_READ_I8_D16_HI, read<Shape{1, true, Half::High}>},
      {Opcode::DS_READ_U16_D16, read<Shape{2, false, Half::Low}>},
      {Opcode::DS_READ_U16_D16_HI, read<Shape{2, false, Half::High}>},
      {Opcode::DS_READ_B32, read<Shape{4}>},
      {Opcode::DS_READ_B64, read<Shape{8}>},
      {Opcode::DS_READ_B96, read<Shape{12}>},
      {Opcode::DS_READ_B128, read<Shape{16}>},
      {Opcode::DS_READ2_B32, read2<Shape{4}, 1>},
      {Opcode::DS_READ2ST64_B32, read2<Shape{4}, 64>},
      {Opcode::DS_READ2_B64, read2<Shape{8}, 1>},
      {Opcode::DS_READ2ST64_B64, read2<Shape{8}, 64>},
      {Opcode::DS_WRITE_B8, write<Shape{1}>},
      {Opcode::DS_WRITE_B8_D16_HI, write<Shape{1, false, Half::High}>},
      {Opcode::DS_WRITE_B16, write<Shape{2}>},
      {Opcode::DS_WRITE_B16_D16_HI, write<Shape{2, false, Half::High}>},
      {Opcode::DS_WRITE_B32, write<Shape{4}>},
      {Opcode::DS_WRITE_B64, write<Shape{8}>},
      {Opcode::DS_WRITE_B96, write<Shape{12}>},
      {Opcode::DS_WRITE_B128, write<Shape{16}>},
      {Opcode::DS_WRITE2_B32, write2<Shape{4}, 1>},
      {Opcode::DS_WRITE2ST64_B32, write2<Shape{4}, 64>},
      {Opcode::DS_WRITE2_B64, write2<Shape{8}, 1>},
      {Opcode::DS_WRITE2ST64_B64, write2<Shape{8}, 64>},
      {Opcode::DS_READ_ADDTID_B32, read_addtid},
      {Opcode::DS_WRITE_ADDTID_B32, write_addtid},
      {Opcode::DS_APPEND, count_lanes<true>},
      {Opcode::DS_CONSUME, count_lanes<false>},
  };
  return rows;
}

}  // namespace

// Not here: ds_gws_* (global wave sync, a resource that the driver must hand out) and everything with the gds bit
// (neither target has global data share). They are unknown instructions.
bool bind_lds(Target target, Instruction& instruction) {
  if (instruction.gds) return false;
  if (target == Target::Gfx950 && bind_lds_transpose(instruction)) return true;
  return table().bind(instruction) || bind_lds_atomic(instruction) || bind_lds_cross(instruction);
}

}  // namespace apb::emu
