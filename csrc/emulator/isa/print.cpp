#include "print.h"

#include <cstdio>

#include "constants.h"

namespace apb::emu::print {

namespace {

const char* special_name(unsigned index) {
  switch (index) {
    case 235: return "src_shared_base";
    case 236: return "src_shared_limit";
    case 237: return "src_private_base";
    case 238: return "src_private_limit";
    case 239: return "src_pops_exiting_wave_id";
    case 251: return "src_vccz";
    case 252: return "src_execz";
    case 253: return "src_scc";
    default: return "src_lds_direct";
  }
}

// Registers 102.. have names; those of two dwords begin at an even number.
const char* named_scalar(unsigned index, unsigned dwords) {
  if (dwords > 2) return nullptr;
  switch (index) {
    case 102: return dwords == 2 ? "flat_scratch" : "flat_scratch_lo";
    case 103: return "flat_scratch_hi";
    case 104: return dwords == 2 ? "xnack_mask" : "xnack_mask_lo";
    case 105: return "xnack_mask_hi";
    case 106: return dwords == 2 ? "vcc" : "vcc_lo";
    case 107: return "vcc_hi";
    case 124: return "m0";
    case 126: return dwords == 2 ? "exec" : "exec_lo";
    case 127: return "exec_hi";
    default: return nullptr;
  }
}

std::string range(const char* prefix, unsigned index, unsigned dwords) {
  if (dwords <= 1) return prefix + std::to_string(index);
  return prefix + ("[" + std::to_string(index)) + ":" + std::to_string(index + dwords - 1) + "]";
}

const char* inverse_two_pi(ConstantKind kind) {
  switch (kind) {
    case ConstantKind::F64:
    case ConstantKind::Int64:
    case ConstantKind::Signed64: return "0.15915494309189532";
    default: return "0.15915494";
  }
}

// Would the assembler encode this literal as an inline constant? Then lit() keeps it a literal.
bool would_be_inline(const Operand& literal) {
  for (std::uint32_t number = 128; number <= 248; ++number) {
    Operand constant = literal;
    if (!set_inline_constant(number, constant)) continue;
    const bool small = constant_kind(literal) == ConstantKind::F16 || constant_kind(literal) == ConstantKind::Bf16;
    const std::uint32_t mask = small ? 0xffff : ~0u;
    if ((constant.low & mask) == (literal.low & mask) && constant.high == literal.high) return true;
  }
  return false;
}

std::string constant(const Operand& operand) {
  static const char* const floats[] = {"0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0"};
  const unsigned number = operand.index;
  if (number == 255) {
    const bool upper = constant_kind(operand) == ConstantKind::F64;
    const std::string text = hexadecimal(upper ? operand.high : operand.low);
    const bool small =
        (upper ? operand.high : operand.low) <= 64;  // an integer to the assembler, also where a double is read
    return small || would_be_inline(operand) ? "lit(" + text + ")" : text;
  }
  if (number >= 128 && number <= 192) return std::to_string(number - 128);
  if (number > 192 && number <= 208) return "-" + std::to_string(number - 192);
  if (number >= 240 && number < 248) return floats[number - 240];
  if (number == 248) return inverse_two_pi(constant_kind(operand));
  return hexadecimal(operand.low);  // four or eight bits that stand in a register's field
}

}  // namespace

std::string hexadecimal(std::uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%x", value);
  return text;
}

std::string register_name(OperandKind kind, unsigned index, unsigned dwords) {
  if (kind == OperandKind::Vgpr) return range("v", index, dwords);
  if (kind == OperandKind::Accvgpr) return range("a", index, dwords);
  if (const char* text = named_scalar(index, dwords)) return text;
  if (index >= 108 && index < 124) return range("ttmp", index - 108, dwords);
  return range("s", index, dwords);
}

std::string operand(const Operand& operand) {
  switch (operand.kind) {
    case OperandKind::None: return "";
    case OperandKind::Off: return "off";
    case OperandKind::Constant: return constant(operand);
    case OperandKind::Special: return special_name(operand.index);
    default: return register_name(operand.kind, operand.index, operand.dwords);
  }
}

std::string source(const Instruction& instruction, unsigned which) {
  const Operand& from = instruction.source[which];
  std::string text = operand(from);
  // A minus before a number would change the number; neg() says that the bit of the encoding is meant.
  const bool number = from.kind == OperandKind::Constant;
  if (instruction.variant == Variant::Sdwa && which < 2 && instruction.sdwa.sign_extend[which])
    text = "sext(" + text + ")";
  const bool absolute = instruction.abs >> which & 1, negative = instruction.neg >> which & 1;
  if (absolute) text = "|" + text + "|";
  if (negative) text = number && !absolute ? "neg(" + text + ")" : "-" + text;
  return text;
}

std::string bits(const char* name, unsigned bits, unsigned count) {
  std::string text = std::string(" ") + name + ":[";
  for (unsigned k = 0; k < count; ++k) text += std::string(k ? "," : "") + (bits >> k & 1 ? "1" : "0");
  return text + "]";
}

void join(std::string& text, const std::string& next) {
  if (next.empty()) return;
  text += text.back() == ' ' ? next : ", " + next;
}

bool one_of(Opcode opcode, std::initializer_list<Opcode> list) {
  for (const Opcode other : list)
    if (opcode == other) return true;
  return false;
}

unsigned sources(const Instruction& i) {
  unsigned count = 0;
  while (count < 3 && i.source[count].kind != OperandKind::None) ++count;
  return count;
}

}  // namespace apb::emu::print
