#include "expression.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "bundle_layout.h"
#include "errors.h"

namespace apb {
namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

std::size_t operand_size(Op op) {
  switch (op) {
    case Op::Push8:
      return 1;
    case Op::Push64:
      return 8;
    case Op::Load:
    case Op::Jump:
    case Op::JumpIfFalse:
    case Op::JumpIfFalseKeep:
    case Op::JumpIfTrueKeep:
      return 2;
    default:
      return 0;
  }
}

bool known(std::uint8_t byte) {
  return (byte >= 0x01 && byte <= 0x03) || (byte >= 0x10 && byte <= 0x1a) || (byte >= 0x20 && byte <= 0x25) ||
         (byte >= 0x30 && byte <= 0x33);
}

bool is_jump(Op op) { return op >= Op::Jump; }

std::uint16_t read16(const std::uint8_t* at) {
  std::uint16_t value;
  std::memcpy(&value, at, 2);
  return value;
}

std::int64_t read64(const std::uint8_t* at) {
  std::int64_t value;
  std::memcpy(&value, at, 8);
  return value;
}

std::string op_text(std::uint8_t byte) { return (byte < 16 ? "0x0" : "0x") + hex_text(byte).substr(2); }

// Values needed on the stack, and the change of depth on the fall-through path.
struct Effect {
  int need;
  int change;
};

Effect effect(Op op) {
  switch (op) {
    case Op::Push8:
    case Op::Push64:
    case Op::Load:
      return {0, 1};
    case Op::Neg:
    case Op::Not:
    case Op::Bool:
      return {1, 0};
    case Op::Jump:
      return {0, 0};
    case Op::JumpIfFalse:
    case Op::JumpIfFalseKeep:
    case Op::JumpIfTrueKeep:
      return {1, -1};
    default:
      return {2, -1};
  }
}

bool fail(std::string& problem, std::string text) {
  problem = std::move(text);
  return false;
}

// The instructions alone: every operation known and whole. Marks where each starts.
bool check_instructions(Program code, std::vector<bool>& starts, std::string& problem) {
  std::size_t at = 0;
  while (at < code.size()) {
    if (!known(code[at])) return fail(problem, cat("unknown operation ", op_text(code[at]), " at byte ", at));
    const std::size_t size = operand_size(static_cast<Op>(code[at]));
    if (at + 1 + size > code.size()) {
      return fail(problem, cat("operation ", op_text(code[at]), " at byte ", at, " is cut off"));
    }
    starts[at] = true;
    at += 1 + size;
  }
  starts[code.size()] = true;
  return true;
}

constexpr int kUnknownDepth = -1;

bool note_landing(std::vector<int>& depth_at, std::size_t landing, int depth, std::size_t start, std::string& problem) {
  if (landing >= depth_at.size()) return fail(problem, cat("jump at byte ", start, " leaves the program"));
  if (depth_at[landing] == kUnknownDepth) depth_at[landing] = depth;
  if (depth_at[landing] != depth) {
    return fail(problem, cat("stack depth differs between the paths that meet at byte ", landing));
  }
  return true;
}

bool check_end(const std::vector<int>& depth_at, const std::vector<bool>& starts, int depth, bool reachable,
               std::string& problem) {
  const std::size_t size = depth_at.size() - 1;
  for (std::size_t at = 0; at <= size; ++at) {
    if (depth_at[at] != kUnknownDepth && !starts[at]) {
      return fail(problem, cat("jump into the middle of an instruction at byte ", at));
    }
  }
  const bool landed = depth_at[size] != kUnknownDepth;
  const bool one = (!reachable || depth == 1) && (!landed || depth_at[size] == 1) && (reachable || landed);
  return one || fail(problem, "a program must end with exactly one value");
}

}  // namespace

const char* evaluate_text(EvaluateStatus status) {
  switch (status) {
    case EvaluateStatus::DivisionByZero:
      return "division by zero";
    case EvaluateStatus::Overflow:
      return "a value does not fit 64 bits";
    case EvaluateStatus::Ok:
      break;
  }
  return "ok";
}

bool check_program(Program code, std::size_t slot_count, std::string& problem) {
  if (code.size() > kMaxCode) {
    return fail(problem, cat(code.size(), " bytes of bytecode, at most ", kMaxCode, " are allowed"));
  }
  if (code.empty()) return true;
  std::vector<bool> starts(code.size() + 1, false);
  if (!check_instructions(code, starts, problem)) return false;
  std::vector<int> depth_at(code.size() + 1, kUnknownDepth);
  depth_at[0] = 0;
  int depth = 0;
  bool reachable = true;
  for (std::size_t start = 0; start < code.size();) {
    const Op op = static_cast<Op>(code[start]);
    const std::size_t following = start + 1 + operand_size(op);
    if (depth_at[start] != kUnknownDepth) {
      if (reachable && depth_at[start] != depth) {
        return fail(problem, cat("stack depth differs between the paths that meet at byte ", start));
      }
      depth = depth_at[start];
      reachable = true;
    }
    if (!reachable) return fail(problem, cat("no path leads to byte ", start));
    if (op == Op::Load && read16(&code[start + 1]) >= slot_count) {
      return fail(problem, cat("slot ", read16(&code[start + 1]), " at byte ", start, ", but there are ", slot_count));
    }
    const Effect change = effect(op);
    if (depth < change.need) return fail(problem, cat("stack underflow at byte ", start));
    if (is_jump(op)) {
      const std::size_t landing = following + read16(&code[start + 1]);
      if (!note_landing(depth_at, landing, depth - (op == Op::JumpIfFalse ? 1 : 0), start, problem)) return false;
    }
    depth += change.change;
    if (depth > static_cast<int>(kMaxStack)) {
      return fail(problem, cat("stack deeper than ", kMaxStack, " at byte ", start));
    }
    reachable = op != Op::Jump;
    start = following;
  }
  return check_end(depth_at, starts, depth, reachable, problem);
}

namespace {

// Rounds towards minus infinity. `left` = min and `right` = -1 does not fit.
EvaluateStatus floor_divide(std::int64_t left, std::int64_t right, std::int64_t& out) {
  if (right == 0) return EvaluateStatus::DivisionByZero;
  if (left == kMin && right == -1) return EvaluateStatus::Overflow;
  const std::int64_t quotient = left / right;
  out = quotient - ((left % right != 0 && (left < 0) != (right < 0)) ? 1 : 0);
  return EvaluateStatus::Ok;
}

EvaluateStatus floor_modulo(std::int64_t left, std::int64_t right, std::int64_t& out) {
  if (right == 0) return EvaluateStatus::DivisionByZero;
  if (right == -1) {  // min % -1 traps on the processor although the result is 0
    out = 0;
    return EvaluateStatus::Ok;
  }
  const std::int64_t rest = left % right;
  out = (rest != 0 && (rest < 0) != (right < 0)) ? rest + right : rest;
  return EvaluateStatus::Ok;
}

EvaluateStatus ceil_divide(std::int64_t left, std::int64_t right, std::int64_t& out) {
  if (right == 0) return EvaluateStatus::DivisionByZero;
  if (left == kMin && right == -1) return EvaluateStatus::Overflow;
  const std::int64_t quotient = left / right;
  out = quotient + ((left % right != 0 && (left < 0) == (right < 0)) ? 1 : 0);
  return EvaluateStatus::Ok;
}

EvaluateStatus binary(Op op, std::int64_t left, std::int64_t right, std::int64_t& out) {
  const auto fits = [](bool overflow) { return overflow ? EvaluateStatus::Overflow : EvaluateStatus::Ok; };
  switch (op) {
    case Op::Add:
      return fits(__builtin_add_overflow(left, right, &out));
    case Op::Sub:
      return fits(__builtin_sub_overflow(left, right, &out));
    case Op::Mul:
      return fits(__builtin_mul_overflow(left, right, &out));
    case Op::Floordiv:
      return floor_divide(left, right, out);
    case Op::Mod:
      return floor_modulo(left, right, out);
    case Op::Cdiv:
      return ceil_divide(left, right, out);
    case Op::Min:
      out = left < right ? left : right;
      return EvaluateStatus::Ok;
    case Op::Max:
      out = left > right ? left : right;
      return EvaluateStatus::Ok;
    case Op::Eq:
      out = left == right;
      return EvaluateStatus::Ok;
    case Op::Ne:
      out = left != right;
      return EvaluateStatus::Ok;
    case Op::Lt:
      out = left < right;
      return EvaluateStatus::Ok;
    case Op::Le:
      out = left <= right;
      return EvaluateStatus::Ok;
    case Op::Gt:
      out = left > right;
      return EvaluateStatus::Ok;
    default:  // Op::Ge: check_program let nothing else through
      out = left >= right;
      return EvaluateStatus::Ok;
  }
}

// Unary operations on the top of the stack.
EvaluateStatus unary(Op op, std::int64_t& top) {
  if (op == Op::Neg) {
    if (top == kMin) return EvaluateStatus::Overflow;
    top = -top;
  } else {
    top = (top != 0) == (op == Op::Bool);
  }
  return EvaluateStatus::Ok;
}

}  // namespace

EvaluateStatus evaluate_program(Program code, const std::int64_t* slots, std::int64_t& value) {
  std::array<std::int64_t, kMaxStack + 1> stack;
  std::size_t depth = 0;
  const std::uint8_t* at = code.data();
  const std::uint8_t* const end = at + code.size();
  while (at < end) {
    const Op op = static_cast<Op>(*at++);
    if (op == Op::Push8) {
      stack[depth++] = static_cast<std::int8_t>(*at++);
    } else if (op == Op::Load) {
      stack[depth++] = slots[read16(at)];
      at += 2;
    } else if (op == Op::Push64) {
      stack[depth++] = read64(at);
      at += 8;
    } else if (op == Op::Jump) {
      at += 2 + read16(at);
    } else if (is_jump(op)) {
      const bool taken = (stack[depth - 1] != 0) == (op == Op::JumpIfTrueKeep);
      if (op == Op::JumpIfFalse || !taken) --depth;
      at += 2 + (taken ? read16(at) : 0);
    } else if (effect(op).need == 1) {
      const EvaluateStatus status = unary(op, stack[depth - 1]);
      if (status != EvaluateStatus::Ok) return status;
    } else {
      --depth;
      const EvaluateStatus status = binary(op, stack[depth - 1], stack[depth], stack[depth - 1]);
      if (status != EvaluateStatus::Ok) return status;
    }
  }
  value = stack[0];
  return EvaluateStatus::Ok;
}

void note_slots(Program code, std::vector<bool>& used) {
  for (std::size_t at = 0; at < code.size();) {
    const Op op = static_cast<Op>(code[at]);
    if (op == Op::Load) used[read16(&code[at + 1])] = true;
    at += 1 + operand_size(op);
  }
}

void note_address_use(Program code, const bool* is_address_slot, AddressUse& use) {
  for (std::size_t at = 0; at < code.size();) {
    const Op op = static_cast<Op>(code[at]);
    const std::size_t following = at + 1 + operand_size(op);
    if (op == Op::Load && is_address_slot[read16(&code[at + 1])]) {
      const bool push8 = following + 2 < code.size() && static_cast<Op>(code[following]) == Op::Push8;
      const bool push64 = following + 9 < code.size() && static_cast<Op>(code[following]) == Op::Push64;
      const std::size_t modulo_at = following + (push8 ? 2 : 9);
      const bool tested = (push8 || push64) && static_cast<Op>(code[modulo_at]) == Op::Mod;
      std::int64_t divisor = 0;
      if (tested) divisor = push8 ? static_cast<std::int8_t>(code[following + 1]) : read64(&code[following + 1]);
      if (divisor > 0 && (divisor & (divisor - 1)) == 0) {
        use.alignment = std::max(use.alignment, static_cast<std::uint64_t>(divisor));
      } else {
        use.exact = true;
      }
    }
    at = following;
  }
}

}  // namespace apb
