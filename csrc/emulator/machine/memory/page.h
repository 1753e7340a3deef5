// Pages: what the system maps, and what one allocation of device memory never shares with another.
#pragma once

#include <cstdint>

namespace apb::emu {

inline constexpr std::uint64_t kPage = 4096;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

}  // namespace apb::emu
