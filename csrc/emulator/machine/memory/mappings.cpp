#include "machine/memory/mappings.h"

#include <cinttypes>
#include <cstdio>
#include <string>

namespace apb::emu {

std::uint64_t accessible_from(std::uint64_t address, bool writable) {
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (!maps) return 0;
  std::uint64_t end = address, from = 0, to = 0;
  char line[512], access[3] = {};
  bool line_start = true;
  while (std::fgets(line, sizeof line, maps)) {
    const bool whole = std::char_traits<char>::length(line) + 1 < sizeof line;
    // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): the kernel writes addresses that fit
    const bool parsed = line_start && std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %2c", &from, &to, access) == 3;
    line_start = whole || line[sizeof line - 2] == '\n';  // a long path continues in the next read
    if (!parsed || to <= end) continue;
    if (from > end || access[0] != 'r' || (writable && access[1] != 'w')) break;
    end = to;
  }
  std::fclose(maps);
  return end - address;
}

}  // namespace apb::emu
