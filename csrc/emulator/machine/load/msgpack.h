// The part of MessagePack that kernel metadata needs: a reader of whole documents that may be broken.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "machine/load/bytes.h"

namespace apb::emu {

struct MessageValue {
  enum class Kind : std::uint8_t { Nothing, Boolean, Integer, Real, Text, Binary, List, Map };
  Kind kind = Kind::Nothing;
  bool boolean = false;
  std::int64_t integer = 0;  // unsigned values above 2^63 - 1 keep their bits
  std::string_view text;     // str and bin, in the document
  std::vector<MessageValue> list;
  std::vector<std::pair<MessageValue, MessageValue>> map;

  // The value of a text key; a value of kind nothing when there is none or this is no map.
  const MessageValue& operator[](std::string_view key) const;
};

// False for anything that is not one well-formed value at the start of `bytes`, that nests deeper than any metadata
// does, or that has a map with a key that is no text or is there twice. What follows the value does not matter.
[[nodiscard]] bool read_message(Bytes bytes, MessageValue& out);

}  // namespace apb::emu
