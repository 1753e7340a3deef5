// The mapped memory of this process, for addresses with untrusted sizes.
#pragma once

#include <cstdint>

namespace apb::emu {

// Bytes that can be read (and written, when `writable`) from `address` on: the mappings around it that touch each other.
// 0 when it is not mapped so.
std::uint64_t accessible_from(std::uint64_t address, bool writable);

}  // namespace apb::emu
