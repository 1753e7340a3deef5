// The cost of an LDS instruction by its addresses: the lanes that are served together, and the bank conflicts among them.
#pragma once

#include <cstdint>

#include "execute/observer.h"

namespace apb::emu {

struct BankCost {
  std::uint32_t phases = 0;     // groups of lanes that are served one after the other, also where none of a group is on
  std::uint32_t conflicts = 0;  // cycles beyond one for each phase
  std::uint32_t same = 0;       // atomics only: cycles beyond those because lanes of a phase change the same dword
  std::uint32_t cycles() const { return phases + conflicts + same; }
};

// `address`: LDS byte addresses per lane; `bytes` per lane, of one access: ds_read2 and the like are two.
BankCost bank_cost(Target target, LdsAccess access, const std::uint32_t* address, std::uint64_t active,
                   std::uint32_t bytes);

}  // namespace apb::emu
