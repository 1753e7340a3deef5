#include "expressions/expression.h"

#include <array>
#include <limits>

#include "expressions/bytecode.h"

namespace apb {
namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

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

EvaluateStatus shift_left(std::int64_t left, std::int64_t right, std::int64_t& out) {
  if (right < 0 || right > 63) return EvaluateStatus::BadShift;
  if (right == 63) {  // 2^63 itself does not fit
    out = left == -1 ? kMin : 0;
    return left == 0 || left == -1 ? EvaluateStatus::Ok : EvaluateStatus::Overflow;
  }
  return __builtin_mul_overflow(left, std::int64_t{1} << right, &out) ? EvaluateStatus::Overflow : EvaluateStatus::Ok;
}

EvaluateStatus shift_right(std::int64_t left, std::int64_t right, std::int64_t& out) {
  if (right < 0 || right > 63) return EvaluateStatus::BadShift;
  out = left >> right;  // of a signed number: rounds towards minus infinity
  return EvaluateStatus::Ok;
}

EvaluateStatus binary(Op op, std::int64_t left, std::int64_t right, std::int64_t& out) {
  const auto fits = [](bool overflow) { return overflow ? EvaluateStatus::Overflow : EvaluateStatus::Ok; };
  switch (op) {
    case Op::Add: return fits(__builtin_add_overflow(left, right, &out));
    case Op::Sub: return fits(__builtin_sub_overflow(left, right, &out));
    case Op::Mul: return fits(__builtin_mul_overflow(left, right, &out));
    case Op::Floordiv: return floor_divide(left, right, out);
    case Op::Mod: return floor_modulo(left, right, out);
    case Op::Cdiv: return ceil_divide(left, right, out);
    case Op::Min: out = left < right ? left : right; return EvaluateStatus::Ok;
    case Op::Max: out = left > right ? left : right; return EvaluateStatus::Ok;
    case Op::Shl: return shift_left(left, right, out);
    case Op::Shr: return shift_right(left, right, out);
    case Op::Eq: out = left == right; return EvaluateStatus::Ok;
    case Op::Ne: out = left != right; return EvaluateStatus::Ok;
    case Op::Lt: out = left < right; return EvaluateStatus::Ok;
    case Op::Le: out = left <= right; return EvaluateStatus::Ok;
    case Op::Gt: out = left > right; return EvaluateStatus::Ok;
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
  } else if (op == Op::Log2) {
    if (top <= 0) return EvaluateStatus::BadLogarithm;
    top = 63 - __builtin_clzll(static_cast<unsigned long long>(top));
  } else {
    top = (top != 0) == (op == Op::Bool);
  }
  return EvaluateStatus::Ok;
}

}  // namespace

const char* evaluate_text(EvaluateStatus status) {
  switch (status) {
    case EvaluateStatus::DivisionByZero: return "division by zero";
    case EvaluateStatus::Overflow: return "a value does not fit 64 bits";
    case EvaluateStatus::BadShift: return "a shift by less than 0 or more than 63";
    case EvaluateStatus::BadLogarithm: return "the log2 of a number that is not positive";
    case EvaluateStatus::Ok: break;
  }
  return "ok";
}

EvaluateStatus evaluate_program(Program code, const std::int64_t* slots, std::int64_t& value) {
  std::array<std::int64_t, kMaxStack + 1> stack;
  std::size_t depth = 0;
  const std::uint8_t* at = code.data();
  const std::uint8_t* const end = at + code.size();
  while (at < end) {
    const Op op = static_cast<Op>(*at++);
    if (op == Op::Push8) {
      // NOLINTNEXTLINE(bugprone-signed-char-misuse): the operand is a signed byte
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

}  // namespace apb
