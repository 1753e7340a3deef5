#include "machine/memory/snapshot.h"

#include <algorithm>

#include "machine/memory/allocations.h"

namespace apb::emu {

bool Snapshot::find(std::uint64_t address, std::uint64_t bytes, Range& out) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                      [](std::uint64_t value, const Range& range) { return value < range.begin; });
  if (after == ranges_.begin()) return false;
  const Range& range = *std::prev(after);
  if (!range.holds(address, bytes)) return false;
  out = range;
  return true;
}

// Words come from the list as it is now: what was freed while the kernel ran is then called freed.
void Snapshot::describe(std::uint64_t address, std::uint64_t bytes, char* text, std::size_t size) const {
  Allocations::instance().describe(device_, address, bytes, text, size);
}

}  // namespace apb::emu
