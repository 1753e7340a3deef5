// Reads memory behind a caller's pointers without trusting them.
#pragma once

#include <cstddef>
#include <span>

namespace apb::emu {

struct Piece {
  void* to;
  const void* from;
  std::size_t bytes;
};

inline constexpr std::size_t kAllRead = ~std::size_t{0};

// Copies the pieces in one call of the kernel, which looks at the mappings itself. The number of the first piece that is
// not there, or kAllRead. Sandboxes that forbid the call get plain copies.
[[nodiscard]] std::size_t read_untrusted(std::span<const Piece> pieces);

template <class T>
[[nodiscard]] bool read_untrusted(const void* from, T& out) {
  const Piece piece{&out, from, sizeof out};
  return read_untrusted(std::span(&piece, 1)) == kAllRead;
}

}  // namespace apb::emu
