#include "findings.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

#include "configuration.h"

namespace apb::emu {

namespace {

// Is this the first finding of the kind at the wave's instruction in this process?
bool first_time(const Wave& wave, FaultKind kind) {
  static std::mutex mutex;
  static auto* const seen = new std::set<std::pair<std::uint64_t, FaultKind>>;  // worker threads outlive destructors
  const std::uint64_t at = wave.code_base + (wave.current != nullptr ? wave.current->address : 0);
  const std::lock_guard lock(mutex);
  return seen->emplace(at, kind).second;
}

// As the environment names the check that finds it.
const char* check_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::LdsUninitialised: return "lds";
    case FaultKind::LdsRace: return "races";
    case FaultKind::Hazard: return "hazards";
    default: return "alignment";
  }
}

bool is_known(const Wave& wave, FaultKind kind) {
  if (wave.group == nullptr || wave.current == nullptr) return false;
  return std::ranges::any_of(configuration().known, [&](const KnownFinding& finding) {
    const std::uint64_t at = wave.current->address;
    return finding.first <= at && at <= finding.last && finding.check == check_of(kind) &&
           finding.kernel == wave.group->kernel;
  });
}

}  // namespace

void find(Wave& wave, FaultKind kind, int lane, const char* format, ...) {
  const bool known = is_known(wave, kind), report = known || configuration().checks.report;
  if (report && !first_time(wave, kind)) return;
  char detail[512];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(detail, sizeof detail, format, arguments);
  va_end(arguments);
  if (!report) return raise(wave, kind, lane, "%s", detail);
  log(known ? LogLevel::Info : LogLevel::Error, "%s: kernel %s: %s: %s", known ? "known" : "found",
      wave.group != nullptr ? wave.group->kernel : "", place(wave, kind, lane).c_str(), detail);
}

}  // namespace apb::emu
