// An address without a length, as hipModuleLoadData gets it.
#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "code_object.h"
#include "fatbin.h"

namespace apb::emu {
namespace {

// Bytes that can be read from `address` on: the mappings around it that touch each other. 0 when it is not mapped.
std::uint64_t readable_from(std::uint64_t address) {
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (!maps) return 0;
  std::uint64_t end = address, from = 0, to = 0;
  char line[512], access = 0;
  bool line_start = true;
  while (std::fgets(line, sizeof line, maps)) {
    const bool whole = std::char_traits<char>::length(line) + 1 < sizeof line;
    const bool parsed = line_start && std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %c", &from, &to, &access) == 3;
    line_start = whole || line[sizeof line - 2] == '\n';  // a long path continues in the next read
    if (!parsed || to <= end) continue;
    if (from > end || access != 'r') break;
    end = to;
  }
  std::fclose(maps);
  return end - address;
}

}  // namespace

std::span<const std::uint8_t> image_at(const void* image, std::string& problem) {
  const std::uint64_t readable = readable_from(reinterpret_cast<std::uint64_t>(image));
  if (readable == 0) {
    problem = "no readable memory at the image's address";
    return {};
  }
  const Bytes all{static_cast<const std::uint8_t*>(image), readable};
  const std::uint64_t claimed = claimed_bytes(all);
  if (claimed == 0) {
    problem = "the image begins with neither an ELF header nor an offload bundle's magic";
    return {};
  }
  return all.first(std::min(claimed, readable));
}

}  // namespace apb::emu
