#include "machine/check/findings.h"

#include <pthread.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <mutex>
#include <utility>

#include "execute/lines.h"
#include "machine/output/json.h"
#include "machine/settings/configuration.h"

namespace apb::emu {

namespace {

struct Found {
  std::string kernel, source;
  std::uint64_t offset = 0, count = 0;
};

struct State {
  std::mutex mutex;
  std::map<std::pair<std::uint64_t, FaultKind>, Found> found;  // by the instruction's address
};

State& state() {
  static State* const only = [] {
    auto* made = new State;  // worker threads outlive destructors
    pthread_atfork([] { state().mutex.lock(); }, [] { state().mutex.unlock(); }, [] { state().mutex.unlock(); });
    return made;
  }();
  return *only;
}

// Counts it. Is this the first finding of the kind at the wave's instruction in this process?
bool first_time(const Wave& wave, FaultKind kind) {
  const std::uint64_t offset = wave.current != nullptr ? wave.current->address : 0;
  State& all = state();
  const std::lock_guard lock(all.mutex);
  const auto [at, first] = all.found.try_emplace({wave.code_base + offset, kind});
  if (first && wave.group != nullptr) {
    at->second.kernel = wave.group->kernel;
    if (wave.group->lines != nullptr) at->second.source = wave.group->lines->text(static_cast<std::uint32_t>(offset));
  }
  at->second.offset = offset;
  ++at->second.count;
  return first;
}

// The check's name in the environment variable.
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
  const bool known = is_known(wave, kind), report = known || configuration().checks.level != CheckLevel::Strict;
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

bool tolerates(const Wave& wave) {
  const CheckLevel level = configuration().checks.level;
  const FaultKind kind = wave.fault.kind;
  const bool lets_pass = (kind == FaultKind::LdsOutOfBounds && level >= CheckLevel::Permissive) ||
                         (kind == FaultKind::IllegalAddress && level == CheckLevel::Continue);
  if (lets_pass && first_time(wave, kind))
    log(LogLevel::Error, "found: kernel %s: %s", wave.group->kernel, wave.fault.text.c_str());
  return lets_pass;
}

std::string findings_json() {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  std::string out = "[";
  for (const auto& [key, found] : all.found) {
    if (found.count == 0) continue;  // before the counters were reset
    out += (out.size() > 1 ? ", " : "") + ("{\"kernel\": " + json_text(found.kernel)) +
           ", \"finding\": " + json_text(name(key.second)) + ", \"offset\": " + std::to_string(found.offset) +
           (found.source.empty() ? "" : ", \"source\": " + json_text(found.source)) +
           ", \"count\": " + std::to_string(found.count) + "}";
  }
  return out + "]";
}

void reset_findings() {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  for (auto& [key, found] : all.found) found.count = 0;
}

}  // namespace apb::emu
