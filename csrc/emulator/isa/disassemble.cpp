// Text that LLVM's assembler turns back into the same bytes: scalar and memory instructions, and which function prints what.
#include "decode.h"
#include "print.h"

namespace apb::emu {

namespace {

using print::join;
using print::one_of;
using print::operand;
using print::sources;

std::string cache_bits(const Instruction& i) {
  return std::string(i.sc0 ? " sc0" : "") + (i.nt ? " nt" : "") + (i.sc1 ? " sc1" : "");
}

std::string local(const Instruction& i, std::string text) {
  text += " ";
  join(text, operand(i.destination[0]));
  for (unsigned k = 0; k < sources(i); ++k) join(text, operand(i.source[k]));
  const std::string_view name = mnemonic(i.opcode);
  if (i.opcode == Opcode::DS_NOP) return text;
  const bool two = name.find("read2") != std::string_view::npos || name.find("write2") != std::string_view::npos ||
                   name.find("wrxchg2") != std::string_view::npos;
  if (two) {
    if (i.offset0) text += " offset0:" + std::to_string(i.offset0);
    if (i.offset1) text += " offset1:" + std::to_string(i.offset1);
  } else if (i.offset) {
    text += " offset:" + std::to_string(i.offset);
  }
  const bool always = name.find("_gws_") != std::string_view::npos;
  if (!i.destination[0].used() && !i.source[0].used()) text.erase(name.size(), 1);
  return text + (i.gds || always ? " gds" : "");
}

std::string flat_memory(const Instruction& i, std::string text) {
  text += " ";
  join(text, operand(i.destination[0]));
  for (unsigned k = 0; k < sources(i); ++k) join(text, operand(i.source[k]));
  if (i.offset) text += " offset:" + std::to_string(i.offset);
  return text + cache_bits(i);
}

std::string buffer(const Instruction& i, std::string text) {
  if (i.source[0].kind == OperandKind::None) return text + cache_bits(i);  // buffer_inv, buffer_wbl2
  text += " ";
  const bool stores = i.source[3].kind != OperandKind::None;
  join(text, operand(stores ? i.source[1] : i.destination[0]));
  join(text, operand(i.source[0]));
  join(text, operand(i.source[stores ? 2 : 1]));
  join(text, operand(i.source[stores ? 3 : 2]));
  if (i.encoding == Encoding::Mtbuf) text += " format:" + std::to_string(i.data_format | i.number_format << 4);
  text += std::string(i.idxen ? " idxen" : "") + (i.offen ? " offen" : "");
  if (i.offset) text += " offset:" + std::to_string(i.offset);
  return text + cache_bits(i) + (i.lds ? " lds" : "");
}

std::string scalar_memory(const Instruction& i, std::string text) {
  text += " ";
  const bool stores = i.source[2].kind != OperandKind::None;
  if (stores || i.source[0].kind == OperandKind::None)
    join(text, operand(stores ? i.source[1] : i.destination[0]));
  else
    join(text, operand(i.destination[0]));
  join(text, operand(i.source[0]));
  const Operand& offset = i.source[stores ? 2 : 1];
  if (offset.kind == OperandKind::Sgpr) {
    join(text, operand(offset));
    if (i.offset) text += " offset:" + std::to_string(i.offset);
  } else if (offset.kind == OperandKind::Off) {
    join(text, i.offset < 0 ? std::to_string(i.offset) : print::hexadecimal(static_cast<std::uint32_t>(i.offset)));
  }
  if (text.back() == ' ') text.pop_back();
  return text + (i.glc ? " glc" : "");
}

// Without operands and with any: s_barrier, s_icache_inv and the like have a field that nobody reads.
std::string program(const Instruction& i, std::string text) {
  const std::uint16_t value = static_cast<std::uint16_t>(i.immediate);
  if (one_of(i.opcode, {Opcode::S_BARRIER, Opcode::S_ICACHE_INV, Opcode::S_TTRACEDATA, Opcode::S_ENDPGM_SAVED,
                        Opcode::S_WAKEUP, Opcode::S_SET_GPR_IDX_OFF, Opcode::S_ENDPGM_ORDERED_PS_DONE}))
    return text;
  if (i.opcode == Opcode::S_ENDPGM) return value ? text + " " + std::to_string(value) : text;
  if (i.category == Category::Branch) return text + " " + std::to_string(i.immediate);
  return text + " " + (i.opcode == Opcode::S_WAITCNT ? print::hexadecimal(value) : std::to_string(value));
}

std::string scalar_constant(const Instruction& i, std::string text) {
  const std::string value = print::hexadecimal(static_cast<std::uint16_t>(i.immediate));
  text += " ";
  if (i.opcode == Opcode::S_SETREG_B32 || i.opcode == Opcode::S_SETREG_IMM32_B32) {
    join(text, value);
    join(text, i.source[0].index == 255 ? print::hexadecimal(i.source[0].low) : operand(i.source[0]));
    return text;
  }
  join(text, operand(i.destination[0]));
  join(text, operand(i.source[0]));
  join(text, i.category == Category::Branch ? std::to_string(i.immediate) : value);
  return text;
}

std::string scalar(const Instruction& i, std::string text) {
  text += " ";
  join(text, operand(i.destination[0]));
  join(text, operand(i.source[0]));
  join(text, operand(i.source[1]));
  return text;
}

}  // namespace

std::string disassemble(Target, const Instruction& i) {
  std::string text(mnemonic(i.opcode));
  switch (i.encoding) {
    case Encoding::Vop1:
    case Encoding::Vop2:
    case Encoding::Vopc: text = print::short_vector(i, std::move(text)); break;
    case Encoding::Vop3:
    case Encoding::Vop3sd: text = print::long_vector(i, std::move(text)); break;
    case Encoding::Vop3p: text = print::packed_vector(i, std::move(text)); break;
    case Encoding::Vop3pMfma:
    case Encoding::Vop3px2: text = print::matrix(i, std::move(text)); break;
    case Encoding::Sop1:
    case Encoding::Sop2:
    case Encoding::Sopc: text = scalar(i, std::move(text)); break;
    case Encoding::Sopk: text = scalar_constant(i, std::move(text)); break;
    case Encoding::Sopp: text = program(i, std::move(text)); break;
    case Encoding::Smem: text = scalar_memory(i, std::move(text)); break;
    case Encoding::Ds: text = local(i, std::move(text)); break;
    case Encoding::Flat:
    case Encoding::Global:
    case Encoding::Scratch: text = flat_memory(i, std::move(text)); break;
    case Encoding::Mubuf:
    case Encoding::Mtbuf: text = buffer(i, std::move(text)); break;
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace apb::emu
