// Reading of files that may be broken: nothing is read that is not there.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace apb::emu {

using Bytes = std::span<const std::uint8_t>;

// [offset, offset + size) of `bytes`; false when it is not all there. No sum can wrap around.
[[nodiscard]] inline bool slice(Bytes bytes, std::uint64_t offset, std::uint64_t size, Bytes& out) {
  if (offset > bytes.size() || size > bytes.size() - offset) return false;
  out = bytes.subspan(offset, size);
  return true;
}

// A little-endian value at any alignment; ELF files of AMDGPU and the hosts of this library are both little-endian.
template <typename T>
[[nodiscard]] bool get(Bytes bytes, std::uint64_t offset, T& out) {
  Bytes part;
  if (!slice(bytes, offset, sizeof(T), part)) return false;
  std::memcpy(&out, part.data(), sizeof(T));
  return true;
}

// The text from `offset` to its zero; false without one.
[[nodiscard]] inline bool get_text(Bytes bytes, std::uint64_t offset, std::string_view& out) {
  if (offset >= bytes.size()) return false;
  const char* start = reinterpret_cast<const char*>(bytes.data() + offset);
  const void* end = std::memchr(start, 0, bytes.size() - offset);
  if (!end) return false;
  out = {start, static_cast<std::size_t>(static_cast<const char*>(end) - start)};
  return true;
}

}  // namespace apb::emu
