// The second evaluator of the integer language; src/aiter_prebuilt/contract/bytecode.py specifies it. A program
// is proved once with check_program; evaluate_program then runs it without looking at bounds again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace apb {

using Program = std::span<const std::uint8_t>;

enum class EvaluateStatus : std::uint8_t { Ok, DivisionByZero, Overflow, BadShift, BadLogarithm };

// "division by zero" and so on, as the Python evaluator words it.
const char* evaluate_text(EvaluateStatus status);

// Well formed over `slot_count` slots? Otherwise false, and `problem` has the reason in the Python checker's words.
[[nodiscard]] bool check_program(Program code, std::size_t slot_count, std::string& problem);

// Runs a checked, non-empty program; no allocation, no unbounded loop (jumps only go forward).
[[nodiscard]] EvaluateStatus evaluate_program(Program code, const std::int64_t* slots, std::int64_t& value);

// Sets `used` for every slot that a checked program loads.
void note_slots(Program code, std::vector<bool>& used);

// The use of slots that hold addresses. `alignment` is raised to the largest power of two that a program tests one against
// (`aligned(x, 16)`). `exact` is set when a program uses one in any other way.
struct AddressUse {
  std::uint64_t alignment = 1;
  bool exact = false;
};
void note_address_use(Program code, const bool* is_address_slot, AddressUse& use);

}  // namespace apb
