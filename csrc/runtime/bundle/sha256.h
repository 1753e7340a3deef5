// SHA-256 (FIPS 180-4), with the processor's SHA instructions where it has them: a code object is hashed every
// time it is loaded, and 100 KiB take 50 us with them and 300 us without.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace apb {

using Sha256 = std::array<std::uint8_t, 32>;

Sha256 sha256(const std::uint8_t* data, std::size_t size);

// The portable path alone; the tests compare it with the dispatched one.
Sha256 sha256_portable(const std::uint8_t* data, std::size_t size);

}  // namespace apb
