#include "bundle/region.h"

#include "errors.h"

namespace apb {
namespace {

// Bytes of the sequence that starts with `lead`, 0 when it cannot start one; `low` is the least code point allowed,
// so that overlong forms are refused.
std::size_t sequence_length(std::uint8_t lead, std::uint32_t& low) {
  if (lead < 0x80) {
    low = 0;
    return 1;
  }
  if ((lead & 0xe0) == 0xc0) {
    low = 0x80;
    return 2;
  }
  if ((lead & 0xf0) == 0xe0) {
    low = 0x800;
    return 3;
  }
  if ((lead & 0xf8) == 0xf0) {
    low = 0x10000;
    return 4;
  }
  return 0;
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<std::uint8_t>(text[at]);
    std::uint32_t low = 0;
    const std::size_t length = sequence_length(lead, low);
    if (length == 0 || at + length > text.size()) return false;
    std::uint32_t point = length == 1 ? lead : lead & (0x7fu >> length);
    for (std::size_t i = 1; i < length; ++i) {
      const auto next = static_cast<std::uint8_t>(text[at + i]);
      if ((next & 0xc0) != 0x80) return false;
      point = (point << 6) | (next & 0x3f);
    }
    const bool surrogate = point >= 0xd800 && point < 0xe000;
    if (point < low || point > 0x10ffff || surrogate) return false;
    at += length;
  }
  return true;
}

namespace detail {

bool BoundsCheck::spend(std::uint64_t size) {
  if (size <= left) {
    left -= size;
    return true;
  }
  problem = cat("more than ", kMaxWalk, " bytes of arrays and text to read, counted as often as they are named");
  return false;
}

bool BoundsCheck::operator()(layout::Code at) {
  if (at.length == 0 || std::uint64_t{at.offset} + at.length <= region.size) return spend(at.length);
  problem = cat("text of ", at.length, " bytes at ", at.offset, " leaves its region of ", region.size, " bytes");
  return false;
}

bool BoundsCheck::operator()(layout::Text at) {
  if (!(*this)(layout::Code{at.offset, at.length})) return false;
  if (at.length == 0 || is_utf8(region.text(at))) return true;
  problem = cat("text at ", at.offset, " is not UTF-8");
  return false;
}

bool BoundsCheck::place(std::uint32_t offset, std::uint32_t count, std::size_t element) {
  if (count == 0) return true;
  if (offset % 8 == 0 && std::uint64_t{offset} + std::uint64_t{count} * element <= region.size) {
    return spend(std::uint64_t{count} * element);
  }
  problem =
      cat("an array of ", count, " x ", element, " bytes at ", offset, " leaves its region of ", region.size, " bytes");
  return false;
}

}  // namespace detail
}  // namespace apb
