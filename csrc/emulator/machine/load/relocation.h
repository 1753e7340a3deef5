// Dynamic relocations of a loaded image.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "machine/load/elf.h"

namespace apb::emu {

// `image` is the loaded image, at `base`. False with `problem` for an undefined symbol, an unknown type or a place
// outside the image.
[[nodiscard]] bool relocate(const ElfFile& file, std::uint64_t base, std::span<std::uint8_t> image,
                            std::string& problem);

}  // namespace apb::emu
