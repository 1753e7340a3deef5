#include "vector_source.h"

#include "operands.h"

namespace apb::emu {
namespace {

const BoundVector& bound(const Instruction& instruction) {
  return *static_cast<const BoundVector*>(instruction.function);
}

// The lane that a lane reads from; -1: no such lane. Numbers of DPP_CTRL on gfx9; row_newbcast since gfx90a.
constexpr int dpp_lane(int control, int lane) {
  const int row = lane & ~15, place = lane & 15, count = control & 15;
  if (control < 0x100) return (lane & ~3) | (control >> (lane & 3) * 2 & 3);  // quad_perm
  if (control <= 0x10f) return place + count < 16 ? lane + count : -1;        // row_shl
  if (control <= 0x11f) return place >= count ? lane - count : -1;            // row_shr
  if (control <= 0x12f) return row | ((place - count) & 15);                  // row_ror
  if (control == 0x130) return lane < 63 ? lane + 1 : -1;                     // wave_shl:1
  if (control == 0x134) return (lane + 1) & 63;                               // wave_rol:1
  if (control == 0x138) return lane - 1;                                      // wave_shr:1
  if (control == 0x13c) return (lane - 1) & 63;                               // wave_ror:1
  if (control == 0x140) return row | (15 - place);                            // row_mirror
  if (control == 0x141) return (lane & ~7) | (7 - (lane & 7));                // row_half_mirror
  if (control == 0x142) return row - 1;                                       // row_bcast:15, not into row 0
  if (control == 0x143) return lane >= 32 ? 31 : -1;                          // row_bcast:31, into rows 2 and 3
  return row | count;                                                         // row_newbcast
}

struct DppLanes {
  u8 from[kLanes];
  u64 exist;
};
const DppLanes& dpp_lanes(int control) {
  static const auto* const all = [] {
    auto* table = new DppLanes[512]{};
    for (int i = 0; i < 512 * kLanes; ++i) {
      const int lane = i % kLanes, from = dpp_lane(i / kLanes, lane);
      table[i / kLanes].from[lane] = static_cast<u8>(from < 0 ? lane : from);
      table[i / kLanes].exist |= static_cast<u64>(from >= 0) << lane;
    }
    return table;
  }();
  return all[control & 511];
}

// Bits of the lanes that row_mask and bank_mask (groups of four in every row) leave in.
u64 dpp_selected(const Dpp& dpp) {
  if (dpp.row_mask == 15 && dpp.bank_mask == 15) return ~u64{0};
  u64 row = 0, result = 0;
  for (int bank = 0; bank < 4; ++bank) row |= dpp.bank_mask >> bank & 1 ? u64{15} << bank * 4 : 0;
  for (int i = 0; i < 4; ++i) result |= dpp.row_mask >> i & 1 ? row << i * 16 : 0;
  return result;
}

// gfx9: a source lane that does not exist or is disabled in EXEC is invalid. Lanes that would read one keep their
// destination, or read 0 with bound_ctrl. Rows and banks that the masks leave out keep theirs too.
u64 gather(const Dpp& dpp, u64 exec, const u32* row, u32* buffer, int dwords) {
  const DppLanes& source = dpp_lanes(dpp.control);
  u64 valid = source.exist;
  if (exec != ~u64{0}) {
    u64 enabled = 0;
    for (int lane = 0; lane < kLanes; ++lane) enabled |= (exec >> source.from[lane] & 1) << lane;
    valid &= enabled;
  }
  for (int d = 0; d < dwords; ++d) {
    for (int lane = 0; lane < kLanes; ++lane) buffer[d * kLanes + lane] = row[d * kLanes + source.from[lane]];
  }
  if (valid != ~u64{0} && dpp.bound_control) {
    alignas(64) u32 taken[kLanes];
    spread(valid, taken);
    for (int i = 0; i < dwords * kLanes; ++i) buffer[i] &= taken[i % kLanes];
  }
  return dpp_selected(dpp) & (dpp.bound_control ? ~u64{0} : valid);
}

void select_sub_dword(Select select, bool sign_extend, u32* row) {
  const bool is_byte = select <= Select::Byte3;
  if (select == Select::Dword) return;
  const int shift = is_byte ? static_cast<int>(select) * 8 : select == Select::Word1 ? 16 : 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 part = row[lane] >> shift;
    if (is_byte)
      row[lane] = sign_extend ? static_cast<u32>(static_cast<i32>(static_cast<i8>(part))) : part & 0xff;
    else
      row[lane] = sign_extend ? static_cast<u32>(static_cast<i32>(static_cast<i16>(part))) : part & 0xffff;
  }
}

// Sign bit of the operand's format; 32-bit moves and selects take f32 modifiers (LLVM: FP32 source modifiers of v_cndmask_b32).
void change_sign(Format format, int dwords, bool absolute, bool negate, u32* row) {
  u32 sign = 0x80000000;
  if (is_16_bit(format))
    sign = 0x8000;
  else if (dwords == 2)
    row += kLanes;
  const u32 keep = absolute ? ~sign : ~0u, flip = negate ? sign : 0;
  for (int lane = 0; lane < kLanes; ++lane) row[lane] = (row[lane] & keep) ^ flip;
}

inline u32 flushed_f32(u32 bits) { return bits & 0x7f800000 ? bits : bits & 0x80000000; }
inline u32 flushed_f16(u32 bits) {  // both halves; a half that is not there is zero anyway
  const u32 low = bits & 0x7c00 ? 0xffff : 0x8000, high = bits & 0x7c000000 ? 0xffff0000 : 0x80000000;
  return bits & (low | high);
}

enum class Kind { Other, F16, PackedF16, F32, F64 };
Kind kind_of(Format format) {
  switch (format) {
    case Format::F16: return Kind::F16;
    case Format::Pk2F16:
    case Format::PkF16: return Kind::PackedF16;
    case Format::F32:
    case Format::Pk2F32: return Kind::F32;
    case Format::F64: return Kind::F64;
    default: return Kind::Other;
  }
}

// `allowed`: bits of MODE for inputs or for outputs, f32 and (f64, f16).
void flush_denormals(Format format, int dwords, bool keep_f32, bool keep_f64, u32* row) {
  const Kind kind = kind_of(format);
  if (kind == Kind::F32 && !keep_f32) {
    for (int i = 0; i < dwords * kLanes; ++i) row[i] = flushed_f32(row[i]);
  } else if ((kind == Kind::F16 || kind == Kind::PackedF16) && !keep_f64) {
    for (int i = 0; i < dwords * kLanes; ++i) row[i] = flushed_f16(row[i]);
  } else if (kind == Kind::F64 && !keep_f64) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const bool normal = row[kLanes + lane] & 0x7ff00000;
      row[lane] = normal ? row[lane] : 0;
      row[kLanes + lane] &= normal ? ~0u : 0x80000000;
    }
  }
}

// NaN becomes 0 with DX10_CLAMP and stays without; -0 becomes +0.
template <class Value>
Value clamped(Value value, bool nan_to_zero) {
  if (value != value) return nan_to_zero ? Value{0} : value;
  return value > 0 ? value < 1 ? value : Value{1} : Value{0};
}
u32 clamped_f16(u32 bits, bool nan_to_zero) {
  const u32 size = bits & 0x7fff;
  if (size > 0x7c00) return nan_to_zero ? 0 : bits;
  if (bits & 0x8000) return 0;
  return size > 0x3c00 ? 0x3c00 : bits;
}

void clamp_row(Format format, int dwords, bool nan_to_zero, u32* row) {
  switch (kind_of(format)) {
    case Kind::F16:
      for (int lane = 0; lane < kLanes; ++lane) row[lane] = clamped_f16(row[lane] & 0xffff, nan_to_zero);
      break;
    case Kind::PackedF16:
      for (int lane = 0; lane < kLanes; ++lane)
        row[lane] = clamped_f16(row[lane] & 0xffff, nan_to_zero) | clamped_f16(row[lane] >> 16, nan_to_zero) << 16;
      break;
    case Kind::F32:
      for (int i = 0; i < dwords * kLanes; ++i) row[i] = bits_of(clamped(as_f32(row[i]), nan_to_zero));
      break;
    case Kind::F64:
      for (int lane = 0; lane < kLanes; ++lane)
        put64(row, lane, bits_of(clamped(as_f64(get64(row, lane)), nan_to_zero)));
      break;
    case Kind::Other: break;
  }
}

// AMD's CDNA3 ISA, output modifiers: they apply only while output denormals are off and IEEE mode is off; denormals and -0
// become +0.
void scale_result(const Mode& mode, Format format, unsigned omod, u32* row) {
  const Kind kind = kind_of(format);
  const bool denormals = (kind == Kind::F32 ? mode.denorm_f32() : mode.denorm_f64()) & 2;
  if (denormals || mode.ieee()) return;
  const float factor = omod == 1 ? 2.0f : omod == 2 ? 4.0f : 0.5f;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (kind == Kind::F32) {
      const u32 bits = flushed_f32(bits_of(as_f32(row[lane]) * factor));
      row[lane] = bits == 0x80000000 ? 0 : bits;
    } else if (kind == Kind::F16) {
      const u32 bits = flushed_f16(f32_to_f16(f16_to_f32(row[lane] & 0xffff) * factor));
      row[lane] = bits == 0x8000 ? 0 : bits;
    } else if (kind == Kind::F64) {
      const u64 bits = bits_of(as_f64(get64(row, lane)) * static_cast<double>(factor));
      put64(row, lane, bits & 0x7ff0000000000000 ? bits : 0);
    }
  }
}

// Merges the selected part of the destination.
void write_sdwa(const Sdwa& sdwa, u32* destination, const u32* out, u64 writable) {
  const Select select = sdwa.destination;
  const bool is_byte = select <= Select::Byte3;
  const int width = is_byte ? 8 : 16, shift = is_byte ? static_cast<int>(select) * 8 : select == Select::Word1 ? 16 : 0;
  const u32 field = ((1u << width) - 1) << shift;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(writable >> lane & 1)) continue;
    u32 value = out[lane] << shift & field;
    if (sdwa.unused == 2) value |= destination[lane] & ~field;
    if (sdwa.unused == 1 && value >> (shift + width - 1) & 1) value |= ~(field | ((1u << shift) - 1));
    destination[lane] = value;
  }
}

}  // namespace

const u32* modified_source(const Wave& wave, const Instruction& instruction, int index, u32* buffer, u64& writable) {
  const BoundVector& entry = bound(instruction);
  const Operand& operand = instruction.source[index];
  const int dwords = operand.dwords;
  const u32* row = fetch(wave, operand, buffer);
  const auto own = [&] {
    if (row != buffer) std::memcpy(buffer, row, static_cast<std::size_t>(dwords) * kRowBytes);
    row = buffer;
  };
  if (instruction.variant == Variant::Dpp && index == 0) {
    writable &= gather(instruction.dpp, wave.exec(), row, buffer, dwords);
    row = buffer;
  }
  if (instruction.variant == Variant::Sdwa && index < 2) {
    own();
    select_sub_dword(instruction.sdwa.source[index], instruction.sdwa.sign_extend[index], buffer);
  }
  const bool is_integer = entry.integer_sources >> index & 1;
  if (!entry.own_modifiers) {
    if (instruction.opsel >> index & 1 && is_16_bit(operand.format)) {
      own();
      for (int lane = 0; lane < kLanes; ++lane) buffer[lane] >>= 16;
    }
    const bool absolute = instruction.abs >> index & 1, negate = instruction.neg >> index & 1;
    if ((absolute || negate) && !is_integer) {
      own();
      change_sign(operand.format, dwords, absolute, negate, buffer);
    }
  }
  const bool keep_f32 = wave.mode.denorm_f32() & 1, keep_f64 = wave.mode.denorm_f64() & 1;
  if (entry.flushes_sources && !is_integer && !(keep_f32 && keep_f64)) {
    own();
    flush_denormals(operand.format, dwords, keep_f32, keep_f64, buffer);
  }
  return row;
}

const u32* accumulator_row(const Wave& wave, const Instruction& instruction, u32* buffer) {
  const Operand& operand = instruction.destination[0];
  const u32* row = wave.row(operand);
  const bool keep_f32 = wave.mode.denorm_f32() & 1, keep_f64 = wave.mode.denorm_f64() & 1;
  if (!bound(instruction).flushes_sources || (keep_f32 && keep_f64)) return row;
  std::memcpy(buffer, row, static_cast<std::size_t>(operand.dwords) * kRowBytes);
  flush_denormals(operand.format, operand.dwords, keep_f32, keep_f64, buffer);
  return buffer;
}

void modify_result(const Mode& mode, const Instruction& instruction, u32* out) {
  const BoundVector& entry = bound(instruction);
  const Operand& destination = instruction.destination[0];
  if (instruction.omod && !entry.own_modifiers) scale_result(mode, destination.format, instruction.omod, out);
  if (entry.flushes_result)
    flush_denormals(destination.format, destination.dwords, mode.denorm_f32() & 2, mode.denorm_f64() & 2, out);
  if (instruction.clamp) clamp_row(destination.format, destination.dwords, mode.dx10_clamp(), out);
}

void write_rows(u32* destination, const u32* out, int dwords, u64 writable) {
  if (writable == ~u64{0}) {
    std::memcpy(destination, out, static_cast<std::size_t>(dwords) * kRowBytes);
    return;
  }
  alignas(64) u32 taken[kLanes];
  spread(writable, taken);
  for (int d = 0; d < dwords; ++d, destination += kLanes, out += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) destination[lane] ^= (destination[lane] ^ out[lane]) & taken[lane];
  }
}

void write_result(Wave& wave, const Instruction& instruction, const u32* out, u64 writable) {
  const BoundVector& entry = bound(instruction);
  const Operand& operand = instruction.destination[0];
  u32* const destination = wave.row(operand);
  if (instruction.variant == Variant::Sdwa && instruction.sdwa.destination != Select::Dword) {
    write_sdwa(instruction.sdwa, destination, out, writable);
    return;
  }
  const bool halves = entry.keeps_high || is_16_bit(operand.format);
  const bool high =
      entry.own_modifiers ? instruction.opcode == Opcode::V_MAD_MIXHI_F16 : halves && instruction.opsel >> 3 & 1;
  if (!high && !entry.keeps_high) {
    write_rows(destination, out, operand.dwords, writable);
    return;
  }
  alignas(64) u32 merged[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    merged[lane] =
        high ? (destination[lane] & 0xffff) | out[lane] << 16 : (destination[lane] & 0xffff0000) | (out[lane] & 0xffff);
  }
  write_rows(destination, merged, 1, writable);
}

}  // namespace apb::emu
