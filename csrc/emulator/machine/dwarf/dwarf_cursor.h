// Reading of debug information that may be broken: after the first byte that is not there everything reads as 0.
#pragma once

#include <cstdint>
#include <string_view>

#include "machine/load/bytes.h"

namespace apb::emu {

class DwarfCursor {
 public:
  explicit DwarfCursor(Bytes bytes, std::uint64_t at = 0) : bytes_(bytes), at_(at), good_(at <= bytes.size()) {}

  bool good() const { return good_; }
  bool done() const { return !good_ || at_ >= bytes_.size(); }
  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return good_ ? bytes_.size() - at_ : 0; }
  void fail() { good_ = false; }

  template <typename T>
  T fixed() {
    T value{};
    if (good_ && get(bytes_, at_, value))
      at_ += sizeof value;
    else
      good_ = false;
    return good_ ? value : T{};
  }
  // 1 to 8 bytes, as an address or an index of three bytes is.
  std::uint64_t sized(unsigned bytes) {
    std::uint64_t value = 0;
    if (bytes > 8) fail();
    for (unsigned i = 0; i < bytes && good_; ++i) value |= std::uint64_t{fixed<std::uint8_t>()} << (8 * i);
    return good_ ? value : 0;
  }
  std::uint64_t offset(bool wide) { return wide ? fixed<std::uint64_t>() : fixed<std::uint32_t>(); }
  std::uint64_t uleb() { return leb(false); }
  std::int64_t sleb() { return static_cast<std::int64_t>(leb(true)); }
  std::string_view text() {
    std::string_view found;
    if (good_ && get_text(bytes_, at_, found))
      at_ += found.size() + 1;
    else
      good_ = false;
    return found;
  }
  void skip(std::uint64_t bytes) {
    if (bytes > left()) fail();
    if (good_) at_ += bytes;
  }
  // The length that begins a unit; 64-bit DWARF says so by its first word. Its bytes are a cursor of their own, which begins at the
  // same offset of the section as here: offsets stay those of the section.
  DwarfCursor unit(bool& wide) {
    std::uint64_t length = fixed<std::uint32_t>();
    wide = length == 0xffffffffu;
    if (wide) length = fixed<std::uint64_t>();
    if (length > left()) fail();
    DwarfCursor inside(good_ ? bytes_.first(at_ + length) : Bytes{}, good_ ? at_ : 1);
    if (good_) at_ += length;
    return inside;
  }

 private:
  std::uint64_t leb(bool with_sign) {
    std::uint64_t value = 0;
    unsigned shift = 0;
    while (good_) {
      const auto byte = fixed<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
      shift += 7;
      if ((byte & 0x80) != 0) continue;
      if (with_sign && shift < 64 && (byte & 0x40) != 0) value |= ~std::uint64_t{0} << shift;
      return good_ ? value : 0;
    }
    return 0;
  }

  Bytes bytes_;
  std::uint64_t at_;
  bool good_;
};

}  // namespace apb::emu
