#include <algorithm>

#include "errors.h"
#include "expressions/bytecode.h"
#include "expressions/expression.h"

namespace apb {
namespace {

bool known(std::uint8_t byte) {
  return (byte >= 0x01 && byte <= 0x03) || (byte >= 0x10 && byte <= 0x1d) || (byte >= 0x20 && byte <= 0x25) ||
         (byte >= 0x30 && byte <= 0x33);
}

bool fail(std::string& problem, std::string text) {
  problem = std::move(text);
  return false;
}

// The instructions alone: every operation known and whole. Marks where each starts.
bool check_instructions(Program code, std::vector<bool>& starts, std::string& problem) {
  std::size_t at = 0;
  while (at < code.size()) {
    if (!known(code[at])) return fail(problem, cat("unknown operation ", op_byte(code[at]), " at byte ", at));
    const std::size_t size = operand_size(static_cast<Op>(code[at]));
    if (at + 1 + size > code.size()) {
      return fail(problem, cat("operation ", op_byte(code[at]), " at byte ", at, " is cut off"));
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
