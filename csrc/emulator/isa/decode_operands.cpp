// Operands, and the modifiers of vector instructions.
#include "constants.h"
#include "decoder.h"

namespace apb::emu::tables {

Operand& Decoder::slot(Slot which) {
  switch (which) {
    case Slot::d0: return i_.destination[0];
    case Slot::d1: return i_.destination[1];
    case Slot::s0: return i_.source[0];
    case Slot::s1: return i_.source[1];
    case Slot::s2: return i_.source[2];
    case Slot::s3: return i_.source[3];
    case Slot::x0: return i_.scale[0];
    case Slot::x1: break;
  }
  return i_.scale[1];
}

void Decoder::scalar(std::uint32_t raw, Operand& out) const {
  out.kind = OperandKind::sgpr;
  out.index = static_cast<std::uint16_t>(raw);
}

// Anything that a source field of 8 or 9 bits may name. `out` has its format and size already.
bool Decoder::source(std::uint32_t raw, Operand& out) {
  if (raw >= marker::vgpr) {
    out.kind = OperandKind::vgpr;
    out.index = static_cast<std::uint16_t>(raw - marker::vgpr);
    return true;
  }
  out.index = static_cast<std::uint16_t>(raw);
  if (raw < 128) {
    out.kind = OperandKind::sgpr;
    return raw != 125;  // the null register of later chips
  }
  if (raw == marker::literal) {
    if (!literal_ && size_ >= code_.size()) return false;
    if (!literal_) ++size_;
    literal_ = true;
    out.kind = OperandKind::constant;
    set_literal(code_[size_ - 1], out);
    return true;
  }
  if (set_inline_constant(raw, out)) {
    out.kind = OperandKind::constant;
    return true;
  }
  out.kind = OperandKind::special;
  return (raw >= 235 && raw <= 239) || (raw >= 251 && raw <= 254);
}

bool Decoder::operand(const OperandRow& row, std::uint32_t raw, Operand& out) {
  out.dwords = row.dwords;
  out.format = row.format;
  switch (row.type) {
    case OperandType::vgpr:
    case OperandType::vgpr_or_accvgpr:
    case OperandType::accvgpr:
      out.kind = row.type == OperandType::accvgpr || (row.type == OperandType::vgpr_or_accvgpr && accumulators_)
                     ? OperandKind::accvgpr
                     : OperandKind::vgpr;
      out.index = static_cast<std::uint16_t>(raw);
      return true;
    case OperandType::sdst:
    case OperandType::sreg:
    case OperandType::sreg_novcc:
      // An address names pairs of registers in 6 bits, a resource groups of four in 5.
      scalar(row.width == 6 ? raw * 2 : row.width == 5 ? raw * 4 : raw, out);
      return out.index < 128 && out.index != 125;
    case OperandType::simm4:
    case OperandType::simm8:
      out.kind = OperandKind::constant;
      out.low = raw;
      i_.immediate = static_cast<std::int32_t>(raw);
      return true;
    case OperandType::src_accvgpr:
      if (!source(raw, out) || out.kind != OperandKind::vgpr) return false;
      out.kind = OperandKind::accvgpr;
      return true;
    case OperandType::src_vgpr: return source(raw, out) && out.kind == OperandKind::vgpr;
    case OperandType::simm32: return source(marker::literal, out);
    default: return source(raw, out);
  }
}

// SDWA and DPP put the real first source into a second dword.
void Decoder::variant() {
  const bool short_form =
      row_.encoding == Encoding::vop1 || row_.encoding == Encoding::vop2 || row_.encoding == Encoding::vopc;
  if (!short_form || code_.size() < 2) return;
  const std::uint32_t src0 = get(vop2::src0);
  if (src0 == marker::sdwa)
    i_.variant = Variant::sdwa;
  else if (src0 == marker::dpp)
    i_.variant = Variant::dpp;
  else
    return;
  size_ = 2;
}

bool Decoder::sdwa_source(Field scalar_bit, Operand& out) {
  if (!flag(scalar_bit)) return true;
  return source(out.index, out) && out.kind != OperandKind::vgpr && out.index != marker::literal;
}

bool Decoder::sdwa_modifiers() {
  const bool compares = row_.encoding == Encoding::vopc;
  i_.sdwa.source = {static_cast<Select>(get(sdwa::src0_sel)), static_cast<Select>(get(sdwa::src1_sel))};
  i_.sdwa.sign_extend = {flag(sdwa::src0_sext), flag(sdwa::src1_sext)};
  i_.neg = static_cast<std::uint8_t>(get(sdwa::src0_neg) | get(sdwa::src1_neg) << 1);
  i_.abs = static_cast<std::uint8_t>(get(sdwa::src0_abs) | get(sdwa::src1_abs) << 1);
  if (compares) {
    if (flag(sdwa_sdst::sd)) scalar(get(sdwa_sdst::sdst), i_.destination[0]);
  } else {
    i_.sdwa.destination = static_cast<Select>(get(sdwa::dst_sel));
    i_.sdwa.unused = static_cast<std::uint8_t>(get(sdwa::dst_unused));
    i_.omod = static_cast<std::uint8_t>(get(sdwa::omod));
    i_.clamp = flag(sdwa::clmp);
  }
  if (i_.sdwa.source[0] > Select::dword || i_.sdwa.source[1] > Select::dword || i_.sdwa.destination > Select::dword)
    return false;
  if (i_.sdwa.unused > 2 || !sdwa_source(sdwa::s0, i_.source[0])) return false;
  return row_.encoding == Encoding::vop1 || sdwa_source(sdwa::s1, i_.source[1]);
}

void Decoder::dpp_modifiers() {
  i_.dpp.control = static_cast<std::uint16_t>(get(dpp::dpp));
  i_.dpp.row_mask = static_cast<std::uint8_t>(get(dpp::row_mask));
  i_.dpp.bank_mask = static_cast<std::uint8_t>(get(dpp::bank_mask));
  i_.dpp.bound_control = flag(dpp::bc);
  i_.neg = static_cast<std::uint8_t>(get(dpp::src0_neg) | get(dpp::src1_neg) << 1);
  i_.abs = static_cast<std::uint8_t>(get(dpp::src0_abs) | get(dpp::src1_abs) << 1);
}

void Decoder::modifiers() {
  switch (row_.encoding) {
    case Encoding::vop3:
      i_.abs = static_cast<std::uint8_t>(get(vop3::abs));
      i_.opsel = static_cast<std::uint8_t>(get(vop3::opsel));
      [[fallthrough]];
    case Encoding::vop3sd:
      i_.neg = static_cast<std::uint8_t>(get(vop3::neg));
      i_.omod = static_cast<std::uint8_t>(get(vop3::omod));
      i_.clamp = flag(vop3::clmp);
      break;
    case Encoding::vop3p:
      i_.neg = static_cast<std::uint8_t>(get(vop3p::neg));
      i_.neg_hi = static_cast<std::uint8_t>(get(vop3p::neg_hi));
      i_.opsel = static_cast<std::uint8_t>(get(vop3p::opsel));
      i_.opsel_hi = static_cast<std::uint8_t>(get(vop3p::opsel_hi) | get(vop3p::opsel_hi2) << 2);
      i_.clamp = flag(vop3p::clmp);
      mixed_constants();
      break;
    case Encoding::sopk:
    case Encoding::sopp: i_.immediate = static_cast<std::int16_t>(get(sopp::simm16)); break;
    default: break;
  }
}

// v_fma_mix* reads each source as f32 or, where its op_sel_hi bit is set, as f16: an inline constant follows its source.
void Decoder::mixed_constants() {
  if (i_.opcode != Opcode::V_MAD_MIX_F32 && i_.opcode != Opcode::V_MAD_MIXLO_F16 &&
      i_.opcode != Opcode::V_MAD_MIXHI_F16)
    return;
  for (unsigned k = 0; k < 3; ++k) {
    Operand& source = i_.source[k];
    if (source.kind != OperandKind::constant || (i_.opsel_hi >> k & 1) == 0) continue;
    source.format = Format::f16;
    set_inline_constant(source.index, source);
  }
}

bool Decoder::run() {
  i_.opcode = row_.opcode;
  i_.encoding = row_.encoding;
  i_.category = row_.category;
  variant();
  switch (row_.encoding) {
    case Encoding::ds: accumulators_ = flag(ds::acc); break;
    case Encoding::flat:
    case Encoding::global:
    case Encoding::scratch: accumulators_ = flag(flat::acc); break;
    case Encoding::mubuf:
    case Encoding::mtbuf: accumulators_ = flag(mubuf::acc); break;
    default: break;
  }
  if (row_.encoding == Encoding::vopc) i_.destination[0] = {OperandKind::sgpr, 2, 106, Format::m64};
  for (unsigned k = 0; k < row_.operands; ++k) {
    const OperandRow& row = operand_rows[row_.first + k];
    if (row.type == OperandType::smem_offset) continue;
    std::uint32_t raw = get({row.low, row.width});
    if (i_.variant != Variant::plain && row.slot == Slot::s0) raw = marker::vgpr + get(sdwa::vsrc0);
    if (row.type == OperandType::simm32 && i_.variant != Variant::plain) return false;  // two uses of the same dword
    if (!operand(row, raw, slot(row.slot))) return false;
  }
  if (i_.variant == Variant::sdwa && !sdwa_modifiers()) return false;
  if (i_.variant == Variant::dpp) dpp_modifiers();
  switch (row_.encoding) {
    case Encoding::vop3p_mfma:
    case Encoding::vop3px2: matrix(); break;
    case Encoding::smem:
      if (!scalar_memory()) return false;
      break;
    case Encoding::ds: local(); break;
    case Encoding::flat:
    case Encoding::global:
    case Encoding::scratch: flat_memory(); break;
    case Encoding::mubuf:
    case Encoding::mtbuf: buffer(); break;
    default: modifiers();
  }
  i_.dwords = static_cast<std::uint8_t>(size_);
  return true;
}

}  // namespace apb::emu::tables
