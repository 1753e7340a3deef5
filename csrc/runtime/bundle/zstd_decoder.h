// One zstd frame to bytes. The decoder is zstd.c of the `zstandard` source distribution, compiled in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace apb {

// Decodes `frame` into exactly `raw_size` bytes at `out`; `dictionary` is raw content, empty for none. On failure
// `problem` has zstd's own reason. Thread safe.
[[nodiscard]] bool zstd_decode(std::span<const std::uint8_t> frame, std::span<const std::uint8_t> dictionary,
                               std::uint8_t* out, std::size_t raw_size, std::string& problem);

}  // namespace apb
