// Totals per kernel and the last launches, behind one lock; a launch takes it once.
#include "machine/profile/counters.h"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "machine/check/findings.h"
#include "machine/output/json.h"
#include "machine/output/output_file.h"
#include "machine/profile/dispatch_log.h"
#include "machine/profile/timeline.h"
#include "machine/settings/configuration.h"

namespace apb::emu {
namespace {

constexpr std::size_t kRememberedLaunches = 1024;
constexpr const char* kCategoryNames[kCategoryCount] = {"salu",   "valu", "mfma",   "smem", "vmem_load", "vmem_store",
                                                        "atomic", "lds",  "branch", "wait", "other"};

struct Totals {
  std::uint64_t launches = 0, waves = 0;
  double seconds = 0;
  Counters counters;
};

struct State {
  std::mutex mutex;
  std::map<std::pair<int, std::string>, Totals> kernels;  // by device and kernel
  std::deque<LaunchRecord> launches;
  std::uint64_t dropped = 0;  // launches that are only in the totals
};

State& state();

void write_file() {
  write_output("AITER_PREBUILT_EMULATOR_COUNTERS", configuration().counters_file, counters_json() + "\n");
}

State& state() {
  static State* const only = [] {
    auto* made = new State;  // never destroyed: the exit handler reads it
    // A child of fork() must find the lock open.
    pthread_atfork([] { state().mutex.lock(); }, [] { state().mutex.unlock(); }, [] { state().mutex.unlock(); });
    if (!configuration().counters_file.empty()) std::atexit(write_file);
    return made;
  }();
  return *only;
}

void add(Counters& to, const Counters& more) {
  for (int i = 0; i < kCategoryCount; ++i) to.instructions[i] += more.instructions[i];
  to.flops += more.flops;
  to.global_read += more.global_read;
  to.global_written += more.global_written;
  to.lds_read += more.lds_read;
  to.lds_written += more.lds_written;
}

std::string fields(const Counters& counters) {
  std::string out = "\"instructions\": {";
  std::uint64_t total = 0;
  for (int i = 0; i < kCategoryCount; ++i) {
    out += std::string(i ? ", \"" : "\"") + kCategoryNames[i] + "\": " + std::to_string(counters.instructions[i]);
    total += counters.instructions[i];
  }
  out += ", \"total\": " + std::to_string(total) + "}, \"mfma_flops\": " + std::to_string(counters.flops);
  out += ", \"global_read_bytes\": " + std::to_string(counters.global_read);
  out += ", \"global_written_bytes\": " + std::to_string(counters.global_written);
  out += ", \"lds_read_bytes\": " + std::to_string(counters.lds_read);
  out += ", \"lds_written_bytes\": " + std::to_string(counters.lds_written);
  return out;
}

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%lld.%06lld", static_cast<long long>(seconds),
                static_cast<long long>(seconds * 1e6) % 1000000);
  return text;  // not %f: the locale may write a comma
}

std::string triple(const std::uint32_t (&values)[3]) {
  return "[" + std::to_string(values[0]) + ", " + std::to_string(values[1]) + ", " + std::to_string(values[2]) + "]";
}

std::string occupancy_text(const Occupancy& occupancy) {
  const auto limit = [](const char* what, std::uint32_t groups) {
    return std::string(", \"") + what + "\": " + (groups == Occupancy::kNoLimit ? "null" : std::to_string(groups));
  };
  return ", \"occupancy\": {\"workgroups\": " + std::to_string(occupancy.workgroups) +
         ", \"waves\": " + std::to_string(occupancy.workgroups * occupancy.waves) +
         ", \"limiter\": " + json_text(occupancy.limiter()) + limit("by_waves", occupancy.by_waves) +
         limit("by_registers", occupancy.by_registers) + limit("by_lds", occupancy.by_lds) +
         limit("by_barriers", occupancy.by_barriers) + "}";
}

std::string device_text(int device) {
  const auto& devices = configuration().devices;
  const bool known = device >= 0 && static_cast<std::size_t>(device) < devices.size();
  const char* target = !known                                                               ? "unknown"
                       : devices[static_cast<std::size_t>(device)].target == Target::Gfx942 ? "gfx942"
                                                                                            : "gfx950";
  return "\"device\": " + std::to_string(device) + ", \"target\": \"" + target + "\"";
}

}  // namespace

void record_launch(const LaunchRecord& record) {
  State& all = state();
  const std::lock_guard guard(all.mutex);
  Totals& totals = all.kernels[{record.device, record.kernel}];
  totals.launches += 1;
  totals.waves += record.waves;
  totals.seconds += record.seconds;
  add(totals.counters, record.counters);
  all.launches.push_back(record);
  if (all.launches.size() > kRememberedLaunches) {
    all.launches.pop_front();
    all.dropped += 1;
  }
}

std::string counters_json() {
  State& all = state();
  const std::lock_guard guard(all.mutex);
  std::string out = "{\"version\": 2, \"kernels\": [";
  const char* separator = "";
  for (const auto& [key, totals] : all.kernels) {
    out += separator + ("{\"kernel\": " + json_text(key.second)) + ", " + device_text(key.first) +
           ", \"launches\": " + std::to_string(totals.launches) + ", \"waves\": " + std::to_string(totals.waves) +
           ", \"seconds\": " + seconds_text(totals.seconds) + ", " + fields(totals.counters) + "}";
    separator = ", ";
  }
  out += "], \"launches\": [";
  separator = "";
  for (const LaunchRecord& launch : all.launches) {
    out += separator + ("{\"kernel\": " + json_text(launch.kernel)) + ", " + device_text(launch.device) +
           ", \"grid\": " + triple(launch.grid) + ", \"block\": " + triple(launch.block) +
           ", \"waves\": " + std::to_string(launch.waves) + occupancy_text(launch.occupancy) +
           ", \"seconds\": " + seconds_text(launch.seconds) + ", " + fields(launch.counters) + "}";
    separator = ", ";
  }
  out += "], \"launches_dropped\": " + std::to_string(all.dropped) + ", \"findings\": " + findings_json();
  if (const std::string profiled = dispatches_json(); !profiled.empty()) out += ", \"pmc\": " + profiled;
  return out + "}";
}

void write_counters_at_exit() {
  state();
  write_dispatches_at_exit();
  write_timeline_at_exit();
}

void reset_counters() {
  State& all = state();
  const std::lock_guard guard(all.mutex);
  all.kernels.clear();
  all.launches.clear();
  all.dropped = 0;
  reset_findings();
  reset_dispatches();
}

}  // namespace apb::emu
