// The instructions of the expression language, for its checker and its evaluator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "bundle_layout.h"
#include "errors.h"

namespace apb {

inline std::size_t operand_size(Op op) {
  switch (op) {
    case Op::Push8: return 1;
    case Op::Push64: return 8;
    case Op::Load:
    case Op::Jump:
    case Op::JumpIfFalse:
    case Op::JumpIfFalseKeep:
    case Op::JumpIfTrueKeep: return 2;
    default: return 0;
  }
}

// An operation as the checkers name it: 0x0a.
inline std::string op_byte(std::uint8_t byte) { return (byte < 16 ? "0x0" : "0x") + hex_text(byte).substr(2); }

inline bool is_jump(Op op) { return op >= Op::Jump; }

inline std::uint16_t read16(const std::uint8_t* at) {
  std::uint16_t value;
  std::memcpy(&value, at, 2);
  return value;
}

inline std::int64_t read64(const std::uint8_t* at) {
  std::int64_t value;
  std::memcpy(&value, at, 8);
  return value;
}

// Values needed on the stack, and the change of depth on the fall-through path.
struct Effect {
  int need;
  int change;
};

inline Effect effect(Op op) {
  switch (op) {
    case Op::Push8:
    case Op::Push64:
    case Op::Load: return {0, 1};
    case Op::Neg:
    case Op::Not:
    case Op::Bool:
    case Op::Log2: return {1, 0};
    case Op::Jump: return {0, 0};
    case Op::JumpIfFalse:
    case Op::JumpIfFalseKeep:
    case Op::JumpIfTrueKeep: return {1, -1};
    default: return {2, -1};
  }
}

}  // namespace apb
