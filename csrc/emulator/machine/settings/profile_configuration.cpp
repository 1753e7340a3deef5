#include "machine/settings/profile_configuration.h"

#include <regex.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "machine/profile/pmc.h"

namespace apb::emu {
namespace {

constexpr std::string_view kBlank = " \t";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlank);
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string problem(const char* variable, std::string_view found, const std::string& expected) {
  return std::string(variable) + ": found '" + std::string(found) + "', expected " + expected;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    words.push_back(trimmed(text.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    text = text.substr(comma + 1);
    if (text.empty()) words.emplace_back();  // a comma at the end: a name is missing
  }
  return words;
}

std::string read_names(std::string_view text, unsigned targets, std::vector<std::string>& out) {
  constexpr const char* kName = "AITER_PREBUILT_EMULATOR_PMC";
  for (const std::string_view name : words_of(text)) {
    std::string why;
    const PmcCounter* counter = find_pmc(name, why);
    if (counter == nullptr) return problem(kName, name, why);
    if ((counter->targets & targets) == 0)
      return problem(kName, name, "a counter of the devices that there are: this one is gfx950's");
    if (std::ranges::find(out, name) == out.end()) out.emplace_back(name);
  }
  return {};
}

class Expression {
 public:
  explicit Expression(const std::string& text)
      : valid_(::regcomp(&compiled_, text.c_str(), REG_EXTENDED | REG_NOSUB) == 0) {}
  Expression(const Expression&) = delete;
  Expression& operator=(const Expression&) = delete;
  ~Expression() {
    if (valid_) ::regfree(&compiled_);
  }
  bool valid() const { return valid_; }
  bool fits(const std::string& text) const { return valid_ && ::regexec(&compiled_, text.c_str(), 0, nullptr, 0) == 0; }

 private:
  regex_t compiled_{};
  bool valid_;
};

}  // namespace

bool profiles(const ProfileConfiguration& profile, const std::string& kernel) {
  // Compiled for each launch: it costs nothing beside a launch that is profiled.
  if (!profile.include.empty() && !Expression(profile.include).fits(kernel)) return false;
  return profile.exclude.empty() || !Expression(profile.exclude).fits(kernel);
}

std::string read_profile(const char* (*lookup)(const char*), std::span<const DeviceConfiguration> devices,
                         ProfileConfiguration& out) {
  const auto variable = [lookup](const char* name) {
    const char* value = lookup(name);
    return value != nullptr ? trimmed(value) : std::string_view{};
  };
  out.timeline = std::string(variable("AITER_PREBUILT_EMULATOR_PERFETTO"));
  out.output = std::string(variable("AITER_PREBUILT_EMULATOR_PMC_OUTPUT"));
  constexpr const char* kFormat = "AITER_PREBUILT_EMULATOR_PMC_FORMAT";
  if (const std::string_view formats = variable(kFormat); !formats.empty()) {
    out.csv = out.json = false;
    for (const std::string_view word : words_of(formats)) {
      if (word != "csv" && word != "json") return problem(kFormat, word, "csv, json or csv,json");
      (word == "csv" ? out.csv : out.json) = true;
    }
  }
  for (const auto& [name, text] : {std::pair{"AITER_PREBUILT_EMULATOR_PMC_INCLUDE", &out.include},
                                   std::pair{"AITER_PREBUILT_EMULATOR_PMC_EXCLUDE", &out.exclude}}) {
    *text = std::string(variable(name));
    if (!text->empty() && !Expression(*text).valid())
      return problem(name, *text, "an extended regular expression, as grep -E has them");
  }
  unsigned targets = 0;
  for (const DeviceConfiguration& device : devices) targets |= target_bit(device.target);
  return read_names(variable("AITER_PREBUILT_EMULATOR_PMC"), targets, out.counters);
}

}  // namespace apb::emu
