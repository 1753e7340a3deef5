#include "machine/settings/visible.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>

namespace apb::emu {
namespace {

using Devices = std::vector<DeviceConfiguration>;

constexpr std::string_view kUuidPrefix = "GPU-";
constexpr std::size_t kLongestUuid = 20;  // with its prefix

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::toupper(x) == std::toupper(y); });
}

// The only device whose UUID begins so.
std::optional<std::size_t> by_uuid(std::string_view text, const Devices& among) {
  if (text.size() <= kUuidPrefix.size() || text.size() > kLongestUuid) return {};
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < among.size(); ++i) {
    const std::string uuid = std::string(kUuidPrefix) + uuid_text(among[i]);
    if (!equals_ignoring_case(uuid.substr(0, text.size()), text)) continue;
    if (found) return {};
    found = i;
  }
  return found;
}

std::optional<std::size_t> device_of(std::string_view text, const Devices& among) {
  if (text.size() >= kUuidPrefix.size() && equals_ignoring_case(text.substr(0, kUuidPrefix.size()), kUuidPrefix))
    return by_uuid(text, among);
  if (text.size() > 1 && text.front() == '0') return {};  // HIP takes a number as it would print it
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  const bool number = error == std::errc() && end == text.data() + text.size();
  return number && index < among.size() ? std::optional(index) : std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// `rocr`: ROCR takes blanks around an entry, and ends the list at one that it has already.
Devices chosen(std::string_view list, const Devices& among, bool rocr) {
  Devices out;
  std::vector<bool> taken(among.size());
  while (true) {
    const std::size_t comma = list.find(',');
    const std::string_view entry = list.substr(0, comma);
    const auto index = device_of(rocr ? trimmed(entry) : entry, among);
    if (!index || (taken[*index] && rocr)) return out;
    if (!taken[*index]) out.push_back(among[*index]);
    taken[*index] = true;
    if (comma == std::string_view::npos) return out;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

std::string uuid_text(const DeviceConfiguration& device) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "emulator%08x", device.number);
  return text.data();
}

std::vector<DeviceConfiguration> visible_devices(const std::vector<DeviceConfiguration>& all,
                                                 const char* (*lookup)(const char* name)) {
  const auto text_of = [&](const char* name) {
    const char* value = lookup(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  const bool filtered = lookup("ROCR_VISIBLE_DEVICES") != nullptr;
  Devices out = filtered ? chosen(text_of("ROCR_VISIBLE_DEVICES"), all, true) : all;
  std::string_view hip = text_of("HIP_VISIBLE_DEVICES");
  if (hip.empty()) hip = text_of("CUDA_VISIBLE_DEVICES");
  return hip.empty() ? out : chosen(hip, out, false);
}

}  // namespace apb::emu
