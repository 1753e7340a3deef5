// An address without a length, as hipModuleLoadData gets it.
#include <algorithm>

#include "machine/load/code_object.h"
#include "machine/load/fatbin.h"
#include "machine/memory/mappings.h"

namespace apb::emu {

std::span<const std::uint8_t> image_at(const void* image, std::string& problem) {
  const std::uint64_t readable = accessible_from(reinterpret_cast<std::uint64_t>(image), false);
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
