#include "machine/schedule/dispatch.h"

#include <cstdio>
#include <string>

#include "machine/memory/allocations.h"

namespace apb::emu {

bool DispatchMemory::find(std::uint64_t address, std::uint64_t bytes, Range& out) const {
  for (const Own& own : own_) {
    if (!own.range.holds(address, bytes)) continue;
    out = own.range;
    return true;
  }
  if (device->find(address, bytes, out)) return true;
  // Memory that was allocated since: a kernel that waits for the host may be told of it.
  const std::shared_ptr<const Memory> now = Allocations::instance().snapshot(ordinal);
  return now != device && now->find(address, bytes, out);
}

void DispatchMemory::describe(std::uint64_t address, std::uint64_t bytes, char* text, std::size_t size) const {
  for (const Own& own : own_) {
    if (address < own.range.begin || address >= own.range.end + kReservedBehind) continue;
    std::snprintf(text, size, "%llu bytes past the end of the %s (%llu bytes)",
                  static_cast<unsigned long long>(address + bytes - own.range.end), own.name,
                  static_cast<unsigned long long>(own.range.end - own.range.begin));
    return;
  }
  device->describe(address, bytes, text, size);
  constexpr std::uint64_t kNull = 65536;  // as the device's memory has it
  if (!asks_host || address >= kNull) return;
  const std::size_t length = std::char_traits<char>::length(text);
  std::snprintf(text + length, size - length,
                "; the kernel may use printf, assert or malloc, which the device has not");
}

Dim3 Dispatch::block_of(const std::uint32_t (&id)[3]) const {
  const auto pick = [](std::uint32_t number, std::uint32_t count, std::uint32_t whole, std::uint32_t rest) {
    return rest && number + 1 == count ? rest : whole;
  };
  return {pick(id[0], grid.x, block.x, tail.x), pick(id[1], grid.y, block.y, tail.y),
          pick(id[2], grid.z, block.z, tail.z)};
}

}  // namespace apb::emu
