#include "findings.h"

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

}  // namespace

void find(Wave& wave, FaultKind kind, int lane, const char* format, ...) {
  const bool report = configuration().checks.report;
  if (report && !first_time(wave, kind)) return;
  char detail[512];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(detail, sizeof detail, format, arguments);
  va_end(arguments);
  if (!report) return raise(wave, kind, lane, "%s", detail);
  log(LogLevel::Error, "found: kernel %s: %s: %s", wave.group != nullptr ? wave.group->kernel : "",
      place(wave, kind, lane).c_str(), detail);
}

}  // namespace apb::emu
