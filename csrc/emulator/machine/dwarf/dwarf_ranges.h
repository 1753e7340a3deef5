// The address ranges of an entry of .debug_info that has more than one.
#pragma once

#include <cstdint>
#include <functional>

#include "machine/dwarf/dwarf_forms.h"

namespace apb::emu {

// Calls `take` with begin and end of each piece of the list that `where` names. Each entry takes one of `work_left`; the list ends where
// none is left.
void each_range(const DwarfValue& where, const DwarfUnit& unit, const DebugSections& sections, std::uint64_t& work_left,
                const std::function<void(std::uint64_t, std::uint64_t)>& take);

}  // namespace apb::emu
