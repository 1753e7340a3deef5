// Environment to record. Every word that is not understood is a problem with the variable's name in it, never a
// default.
#include "machine/settings/configuration.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "machine/settings/profile_configuration.h"
#include "machine/settings/visible.h"

namespace apb::emu {
namespace {

constexpr std::size_t kMostDevices = 64;
constexpr std::uint32_t kMostComputeUnits = 1024;
constexpr unsigned kMostThreads = 1024;
constexpr std::uint64_t kLeastMemory = 1ull << 20, kMostMemory = 1ull << 42;

// Cores that this process may use: fewer than the machine has in a container or under taskset.
unsigned usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count > 0 ? static_cast<unsigned>(count) : 1;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The part before `separator`; `text` keeps what follows.
std::string_view next_part(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view part = trimmed(text.substr(0, at));
  text = at == std::string_view::npos ? std::string_view{} : text.substr(at + 1);
  return part;
}

bool read_number(std::string_view text, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

// "0x6cc".
bool read_offset(std::string_view text, std::uint64_t& out) {
  if (!text.starts_with("0x")) return false;
  text.remove_prefix(2);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, 16);
  return error == std::errc{} && end == text.data() + text.size();
}

// "8G", "512M", "4096": bytes in powers of 1024.
bool read_bytes(std::string_view text, std::uint64_t& out) {
  unsigned shift = 0;
  if (!text.empty()) {
    switch (text.back()) {
      case 'k':
      case 'K': shift = 10; break;
      case 'm':
      case 'M': shift = 20; break;
      case 'g':
      case 'G': shift = 30; break;
      case 't':
      case 'T': shift = 40; break;
      default: break;
    }
  }
  if (shift) text.remove_suffix(1);
  if (!read_number(text, out) || out > (UINT64_MAX >> shift)) return false;
  out <<= shift;
  return true;
}

constexpr std::array<std::string_view, 4> kLevels{"strict", "report", "permissive", "continue"};  // as CheckLevel

class Reader {
 public:
  explicit Reader(const char* (*lookup)(const char*)) : lookup_(lookup) {}

  Configuration read() {
    devices();
    threads();
    checks();
    known();
    limit();
    patience();
    fill();
    log_level();
    counters();
    timing();
    profile();
    trace();
    configuration_.debug_socket = std::string(variable("AITER_PREBUILT_EMULATOR_DEBUG"));
    vectors();
    return std::move(configuration_);
  }

 private:
  // Only the first problem is kept: the others may follow from it.
  void problem(const char* variable, std::string_view found, const char* expected) {
    if (!configuration_.problem.empty()) return;
    configuration_.problem = std::string(variable) + ": found '" + std::string(found) + "', expected " + expected;
  }

  std::string_view variable(const char* name) const {
    const char* value = lookup_(name);
    return value ? trimmed(value) : std::string_view{};
  }

  void devices() {
    constexpr const char* kName = "AITER_PREBUILT_EMULATOR";
    std::string_view text = variable(kName);
    if (text.empty()) text = "gfx942";
    bool more = true;
    while (more) {
      more = text.find(',') != std::string_view::npos;
      device(kName, next_part(text, ','));
    }
    if (configuration_.devices.size() > kMostDevices)
      problem(kName, std::to_string(configuration_.devices.size()), "at most 64 devices");
    if (!configuration_.problem.empty()) configuration_.devices.clear();
    configuration_.devices = visible_devices(configuration_.devices, lookup_);
  }

  void device(const char* variable_name, std::string_view text) {
    DeviceConfiguration device;
    const std::string_view whole = text, target = next_part(text, ':');
    if (target == "gfx942") {
      device.target = Target::Gfx942;
      device.compute_units = 304;  // MI300X
    } else if (target == "gfx950") {
      device.target = Target::Gfx950;
      device.compute_units = 256;  // MI355X
    } else {
      problem(variable_name, whole, "gfx942 or gfx950, with options as in gfx942:cus=80:memory=8G");
      return;
    }
    while (!text.empty()) option(variable_name, next_part(text, ':'), device);
    device.number = static_cast<std::uint32_t>(configuration_.devices.size());
    configuration_.devices.push_back(device);
  }

  void option(const char* variable_name, std::string_view text, DeviceConfiguration& device) {
    const std::string_view whole = text, key = next_part(text, '=');
    std::uint64_t value = 0;
    if (key == "cus") {
      if (!read_number(trimmed(text), value) || value < 1 || value > kMostComputeUnits)
        problem(variable_name, whole, "cus=1 to cus=1024");
      device.compute_units = static_cast<std::uint32_t>(value);
    } else if (key == "memory") {
      if (!read_bytes(trimmed(text), value) || value < kLeastMemory || value > kMostMemory)
        problem(variable_name, whole, "memory=1M to memory=4T, with K, M, G or T");
      device.memory = value;
    } else if (key != "sramecc+" && key != "xnack-") {  // what the emulated cards are anyway
      problem(variable_name, whole, "the options cus=NUMBER and memory=BYTES");
    }
  }

  void threads() {
    constexpr const char* kName = "AITER_PREBUILT_EMULATOR_THREADS";
    const std::string_view text = variable(kName);
    configuration_.threads = usable_cores();
    if (text.empty()) return;
    std::uint64_t value = 0;
    if (!read_number(text, value) || value < 1 || value > kMostThreads)
      problem(kName, text, "a number from 1 to 1024");
    else
      configuration_.threads = static_cast<unsigned>(value);
  }

  void checks() {
    constexpr const char* kName = "AITER_PREBUILT_EMULATOR_CHECKS";
    std::string_view text = variable(kName);
    CheckSwitches& switches = configuration_.checks;
    while (!text.empty()) {
      const std::string_view word = next_part(text, ',');
      const auto* level = std::ranges::find(kLevels, word);
      if (level != kLevels.end())
        switches.level = static_cast<CheckLevel>(level - kLevels.begin());
      else if (word == "all")
        switches = {.lds = true, .races = true, .hazards = true, .alignment = true, .level = switches.level};
      else if (word == "none")
        switches = {.level = switches.level};
      else if (word == "lds")
        switches.lds = true;
      else if (word == "races")
        switches.races = true;
      else if (word == "hazards")
        switches.hazards = true;
      else if (word == "alignment")
        switches.alignment = true;
      else
        problem(kName, word,
                "all, none, lds, races, hazards or alignment, and a level: strict, report, permissive or continue");
    }
    if (switches.level == CheckLevel::Report && !switches.any())
      problem(kName, "report", "a check that it is to report, as in all,report");
  }

  void known() {
    constexpr const char* kName = "AITER_PREBUILT_EMULATOR_KNOWN";
    std::string_view text = variable(kName);
    while (!text.empty()) {
      const std::string_view whole = next_part(text, ' ');
      if (whole.empty()) continue;
      std::string_view kernel = whole;
      KnownFinding finding{.check = std::string(next_part(kernel, ':'))};
      const bool named = finding.check == "lds" || finding.check == "races" || finding.check == "hazards" ||
                         finding.check == "alignment";
      std::string_view last = next_part(kernel, ':');
      const std::string_view first = next_part(last, '-');
      if (!named || !read_offset(first, finding.first) || !read_offset(last.empty() ? first : last, finding.last) ||
          kernel.empty())
        return problem(
            kName, whole,
            "CHECK:0xOFFSET:KERNEL or CHECK:0xFIRST-0xLAST:KERNEL, with a check of lds, races, hazards, alignment");
      finding.kernel = std::string(kernel);
      configuration_.known.push_back(std::move(finding));
    }
  }

  void limit() {
    constexpr const char* kName = "AITER_PREBUILT_EMULATOR_LIMIT";
    const std::string_view text = variable(kName);
    if (text.empty()) return;
    std::uint64_t value = 0;
    if (!read_number(text, value))
      problem(kName, text, "a number of instructions per wave, 0 for no limit");
    else
      configuration_.instruction_limit = value;
  }

  void patience() {
    constexpr const char* kName = "AITER_PREBUILT_EMULATOR_PATIENCE";
    const std::string_view text = variable(kName);
    std::uint64_t value = 0;
    if (!text.empty() && !read_number(text, value))
      problem(kName, text, "a number of seconds");
    else if (!text.empty())
      configuration_.patience = value;
    // HIP's own variable: any number but 0.
    configuration_.launch_blocking = read_number(variable("HIP_LAUNCH_BLOCKING"), value) && value != 0;
  }

  void fill() {
    constexpr const char* kName = "AITER_PREBUILT_EMULATOR_FILL";
    const std::string_view text = variable(kName);
    if (text.empty()) return;
    std::uint64_t value = 0;
    if (!read_offset(text, value) || value > 0xff)
      problem(kName, text, "a byte, 0x00 to 0xff");
    else
      configuration_.fill = static_cast<std::uint8_t>(value);
  }

  void log_level() {
    constexpr const char* kName = "AITER_PREBUILT_EMULATOR_LOG";
    constexpr std::array<std::string_view, 5> kWords{"off", "error", "warning", "info", "trace"};
    const std::string_view text = variable(kName);
    if (text.empty()) return;
    for (std::size_t i = 0; i < kWords.size(); ++i) {
      if (kWords[i] == text) {
        configuration_.log = static_cast<LogLevel>(i);
        return;
      }
    }
    problem(kName, text, "off, error, warning, info or trace");
  }

  void vectors() {
    constexpr const char* kName = "AITER_PREBUILT_EMULATOR_VECTORS";
    const std::string_view text = variable(kName);
    if (!text.empty() && !read_vectors(text, configuration_.vectors))
      problem(kName, text, "avx2, or avx512 where the processor has it");
  }

  void counters() { configuration_.counters_file = std::string(variable("AITER_PREBUILT_EMULATOR_COUNTERS")); }

  void profile() {
    std::string found = read_profile(lookup_, configuration_.devices, configuration_.profile);
    if (configuration_.problem.empty()) configuration_.problem = std::move(found);
  }

  void trace() {
    constexpr const char* kName = "AITER_PREBUILT_EMULATOR_TRACE";
    const std::string_view text = variable(kName);
    configuration_.trace_file = std::string(variable("AITER_PREBUILT_EMULATOR_TRACE_FILE"));
    if (text.empty()) return;
    const std::string found = read_trace_filter(text, configuration_.trace);
    if (!found.empty() && configuration_.problem.empty()) configuration_.problem = std::string(kName) + ": " + found;
  }

  void timing() {
    constexpr const char* kSample = "AITER_PREBUILT_EMULATOR_SAMPLE";
    configuration_.timing_file = std::string(variable("AITER_PREBUILT_EMULATOR_TIMING"));
    const std::string_view text = variable(kSample);
    if (text.empty()) return;
    if (!read_number(text, configuration_.timing_sample) || configuration_.timing_file.empty())
      problem(kSample, text, "a number of workgroups, beside AITER_PREBUILT_EMULATOR_TIMING");
  }

  const char* (*lookup_)(const char*);
  Configuration configuration_;
};

}  // namespace

Configuration read_configuration(const char* (*lookup)(const char* name)) { return Reader(lookup).read(); }

const Configuration& configuration() {
  // Never destroyed: worker threads read it until the process is gone.
  static const Configuration* const read = [] {
    auto* made =
        new Configuration(read_configuration([](const char* name) -> const char* { return std::getenv(name); }));
    use_vectors(made->vectors);
    return made;
  }();
  return *read;
}

}  // namespace apb::emu
