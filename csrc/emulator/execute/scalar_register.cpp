// Hardware registers: s_getreg, s_setreg, and the modes that change how later instructions are read.
#include "scalar.h"

namespace apb::emu {

namespace {

// Numbers of gfx9's hardware registers that a compute wave can see (HW_REG_* of AMD's ISA data).
enum : unsigned {
  RegMode = 1,
  RegStatus = 2,
  RegTrapStatus = 3,
  RegHardwareId = 4,
  RegLdsAlloc = 6,
  RegWaitStatus = 7,
  RegPcLow = 8,
  RegPcHigh = 9,
  RegMemoryBases = 15,
  RegTrapBaseLow = 16,
  RegTrapMemoryHigh = 19,
  RegXccId = 20,
};

constexpr u32 kModeIndexEnabled = 1u << 27, kModeSkipVector = 1u << 28,
              kModeReadDifferently = kModeIndexEnabled | kModeSkipVector;
// MODE's fields that exist: rounding, denormals, DX10_CLAMP, IEEE, LOD_CLAMPED, exception enables, FP16_OVFL and above.
constexpr u32 kModeMask = 0xff9ff7ff;
// TRAPSTS: sticky exceptions [8:0], address watch [14:12], cycle of the exception, DP_RATE.
constexpr u32 kTrapStatusMask = 0xf03f7dff;

void set_mode(Wave& wave, u32 bits) {
  if (((wave.mode.bits ^ bits) & kModeReadDifferently) != 0 && wave.stop == Stop::None) wave.stop = Stop::Mode;
  wave.mode.bits = bits;
}

u32 status(const Wave& wave) {
  const bool in_group = wave.group != nullptr && wave.group->waves > 1;
  u32 bits = wave.status & ~(1u | 1u << 9 | 1u << 10);
  bits |= wave.scc ? 1u : 0u;
  bits |= wave.exec() == 0 ? 1u << 9 : 0u;
  bits |= wave.vcc() == 0 ? 1u << 10 : 0u;
  bits |= in_group ? 1u << 11 : 0u;
  return bits | 1u << 16;  // VALID
}

// False: this library has no value for it.
bool hardware_register(const Wave& wave, unsigned number, u32& value) {
  switch (number) {
    case RegMode: value = wave.mode.bits; return true;
    case RegStatus: value = status(wave); return true;
    case RegTrapStatus: value = wave.trap_status; return true;
    case RegHardwareId: value = wave.hardware_id; return true;
    case RegXccId: value = wave.xcc_id; return true;
    case RegWaitStatus: value = 0; return true;  // no access is ever outstanding
    case RegPcLow: value = static_cast<u32>(wave.code_base + u64{wave.pc} * 4); return true;
    case RegPcHigh: value = static_cast<u32>((wave.code_base + u64{wave.pc} * 4) >> 32); return true;
    case RegLdsAlloc:  // [8:0] base, [20:12] size in units of 128 dwords
      value = wave.group == nullptr ? 0 : (wave.group->lds_bytes + 511) / 512 << 12;
      return true;
    case RegMemoryBases:  // bits [63:48] of the apertures: [15:0] private, [31:16] shared
      value = wave.group == nullptr
                  ? 0
                  : static_cast<u32>(wave.group->private_base >> 48 | wave.group->shared_base >> 48 << 16);
      return true;
    default: value = 0; return number >= RegTrapBaseLow && number <= RegTrapMemoryHigh;  // no trap handler is installed
  }
}

struct Field {
  unsigned number, offset, size;
  explicit Field(i32 immediate)
      : number(static_cast<unsigned>(immediate) & 63),
        offset(static_cast<unsigned>(immediate) >> 6 & 31),
        size((static_cast<unsigned>(immediate) >> 11 & 31) + 1) {}
  u32 mask() const { return static_cast<u32>((u64{1} << size) - 1); }
};

void get_register(Wave& wave, const Instruction& i) {
  const Field field(i.immediate);
  u32 value = 0;
  if (!hardware_register(wave, field.number, value)) {
    raise(wave, FaultKind::UnknownInstruction, -1, "hardware register %u has no value here", field.number);
    return;
  }
  write32(wave, i.destination[0], value >> field.offset & field.mask());
}

// Registers that a user program may not write ignore it (their write mask is empty).
void set_register(Wave& wave, i32 immediate, u32 source) {
  const Field field(immediate);
  u32 old = 0;
  if (!hardware_register(wave, field.number, old)) {
    raise(wave, FaultKind::UnknownInstruction, -1, "hardware register %u does not exist here", field.number);
    return;
  }
  const u32 mask = field.mask() << field.offset;
  const u32 value = source << field.offset;
  if (field.number == RegMode) set_mode(wave, (old & ~(mask & kModeMask)) | (value & mask & kModeMask));
  if (field.number == RegTrapStatus)
    wave.trap_status = (old & ~(mask & kTrapStatusMask)) | (value & mask & kTrapStatusMask);
}
void set_register_from(Wave& wave, const Instruction& i) { set_register(wave, i.immediate, read32(wave, i.source[0])); }
void set_register_literal(Wave& wave, const Instruction& i) { set_register(wave, i.immediate, i.source[0].low); }

// s_setvskip: one bit of a register decides whether vector and memory instructions are issued at all.
void skip_vector(Wave& wave, const Instruction& i) {
  const bool skip = (read32(wave, i.source[0]) >> (read32(wave, i.source[1]) & 31) & 1) != 0;
  set_mode(wave, (wave.mode.bits & ~kModeSkipVector) | (skip ? kModeSkipVector : 0u));
}

// M0[7:0] is the index, M0[15:12] says which operands of vector ALU instructions it is added to (src0, src1, src2, dst).
void index_on(Wave& wave, const Instruction& i) {
  u32& m0 = wave.scalar[sreg::kM0];
  const u32 index = read32(wave, i.source[0]) & 0xff;
  const u32 enabled = (i.source[1].kind == OperandKind::Sgpr ? i.source[1].index : i.source[1].low) &
                      15;  // the field itself, not what it names
  m0 = (m0 & ~0xf0ffu) | index | enabled << 12;
  set_mode(wave, wave.mode.bits | kModeIndexEnabled);
}
void index_off(Wave& wave, const Instruction&) { set_mode(wave, wave.mode.bits & ~kModeIndexEnabled); }
void index_index(Wave& wave, const Instruction& i) {
  wave.scalar[sreg::kM0] = (wave.scalar[sreg::kM0] & ~0xffu) | (read32(wave, i.source[0]) & 0xff);
}
void index_mode(Wave& wave, const Instruction& i) {
  wave.scalar[sreg::kM0] = (wave.scalar[sreg::kM0] & ~0xf000u) | (static_cast<u32>(i.immediate) & 15) << 12;
}

constexpr ScalarEntry kTable[] = {
    {Opcode::S_GETREG_B32, get_register},
    {Opcode::S_SETREG_B32, set_register_from},
    {Opcode::S_SETREG_IMM32_B32, set_register_literal},
    {Opcode::S_SETVSKIP, skip_vector},
    {Opcode::S_SET_GPR_IDX_ON, index_on},
    {Opcode::S_SET_GPR_IDX_OFF, index_off},
    {Opcode::S_SET_GPR_IDX_IDX, index_index},
    {Opcode::S_SET_GPR_IDX_MODE, index_mode},
};

}  // namespace

std::span<const ScalarEntry> scalar_register_table() { return kTable; }

}  // namespace apb::emu
