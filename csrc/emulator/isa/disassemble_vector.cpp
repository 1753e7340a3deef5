// Vector and matrix instructions as text.
#include "decode.h"
#include "print.h"
#include "tables.h"

namespace apb::emu::print {

namespace {

// Tells whether the opcode has a form of four bytes: only then does the one of eight bytes end in _e64.
bool has_short_form(Opcode opcode) {
  static const auto known = [] {
    std::array<bool, static_cast<std::size_t>(Opcode::Count)> result{};
    for (const tables::OpcodeRow& row : tables::kOpcodeRows)
      if (row.encoding == Encoding::Vop1 || row.encoding == Encoding::Vop2 || row.encoding == Encoding::Vopc)
        result[static_cast<std::size_t>(row.opcode)] = true;
    return result;
  }();
  return known[static_cast<std::size_t>(opcode)];
}

bool reads_carry(Opcode opcode) {
  return one_of(opcode,
                {Opcode::V_CNDMASK_B32, Opcode::V_ADDC_CO_U32, Opcode::V_SUBB_CO_U32, Opcode::V_SUBBREV_CO_U32});
}
bool writes_carry(Opcode opcode) {
  return one_of(opcode, {Opcode::V_ADD_CO_U32, Opcode::V_SUB_CO_U32, Opcode::V_SUBREV_CO_U32, Opcode::V_ADDC_CO_U32,
                         Opcode::V_SUBB_CO_U32, Opcode::V_SUBBREV_CO_U32});
}

const char* select_name(Select select) {
  static const char* const names[] = {"BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"};
  return names[static_cast<unsigned>(select)];
}

std::string output_modifiers(const Instruction& i) {
  static const char* const factors[] = {"", " mul:2", " mul:4", " div:2"};
  return std::string(i.clamp ? " clamp" : "") + factors[i.omod & 3];
}

std::string sdwa_text(const Instruction& i) {
  static const char* const unused[] = {"UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"};
  std::string text = output_modifiers(i);
  // Conversions from FP8 write whole registers: their assembly has no destination selection.
  const bool whole = one_of(
      i.opcode, {Opcode::V_CVT_F32_FP8, Opcode::V_CVT_F32_BF8, Opcode::V_CVT_PK_F32_FP8, Opcode::V_CVT_PK_F32_BF8});
  if (i.encoding != Encoding::Vopc && !whole)
    text += std::string(" dst_sel:") + select_name(i.sdwa.destination) + " dst_unused:" + unused[i.sdwa.unused];
  text += std::string(" src0_sel:") + select_name(i.sdwa.source[0]);
  if (i.encoding != Encoding::Vop1) text += std::string(" src1_sel:") + select_name(i.sdwa.source[1]);
  return text;
}

std::string dpp_control(unsigned control) {
  const auto number = [&](const char* name, unsigned low) { return name + (":" + std::to_string(control - low)); };
  if (control < 0x100) {
    std::string text = "quad_perm:[";
    for (unsigned k = 0; k < 4; ++k) text += std::string(k ? "," : "") + std::to_string(control >> 2 * k & 3);
    return text + "]";
  }
  if (control > 0x100 && control < 0x110) return number("row_shl", 0x100);
  if (control > 0x110 && control < 0x120) return number("row_shr", 0x110);
  if (control > 0x120 && control < 0x130) return number("row_ror", 0x120);
  if (control >= 0x150 && control < 0x160) return number("row_newbcast", 0x150);
  switch (control) {
    case 0x130: return "wave_shl:1";
    case 0x134: return "wave_rol:1";
    case 0x138: return "wave_shr:1";
    case 0x13c: return "wave_ror:1";
    case 0x140: return "row_mirror";
    case 0x141: return "row_half_mirror";
    case 0x142: return "row_bcast:15";
    case 0x143: return "row_bcast:31";
    default: return "dpp_ctrl:" + print::hexadecimal(control);
  }
}

std::string dpp_text(const Instruction& i) {
  return " " + dpp_control(i.dpp.control) + " row_mask:" + print::hexadecimal(i.dpp.row_mask) +
         " bank_mask:" + print::hexadecimal(i.dpp.bank_mask) + (i.dpp.bound_control ? " bound_ctrl:0" : "");
}

bool mixes(Opcode opcode) {
  return one_of(opcode, {Opcode::V_MAD_MIX_F32, Opcode::V_MAD_MIXLO_F16, Opcode::V_MAD_MIXHI_F16});
}

}  // namespace

std::string short_vector(const Instruction& i, std::string text) {
  text += i.variant == Variant::Sdwa ? "_sdwa " : i.variant == Variant::Dpp ? "_dpp " : "_e32 ";
  if (i.opcode == Opcode::V_FMAMK_F32 || i.opcode == Opcode::V_FMAAK_F32 || i.opcode == Opcode::V_MADMK_F16 ||
      i.opcode == Opcode::V_MADAK_F16)
    text.replace(text.size() - 5, 5, " ");
  join(text, operand(i.destination[0]));
  if (i.encoding == Encoding::Vop2 && writes_carry(i.opcode)) join(text, "vcc");
  for (unsigned k = 0; k < sources(i); ++k) join(text, source(i, k));
  if (i.encoding == Encoding::Vop2 && reads_carry(i.opcode)) join(text, "vcc");
  if (i.variant == Variant::Sdwa) text += sdwa_text(i);
  if (i.variant == Variant::Dpp) text += dpp_text(i);
  return text;
}

std::string long_vector(const Instruction& i, std::string text) {
  text += has_short_form(i.opcode) ? "_e64 " : " ";
  join(text, operand(i.destination[0]));
  join(text, operand(i.destination[1]));
  const unsigned count = sources(i);
  const bool bitop3 = i.opcode == Opcode::V_BITOP3_B32 || i.opcode == Opcode::V_BITOP3_B16;
  for (unsigned k = 0; k < count; ++k) join(text, bitop3 ? operand(i.source[k]) : source(i, k));
  // v_bitop3 keeps its truth table where others have omod, abs and neg.
  if (bitop3) text += " bitop3:" + hexadecimal(i.omod << 6 | i.abs << 3 | i.neg);
  // Conversions to one byte of the destination choose it with the bits of a third source that they do not have, and of the destination.
  const bool byte = one_of(i.opcode, {Opcode::V_CVT_SR_FP8_F32, Opcode::V_CVT_SR_BF8_F32,
                                      Opcode::V_CVT_SCALEF32_PK_FP4_F16, Opcode::V_CVT_SCALEF32_PK_FP4_BF16});
  const unsigned inputs = byte ? 3 : count;
  if (i.opsel) text += bits("op_sel", (i.opsel & ((1u << inputs) - 1)) | (i.opsel >> 3 & 1) << inputs, inputs + 1);
  return bitop3 ? text + (i.clamp ? " clamp" : "") : text + output_modifiers(i);
}

std::string packed_vector(const Instruction& i, std::string text) {
  text += " ";
  join(text, operand(i.destination[0]));
  const unsigned count = sources(i), all = (1u << count) - 1;
  const bool mix = mixes(i.opcode);
  for (unsigned k = 0; k < count; ++k) {
    if (mix) {  // neg is the sign of a source here, neg_hi its absolute value
      Instruction plain = i;
      plain.abs = i.neg_hi;
      join(text, source(plain, k));
    } else {
      join(text, operand(i.source[k]));
    }
  }
  const unsigned usual = mix ? 0 : all;
  if (i.opsel & all) text += bits("op_sel", i.opsel, count);
  if ((i.opsel_hi & all) != usual) text += bits("op_sel_hi", i.opsel_hi, count);
  if (!mix && (i.neg & all)) text += bits("neg_lo", i.neg, count);
  if (!mix && (i.neg_hi & all)) text += bits("neg_hi", i.neg_hi, count);
  return text + output_modifiers(i);
}

std::string matrix(const Instruction& i, std::string text) {
  text += " ";
  join(text, operand(i.destination[0]));
  for (unsigned k = 0; k < sources(i); ++k) join(text, operand(i.source[k]));
  const auto number = [&](const char* name, unsigned value) {
    if (value) text += std::string(" ") + name + ":" + std::to_string(value);
  };
  if (i.encoding == Encoding::Vop3px2) {
    join(text, operand(i.scale[0]));
    join(text, operand(i.scale[1]));
    text += bits("op_sel", i.opsel, 2) + bits("op_sel_hi", i.opsel_hi, 2);
  }
  number("cbsz", i.cbsz);
  number("abid", i.abid);
  // For doubles the three bits are the signs of the sources.
  if (i.source[0].format == Format::F64)
    text += i.blgp ? bits("neg", i.blgp, 3) : "";
  else
    number("blgp", i.blgp);
  return text;
}

}  // namespace apb::emu::print
