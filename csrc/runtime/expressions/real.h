// The second evaluator of the real numbers of kernel arguments; src/aiter_prebuilt/contract/real.py specifies them. A
// program is proved once with check_real_program; the others then run it without looking at bounds again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "expressions/expression.h"

namespace apb {

// Well formed over `slot_count` integer slots and the float slots that `has_float` takes? Otherwise false, and `problem`
// has the reason in the Python checker's words.
[[nodiscard]] bool check_real_program(Program code, std::size_t slot_count,
                                      const std::function<bool(std::uint32_t)>& has_float, std::string& problem);

// A checked program with the values of its integer slots in it; `place_of` gives the place among the reals of a float
// slot.
[[nodiscard]] std::vector<std::uint8_t> with_slots(Program code, const std::int64_t* slots,
                                                   const std::function<std::uint16_t(std::uint32_t)>& place_of);

// Runs what with_slots() gave; no allocation.
[[nodiscard]] double evaluate_real(Program code, const double* reals);

// Sets `exact` when a program loads a slot that holds an address.
void note_real_address_use(Program code, const bool* is_address_slot, AddressUse& use);

}  // namespace apb
