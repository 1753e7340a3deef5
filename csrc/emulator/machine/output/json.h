// Text inside JSON quotes: the only piece of JSON writing that can go wrong.
#pragma once

#include <string>
#include <string_view>

namespace apb::emu {

// Quotes, backslashes and control characters escaped; bytes that are no UTF-8 become U+FFFD (names come from files
// nobody checked).
std::string json_text(std::string_view text);
// Well-formed UTF-8, as MessagePack's strings are.
bool is_utf8(std::string_view text);
// The same care for a line of a log: control characters and bytes that are no UTF-8 become question marks.
void make_printable(std::string& text);

}  // namespace apb::emu
