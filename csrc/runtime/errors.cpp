#include "errors.h"

#include <system_error>
#include <utility>

namespace apb {

bool Error::set(ErrorKind new_kind, std::string new_asked, std::string new_found, std::string new_fix) {
  kind = new_kind;
  asked = std::move(new_asked);
  found = std::move(new_found);
  fix = std::move(new_fix);
  reasons.clear();
  return false;
}

void Error::about(std::string_view function, std::string_view argument) {
  asked = cat(function);
  found = cat(argument, " ", found);
}

std::string system_error_text(int code) { return std::generic_category().message(code); }

std::string list_text(const std::int64_t* values, std::size_t count) {
  std::string out = "[";
  for (std::size_t i = 0; i < count; ++i) {
    if (i != 0) out += ", ";
    detail::append(out, values[i]);
  }
  out += ']';
  return out;
}

std::string hex_text(std::uint64_t value) {
  std::array<char, 20> digits;
  char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  return "0x" + std::string(digits.data(), end);
}

std::string hex_bytes(const std::uint8_t* bytes, std::size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * size);
  for (std::size_t i = 0; i < size; ++i) {
    out += kDigits[bytes[i] >> 4];
    out += kDigits[bytes[i] & 15];
  }
  return out;
}

}  // namespace apb
