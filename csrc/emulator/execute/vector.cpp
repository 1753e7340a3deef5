// Handlers of the vector ALU: operands to rows, the lane function, its result into the active lanes.
#include "vector.h"

#include <vector>

#include "bind.h"
#include "operands.h"
#include "vector_source.h"

namespace apb::emu {
namespace {

bool is_float(Format format) {
  switch (format) {
    case Format::F16:
    case Format::F32:
    case Format::F64:
    case Format::Pk2F16:
    case Format::Pk2F32:
    case Format::PkF16: return true;
    default: return false;
  }
}

// AMD's data puts the select of v_cndmask, the carries of v_addc among the sources; they are masks, not rows.
bool is_mask_operand(const BoundVector& entry, const Instruction& instruction, int index) {
  return index == 2 && (entry.mask == Mask::Reads || entry.mask == Mask::ReadsWrites) &&
         instruction.source[2].format == Format::M64;
}

u64 mask_in(const Wave& wave, const BoundVector& entry, const Instruction& instruction) {
  if (is_mask_operand(entry, instruction, 2) && instruction.source[2].used())
    return read64(wave, instruction.source[2]);
  return wave.vcc();
}

// Lanes that EXEC (or DPP) leaves out get 0.
void write_mask(Wave& wave, const BoundVector& entry, const Instruction& instruction, u64 mask) {
  int index = sreg::kVcc;
  for (const Operand& operand : instruction.destination) {
    if (operand.kind == OperandKind::Sgpr) index = operand.index;
  }
  wave.set_pair(index, mask);
  if (entry.mask == Mask::WritesExec) wave.set_pair(sreg::kExec, mask);
}

bool writes_mask(Mask mask) { return mask == Mask::Writes || mask == Mask::ReadsWrites || mask == Mask::WritesExec; }

// MXCSR's rounding field while it lives. MODE: 0 even, 1 up, 2 down, 3 zero; x86: 0 even, 1 down, 2 up, 3 zero.
class Rounding {
 public:
  explicit Rounding(unsigned mode) {
    static constexpr unsigned kX86[4] = {0, 2, 1, 3};
    _mm_setcsr((saved_ & ~0x6000u) | kX86[mode] << 13);
  }
  ~Rounding() { _mm_setcsr(saved_); }
  Rounding(const Rounding&) = delete;
  Rounding& operator=(const Rounding&) = delete;

 private:
  unsigned saved_ = _mm_getcsr();
};

// f32 results round by one field of MODE, f64 and f16 by the other.
unsigned rounding_of(const Mode& mode, const Instruction& instruction) {
  const Format format = instruction.destination[0].format;
  return format == Format::F32 || format == Format::Pk2F32 ? mode.round_f32() : mode.round_f64();
}

void call_rounded(const Mode& mode, const Instruction& instruction, VectorFunction function, VectorCall& call) {
  const unsigned rounding = rounding_of(mode, instruction);
  if (rounding == 0) {
    function(call);
    return;
  }
  const Rounding scope(rounding);
  function(call);
}

// Everything: modifiers, SDWA, DPP, any MODE.
void general(Wave& wave, const Instruction& instruction) {
  const BoundVector& entry = *static_cast<const BoundVector*>(instruction.function);
  struct alignas(64) {
    WideRow source[4], out;
  } rows;
  VectorCall call{{}, rows.out, 0, 0, wave.mode, wave.target, &instruction};
  u64 writable = wave.exec();
  for (int i = 0; i < 3; ++i) {
    if (!instruction.source[i].used() || is_mask_operand(entry, instruction, i)) continue;
    call.source[i] = modified_source(wave, instruction, i, rows.source[i], writable);
  }
  const Operand& destination = instruction.destination[0];
  const bool has_row = destination.kind == OperandKind::Vgpr || destination.kind == OperandKind::Accvgpr;
  if (entry.reads_destination) {
    const int index = call.source[2] ? 3 : 2;
    call.source[index] = accumulator_row(wave, instruction, rows.source[index]);
  }
  if (entry.mask != Mask::None) call.mask_in = mask_in(wave, entry, instruction);
  call_rounded(wave.mode, instruction, entry.function, call);
  if (has_row) {
    modify_result(wave.mode, instruction, rows.out);
    write_result(wave, instruction, rows.out, writable);
  }
  if (writes_mask(entry.mask)) write_mask(wave, entry, instruction, call.mask_out & writable);
}

inline bool overlaps(const u32* out, int dwords, const Operand& operand, const u32* row) {
  return operand.kind == OperandKind::Vgpr && row < out + dwords * kLanes && out < row + operand.dwords * kLanes;
}

// Without modifiers. `sensitive`: bits of MODE that must be the usual ones.
template <unsigned Sensitive, bool Masks>
void fast(Wave& wave, const Instruction& instruction) {
  if constexpr (Sensitive != 0) {
    if ((wave.mode.bits ^ Mode{}.bits) & Sensitive) [[unlikely]]
      return general(wave, instruction);
  }
  const BoundVector& entry = *static_cast<const BoundVector*>(instruction.function);
  alignas(64) u32 buffer[3][4 * kLanes];
  alignas(64) u32 spare[4 * kLanes];
  VectorCall call;
  call.mode = wave.mode;
  call.target = wave.target;
  call.instruction = &instruction;
  const Operand& destination = instruction.destination[0];
  const bool has_row = !Masks || destination.kind == OperandKind::Vgpr;
  const int dwords = destination.dwords;
  u32* const row = has_row ? wave.row(destination) : nullptr;
  const u64 exec = wave.exec();
  bool direct = has_row && !entry.keeps_high && exec == ~u64{0};
  for (int i = 0; i < 3; ++i) {
    const Operand& operand = instruction.source[i];
    call.source[i] = nullptr;
    if (operand.kind == OperandKind::None || (Masks && is_mask_operand(entry, instruction, i))) continue;
    call.source[i] = fetch(wave, operand, buffer[i]);
    if (has_row && overlaps(row, dwords, operand, call.source[i])) direct = false;
  }
  if (entry.reads_destination) {
    call.source[call.source[2] ? 3 : 2] = row;
    direct = false;
  }
  call.out = direct ? row : spare;
  if constexpr (Masks) call.mask_in = mask_in(wave, entry, instruction);
  entry.function(call);
  if (entry.keeps_high)
    write_result(wave, instruction, spare, exec);
  else if (has_row && !direct)
    write_rows(row, spare, dwords, exec);
  if constexpr (Masks) {
    if (writes_mask(entry.mask)) write_mask(wave, entry, instruction, call.mask_out & exec);
  }
}

void nothing(Wave&, const Instruction&) {}

void swap(Wave& wave, const Instruction& instruction) {
  u32 *a = wave.row(instruction.destination[0]), *b = wave.row(instruction.source[0]);
  alignas(64) u32 taken[kLanes];
  spread(wave.exec(), taken);
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 differ = (a[lane] ^ b[lane]) & taken[lane];
    a[lane] ^= differ;
    b[lane] ^= differ;
  }
}

constexpr std::size_t kOpcodeCount = static_cast<std::size_t>(Opcode::Count);

void set_exceptions(std::vector<BoundVector>& table) {
  const auto at = [&](Opcode opcode) -> BoundVector& { return table[static_cast<std::size_t>(opcode)]; };
  // These look at bits, not at numbers: MODE's denormal bits do not concern them.
  for (const Opcode opcode : {Opcode::V_CMP_CLASS_F16, Opcode::V_CMP_CLASS_F32, Opcode::V_CMP_CLASS_F64,
                              Opcode::V_CMPX_CLASS_F16, Opcode::V_CMPX_CLASS_F32, Opcode::V_CMPX_CLASS_F64}) {
    at(opcode).flushes_sources = false;
    at(opcode).integer_sources = 2;
  }
  for (const Opcode opcode : {Opcode::V_FREXP_EXP_I16_F16, Opcode::V_FREXP_EXP_I32_F32, Opcode::V_FREXP_EXP_I32_F64,
                              Opcode::V_FREXP_MANT_F16, Opcode::V_FREXP_MANT_F32, Opcode::V_FREXP_MANT_F64}) {
    at(opcode).flushes_sources = at(opcode).flushes_result = false;
  }
  for (const Opcode opcode :
       {Opcode::V_LDEXP_F16, Opcode::V_LDEXP_F32, Opcode::V_LDEXP_F64, Opcode::V_TRIG_PREOP_F64}) {
    at(opcode).integer_sources = 2;
  }
  // f16 or f32 by a bit of the instruction, whatever the operand's format says.
  for (const Opcode opcode : {Opcode::V_MAD_MIX_F32, Opcode::V_MAD_MIXLO_F16, Opcode::V_MAD_MIXHI_F16})
    at(opcode).flushes_sources = false;
  // Their truth table lies in the bits of the modifiers.
  for (const Opcode opcode : {Opcode::V_BITOP3_B16, Opcode::V_BITOP3_B32}) at(opcode).integer_sources = 7;
}

const std::vector<BoundVector>& table() {
  static const std::vector<BoundVector> all = [] {
    std::vector<BoundVector> entries(kOpcodeCount);
    const auto add = [&](std::span<const VectorEntry> part, bool flushes, bool own_modifiers) {
      for (const VectorEntry& entry : part) {
        BoundVector& slot = entries[static_cast<std::size_t>(entry.opcode)];
        slot.function = entry.function;
        slot.mask = entry.mask;
        slot.reads_destination = entry.reads_destination;
        slot.keeps_high = entry.keeps_high;
        slot.flushes_sources = slot.flushes_result = flushes;
        slot.own_modifiers = own_modifiers;
      }
    };
    add(vector_float_table(), true, false);
    add(vector_integer_table(), false, false);
    add(vector_compare_table(), true, false);
    add(vector_convert_table(), true, false);
    add(vector_packed_table(), true, true);
    set_exceptions(entries);
    return entries;
  }();
  return all;
}

bool is_plain(const BoundVector& entry, const Instruction& instruction) {
  if (instruction.variant != Variant::Plain) return false;
  if (instruction.clamp && is_float(instruction.destination[0].format)) return false;
  for (const Operand& operand : instruction.source) {
    if (operand.dwords > 4) return false;
  }
  if (instruction.destination[0].dwords > 4) return false;
  if (entry.own_modifiers) return true;
  if (entry.integer_sources == 7) return !instruction.opsel;  // v_bitop3: no modifiers but its table in their place
  const unsigned opsel =
      entry.keeps_high ? instruction.opsel & 7u : instruction.opsel;  // which half it keeps is no hindrance
  return !instruction.abs && !instruction.neg && !opsel && !instruction.omod;
}

// Bits of MODE (rounding and denormals) that the instruction's arithmetic depends on.
unsigned sensitive_bits(const BoundVector& entry, const Instruction& instruction) {
  unsigned bits = 0;
  if (!entry.flushes_sources && !entry.flushes_result) return 0;
  const auto add = [&](const Operand& operand) {
    if (!operand.used() || !is_float(operand.format)) return;
    bits |= operand.format == Format::F32 || operand.format == Format::Pk2F32 ? 0x33 : 0xcc;
  };
  for (const Operand& operand : instruction.source) add(operand);
  add(instruction.destination[0]);
  return bits;
}

template <bool Masks>
Handler fast_handler(unsigned bits) {
  switch (bits) {
    case 0: return fast<0, Masks>;
    case 0x33: return fast<0x33, Masks>;
    case 0xcc: return fast<0xcc, Masks>;
    default: return fast<0xff, Masks>;
  }
}

}  // namespace

const u32* fetch(const Wave& wave, const Operand& operand, u32* buffer) {
  if (operand.kind == OperandKind::Vgpr || operand.kind == OperandKind::Accvgpr) [[likely]]
    return wave.row(operand);
  const int dwords = operand.dwords ? operand.dwords : 1;
  for (int d = 0; d < dwords; ++d) {
    u32 value;
    if (operand.kind == OperandKind::Sgpr)
      value = wave.scalar[operand.index + d];
    else if (d < 2)
      value = static_cast<u32>(read64(wave, operand) >> d * 32);
    else
      value = operand.high;
    u32* const row = buffer + d * kLanes;
    for (int lane = 0; lane < kLanes; ++lane) row[lane] = value;
  }
  return buffer;
}

bool bind_vector(Target, Instruction& instruction) {
  if (instruction.opcode == Opcode::V_NOP || instruction.opcode == Opcode::V_CLREXCP) {
    instruction.execute = nothing;
    return true;
  }
  if (instruction.opcode == Opcode::V_SWAP_B32) {
    instruction.execute = swap;
    return instruction.source[0].kind == OperandKind::Vgpr && instruction.variant == Variant::Plain;
  }
  const BoundVector& entry = table()[static_cast<std::size_t>(instruction.opcode)];
  if (!entry.function) return false;
  instruction.function = &entry;
  if (!is_plain(entry, instruction)) {
    instruction.execute = general;
    return true;
  }
  const unsigned bits = sensitive_bits(entry, instruction);
  instruction.execute = entry.mask == Mask::None ? fast_handler<false>(bits) : fast_handler<true>(bits);
  return true;
}

}  // namespace apb::emu
