#include "expressions/real.h"

#include <array>
#include <cmath>
#include <cstring>

#include "errors.h"
#include "expressions/bytecode.h"

namespace apb {
namespace {

std::size_t operand_size(RealOp op) {
  switch (op) {
    case RealOp::Real: return 8;
    case RealOp::Slot:
    case RealOp::Float: return 2;
    default: return 0;
  }
}

bool known(std::uint8_t byte) { return (byte >= 0x40 && byte <= 0x42) || (byte >= 0x48 && byte <= 0x4f); }

int needs(RealOp op) {
  if (op < RealOp::Add) return 0;
  return op >= RealOp::Neg ? 1 : 2;
}

bool fail(std::string& problem, std::string text) {
  problem = std::move(text);
  return false;
}

void push_real(std::vector<std::uint8_t>& code, double value) {
  code.push_back(static_cast<std::uint8_t>(RealOp::Real));
  code.resize(code.size() + 8);
  std::memcpy(code.data() + code.size() - 8, &value, 8);
}

double binary(RealOp op, double left, double right) {
  switch (op) {
    case RealOp::Add: return left + right;
    case RealOp::Sub: return left - right;
    case RealOp::Mul: return left * right;
    case RealOp::Div: return left / right;
    case RealOp::Min: return right < left ? right : left;
    default: return left < right ? right : left;  // RealOp::Max: check_real_program let nothing else through
  }
}

}  // namespace

bool check_real_program(Program code, std::size_t slot_count, const std::function<bool(std::uint32_t)>& has_float,
                        std::string& problem) {
  if (code.size() > kMaxCode) {
    return fail(problem, cat(code.size(), " bytes of bytecode, at most ", kMaxCode, " are allowed"));
  }
  int depth = 0;
  for (std::size_t start = 0; start < code.size();) {
    if (!known(code[start])) return fail(problem, cat("unknown operation ", op_byte(code[start]), " at byte ", start));
    const auto op = static_cast<RealOp>(code[start]);
    const std::size_t following = start + 1 + operand_size(op);
    if (following > code.size()) {
      return fail(problem, cat("operation ", op_byte(code[start]), " at byte ", start, " is cut off"));
    }
    const std::uint16_t operand = operand_size(op) == 2 ? read16(&code[start + 1]) : 0;
    if (op == RealOp::Slot && operand >= slot_count) {
      return fail(problem, cat("slot ", operand, " at byte ", start, ", but there are ", slot_count));
    }
    if (op == RealOp::Float && !has_float(operand)) {
      return fail(problem, cat("float slot ", operand, " at byte ", start, ", which no attribute has"));
    }
    if (depth < needs(op)) return fail(problem, cat("stack underflow at byte ", start));
    depth += 1 - needs(op);
    if (depth > static_cast<int>(kMaxStack)) {
      return fail(problem, cat("stack deeper than ", kMaxStack, " at byte ", start));
    }
    start = following;
  }
  return depth == 1 || fail(problem, "a program must end with exactly one value");
}

std::vector<std::uint8_t> with_slots(Program code, const std::int64_t* slots,
                                     const std::function<std::uint16_t(std::uint32_t)>& place_of) {
  std::vector<std::uint8_t> out;
  for (std::size_t at = 0; at < code.size();) {
    const auto op = static_cast<RealOp>(code[at]);
    const std::size_t following = at + 1 + operand_size(op);
    if (op == RealOp::Slot) {
      push_real(out, static_cast<double>(slots[read16(&code[at + 1])]));
    } else {
      out.insert(out.end(), code.begin() + static_cast<std::ptrdiff_t>(at),
                 code.begin() + static_cast<std::ptrdiff_t>(following));
    }
    if (op == RealOp::Float) {
      const std::uint16_t place = place_of(read16(&code[at + 1]));
      std::memcpy(out.data() + out.size() - 2, &place, 2);
    }
    at = following;
  }
  return out;
}

double evaluate_real(Program code, const double* reals) {
  std::array<double, kMaxStack + 1> stack;
  std::size_t depth = 0;
  for (std::size_t at = 0; at < code.size();) {
    const auto op = static_cast<RealOp>(code[at]);
    if (op == RealOp::Real) {
      std::memcpy(&stack[depth++], &code[at + 1], 8);
    } else if (op == RealOp::Float) {
      stack[depth++] = reals[read16(&code[at + 1])];
    } else if (op == RealOp::Neg) {
      stack[depth - 1] = -stack[depth - 1];
    } else if (op == RealOp::Sqrt) {
      stack[depth - 1] = std::sqrt(stack[depth - 1]);
    } else {
      --depth;
      stack[depth - 1] = binary(op, stack[depth - 1], stack[depth]);
    }
    at += 1 + operand_size(op);
  }
  return stack[0];
}

void note_real_address_use(Program code, const bool* is_address_slot, AddressUse& use) {
  for (std::size_t at = 0; at < code.size();) {
    const auto op = static_cast<RealOp>(code[at]);
    if (op == RealOp::Slot && is_address_slot[read16(&code[at + 1])]) use.exact = true;
    at += 1 + operand_size(op);
  }
}

}  // namespace apb
