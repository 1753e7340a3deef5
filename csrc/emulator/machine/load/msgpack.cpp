// The MessagePack specification, https://github.com/msgpack/msgpack/blob/master/spec.md: one type byte, then big-endian
// lengths and values.
#include "machine/load/msgpack.h"

#include <algorithm>

#include "machine/output/json.h"

namespace apb::emu {
namespace {

constexpr int kDeepest = 16;

class MessageReader {
 public:
  explicit MessageReader(Bytes bytes) : bytes_(bytes) {}

  bool value(MessageValue& out, int depth) {
    std::uint64_t type = 0;
    if (depth > kDeepest || !number(1, type)) return false;
    if (type <= 0x7f) return integer(out, static_cast<std::int64_t>(type));
    if (type <= 0x8f) return map(out, type & 15, depth);
    if (type <= 0x9f) return list(out, type & 15, depth);
    if (type <= 0xbf) return text(out, type & 31);
    if (type >= 0xe0) return integer(out, static_cast<std::int8_t>(type));
    return other(out, type, depth);
  }

 private:
  bool other(MessageValue& out, std::uint64_t type, int depth) {
    std::uint64_t n = 0;
    switch (type) {
      case 0xc0: return true;
      case 0xc2:
      case 0xc3:
        out.kind = MessageValue::Kind::Boolean;
        out.boolean = type == 0xc3;
        return true;
      case 0xc4:
      case 0xc5:
      case 0xc6: return number(1u << (type - 0xc4), n) && raw(out, n, MessageValue::Kind::Binary);
      case 0xca:
      case 0xcb:
        out.kind = MessageValue::Kind::Real;  // metadata has none: the value is not kept
        return number(type == 0xca ? 4 : 8, n);
      case 0xcc:
      case 0xcd:
      case 0xce:
      case 0xcf: return number(1u << (type - 0xcc), n) && integer(out, static_cast<std::int64_t>(n));
      case 0xd0: return number(1, n) && integer(out, static_cast<std::int8_t>(n));
      case 0xd1: return number(2, n) && integer(out, static_cast<std::int16_t>(n));
      case 0xd2: return number(4, n) && integer(out, static_cast<std::int32_t>(n));
      case 0xd3: return number(8, n) && integer(out, static_cast<std::int64_t>(n));
      case 0xd9:
      case 0xda:
      case 0xdb: return number(1u << (type - 0xd9), n) && text(out, n);
      case 0xdc:
      case 0xdd: return number(type == 0xdc ? 2 : 4, n) && list(out, n, depth);
      case 0xde:
      case 0xdf: return number(type == 0xde ? 2 : 4, n) && map(out, n, depth);
      default: return false;  // extension types: metadata has none
    }
  }

  bool number(unsigned bytes, std::uint64_t& out) {
    Bytes part;
    if (!slice(bytes_, at_, bytes, part)) return false;
    out = 0;
    for (const std::uint8_t byte : part) out = out << 8 | byte;
    at_ += bytes;
    return true;
  }

  bool integer(MessageValue& out, std::int64_t number_value) {
    out.kind = MessageValue::Kind::Integer;
    out.integer = number_value;
    return true;
  }

  bool text(MessageValue& out, std::uint64_t bytes) {
    return raw(out, bytes, MessageValue::Kind::Text) && is_utf8(out.text);
  }

  bool raw(MessageValue& out, std::uint64_t bytes, MessageValue::Kind kind) {
    Bytes part;
    if (!slice(bytes_, at_, bytes, part)) return false;
    out.kind = kind;
    out.text = {reinterpret_cast<const char*>(part.data()), part.size()};
    at_ += bytes;
    return true;
  }

  // Nothing is reserved for a claimed count: each element must be there first, so memory stays proportional to the
  // document.
  bool list(MessageValue& out, std::uint64_t count, int depth) {
    out.kind = MessageValue::Kind::List;
    for (std::uint64_t i = 0; i < count; ++i)
      if (!value(out.list.emplace_back(), depth + 1)) return false;
    return true;
  }

  bool map(MessageValue& out, std::uint64_t count, int depth) {
    out.kind = MessageValue::Kind::Map;
    for (std::uint64_t i = 0; i < count; ++i) {
      auto& [key, mapped] = out.map.emplace_back();
      if (!value(key, depth + 1) || key.kind != MessageValue::Kind::Text || !value(mapped, depth + 1)) return false;
    }
    std::vector<std::string_view> keys;
    keys.reserve(out.map.size());
    for (const auto& [key, mapped] : out.map) keys.push_back(key.text);
    std::ranges::sort(keys);
    return std::ranges::adjacent_find(keys) == keys.end();
  }

  Bytes bytes_;
  std::uint64_t at_ = 0;
};

}  // namespace

const MessageValue& MessageValue::operator[](std::string_view key) const {
  static const MessageValue nothing;
  for (const auto& [name, value] : map)
    if (name.kind == Kind::Text && name.text == key) return value;
  return nothing;
}

bool read_message(Bytes bytes, MessageValue& out) { return MessageReader(bytes).value(out, 0); }

}  // namespace apb::emu
