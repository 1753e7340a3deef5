// Operands, and the modifiers of vector instructions.
#include "constants.h"
#include "decoder.h"

namespace apb::emu::tables {

Operand& Decoder::slot(Slot which) {
  switch (which) {
    case Slot::D0: return i_.destination[0];
    case Slot::D1: return i_.destination[1];
    case Slot::S0: return i_.source[0];
    case Slot::S1: return i_.source[1];
    case Slot::S2: return i_.source[2];
    case Slot::S3: return i_.source[3];
    case Slot::X0: return i_.scale[0];
    case Slot::X1: break;
  }
  return i_.scale[1];
}

void Decoder::scalar(std::uint32_t raw, Operand& out) const {
  out.kind = OperandKind::Sgpr;
  out.index = static_cast<std::uint16_t>(raw);
}

// Anything that a source field of 8 or 9 bits may name. `out` has its format and size already.
bool Decoder::source(std::uint32_t raw, Operand& out) {
  if (raw >= marker::kVgpr) {
    out.kind = OperandKind::Vgpr;
    out.index = static_cast<std::uint16_t>(raw - marker::kVgpr);
    return true;
  }
  out.index = static_cast<std::uint16_t>(raw);
  if (raw < 128) {
    out.kind = OperandKind::Sgpr;
    return raw != 125;  // the null register of later chips
  }
  if (raw == marker::kLiteral) {
    if (!literal_ && size_ >= code_.size()) return false;
    if (!literal_) ++size_;
    literal_ = true;
    out.kind = OperandKind::Constant;
    set_literal(code_[size_ - 1], out);
    return true;
  }
  if (set_inline_constant(raw, out)) {
    out.kind = OperandKind::Constant;
    return true;
  }
  out.kind = OperandKind::Special;
  return (raw >= 235 && raw <= 239) || (raw >= 251 && raw <= 254);
}

bool Decoder::operand(const OperandRow& row, std::uint32_t raw, Operand& out) {
  out.dwords = row.dwords;
  out.format = row.format;
  switch (row.type) {
    case OperandType::Vgpr:
    case OperandType::VgprOrAccvgpr:
    case OperandType::Accvgpr:
      out.kind = row.type == OperandType::Accvgpr || (row.type == OperandType::VgprOrAccvgpr && accumulators_)
                     ? OperandKind::Accvgpr
                     : OperandKind::Vgpr;
      out.index = static_cast<std::uint16_t>(raw);
      return true;
    case OperandType::Sdst:
    case OperandType::Sreg:
    case OperandType::SregNovcc:
      // An address names pairs of registers in 6 bits, a resource groups of four in 5.
      scalar(row.width == 6 ? raw * 2 : row.width == 5 ? raw * 4 : raw, out);
      return out.index < 128 && out.index != 125;
    case OperandType::Simm4:
    case OperandType::Simm8:
      out.kind = OperandKind::Constant;
      out.low = raw;
      i_.immediate = static_cast<std::int32_t>(raw);
      return true;
    case OperandType::SrcAccvgpr:
      if (!source(raw, out) || out.kind != OperandKind::Vgpr) return false;
      out.kind = OperandKind::Accvgpr;
      return true;
    case OperandType::SrcVgpr: return source(raw, out) && out.kind == OperandKind::Vgpr;
    case OperandType::Simm32: return source(marker::kLiteral, out);
    default: return source(raw, out);
  }
}

// SDWA and DPP put the real first source into a second dword.
void Decoder::variant() {
  const bool short_form =
      row_.encoding == Encoding::Vop1 || row_.encoding == Encoding::Vop2 || row_.encoding == Encoding::Vopc;
  if (!short_form || code_.size() < 2) return;
  const std::uint32_t src0 = get(vop2::kSrc0);
  if (src0 == marker::kSdwa)
    i_.variant = Variant::Sdwa;
  else if (src0 == marker::kDpp)
    i_.variant = Variant::Dpp;
  else
    return;
  size_ = 2;
}

bool Decoder::sdwa_source(Field scalar_bit, Operand& out) {
  if (!flag(scalar_bit)) return true;
  return source(out.index, out) && out.kind != OperandKind::Vgpr && out.index != marker::kLiteral;
}

bool Decoder::sdwa_modifiers() {
  const bool compares = row_.encoding == Encoding::Vopc;
  i_.sdwa.source = {static_cast<Select>(get(sdwa::kSrc0Sel)), static_cast<Select>(get(sdwa::kSrc1Sel))};
  i_.sdwa.sign_extend = {flag(sdwa::kSrc0Sext), flag(sdwa::kSrc1Sext)};
  i_.neg = static_cast<std::uint8_t>(get(sdwa::kSrc0Neg) | get(sdwa::kSrc1Neg) << 1);
  i_.abs = static_cast<std::uint8_t>(get(sdwa::kSrc0Abs) | get(sdwa::kSrc1Abs) << 1);
  if (compares) {
    if (flag(sdwa_sdst::kSd)) scalar(get(sdwa_sdst::kSdst), i_.destination[0]);
  } else {
    i_.sdwa.destination = static_cast<Select>(get(sdwa::kDstSel));
    i_.sdwa.unused = static_cast<std::uint8_t>(get(sdwa::kDstUnused));
    i_.omod = static_cast<std::uint8_t>(get(sdwa::kOmod));
    i_.clamp = flag(sdwa::kClmp);
  }
  if (i_.sdwa.source[0] > Select::Dword || i_.sdwa.source[1] > Select::Dword || i_.sdwa.destination > Select::Dword)
    return false;
  if (i_.sdwa.unused > 2 || !sdwa_source(sdwa::kS0, i_.source[0])) return false;
  return row_.encoding == Encoding::Vop1 || sdwa_source(sdwa::kS1, i_.source[1]);
}

void Decoder::dpp_modifiers() {
  i_.dpp.control = static_cast<std::uint16_t>(get(dpp::kDpp));
  i_.dpp.row_mask = static_cast<std::uint8_t>(get(dpp::kRowMask));
  i_.dpp.bank_mask = static_cast<std::uint8_t>(get(dpp::kBankMask));
  i_.dpp.bound_control = flag(dpp::kBc);
  i_.neg = static_cast<std::uint8_t>(get(dpp::kSrc0Neg) | get(dpp::kSrc1Neg) << 1);
  i_.abs = static_cast<std::uint8_t>(get(dpp::kSrc0Abs) | get(dpp::kSrc1Abs) << 1);
}

void Decoder::modifiers() {
  switch (row_.encoding) {
    case Encoding::Vop3:
      i_.abs = static_cast<std::uint8_t>(get(vop3::kAbs));
      i_.opsel = static_cast<std::uint8_t>(get(vop3::kOpsel));
      [[fallthrough]];
    case Encoding::Vop3sd:
      i_.neg = static_cast<std::uint8_t>(get(vop3::kNeg));
      i_.omod = static_cast<std::uint8_t>(get(vop3::kOmod));
      i_.clamp = flag(vop3::kClmp);
      break;
    case Encoding::Vop3p:
      i_.neg = static_cast<std::uint8_t>(get(vop3p::kNeg));
      i_.neg_hi = static_cast<std::uint8_t>(get(vop3p::kNegHi));
      i_.opsel = static_cast<std::uint8_t>(get(vop3p::kOpsel));
      i_.opsel_hi = static_cast<std::uint8_t>(get(vop3p::kOpselHi) | get(vop3p::kOpselHi2) << 2);
      i_.clamp = flag(vop3p::kClmp);
      mixed_constants();
      break;
    case Encoding::Sopk:
    case Encoding::Sopp: i_.immediate = static_cast<std::int16_t>(get(sopp::kSimm16)); break;
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
    if (source.kind != OperandKind::Constant || (i_.opsel_hi >> k & 1) == 0) continue;
    source.format = Format::F16;
    set_inline_constant(source.index, source);
  }
}

bool Decoder::run() {
  i_.opcode = row_.opcode;
  i_.encoding = row_.encoding;
  i_.category = row_.category;
  variant();
  switch (row_.encoding) {
    case Encoding::Ds: accumulators_ = flag(ds::kAcc); break;
    case Encoding::Flat:
    case Encoding::Global:
    case Encoding::Scratch: accumulators_ = flag(flat::kAcc); break;
    case Encoding::Mubuf:
    case Encoding::Mtbuf: accumulators_ = flag(mubuf::kAcc); break;
    default: break;
  }
  if (row_.encoding == Encoding::Vopc) i_.destination[0] = {OperandKind::Sgpr, 2, 106, Format::M64};
  for (unsigned k = 0; k < row_.operands; ++k) {
    const OperandRow& row = kOperandRows[row_.first + k];
    if (row.type == OperandType::SmemOffset) continue;
    std::uint32_t raw = get({row.low, row.width});
    if (i_.variant != Variant::Plain && row.slot == Slot::S0) raw = marker::kVgpr + get(sdwa::kVsrc0);
    if (row.type == OperandType::Simm32 && i_.variant != Variant::Plain) return false;  // two uses of the same dword
    if (!operand(row, raw, slot(row.slot))) return false;
  }
  if (i_.variant == Variant::Sdwa && !sdwa_modifiers()) return false;
  if (i_.variant == Variant::Dpp) dpp_modifiers();
  switch (row_.encoding) {
    case Encoding::Vop3pMfma:
    case Encoding::Vop3px2: matrix(); break;
    case Encoding::Smem:
      if (!scalar_memory()) return false;
      break;
    case Encoding::Ds: local(); break;
    case Encoding::Flat:
    case Encoding::Global:
    case Encoding::Scratch: flat_memory(); break;
    case Encoding::Mubuf:
    case Encoding::Mtbuf: buffer(); break;
    default: modifiers();
  }
  i_.dwords = static_cast<std::uint8_t>(size_);
  return true;
}

}  // namespace apb::emu::tables
