#include "machine/timing/timing.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>

#include "machine/output/json.h"
#include "machine/profile/counters.h"
#include "machine/schedule/dispatch.h"
#include "machine/settings/configuration.h"
#include "machine/timing/timing_group.h"

namespace apb::emu {
namespace {

constexpr std::size_t kRememberedLaunches = 16384;

struct TimedLaunch {
  LaunchRecord record;
  Target target{};
  std::uint32_t compute_units = 1, resident = 1;
  std::uint64_t cycles = 0;
  std::vector<TimedClass> classes;
};

struct State {
  std::mutex mutex;
  std::deque<TimedLaunch> launches;
  std::uint64_t dropped = 0;
};

State& state();
void write_file();

State& state() {
  static State* const only = [] {
    auto* made = new State;  // never destroyed: the exit handler reads it
    // A child of fork() must find the lock open.
    pthread_atfork([] { state().mutex.lock(); }, [] { state().mutex.unlock(); }, [] { state().mutex.unlock(); });
    std::atexit(write_file);
    return made;
  }();
  return *only;
}

void write_file() {
  const std::string& path = configuration().timing_file;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  const std::string text = timing_json() + "\n";
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr && std::fclose(file) != 0) written = false;
  if (!written) log(LogLevel::Error, "AITER_PREBUILT_EMULATOR_TIMING: cannot write '%s'", path.c_str());
}

// A launch takes as many rounds as its workgroups need; where they differ, the compute units share their time.
std::uint64_t cycles_of(const TimedLaunch& launch, std::uint64_t groups) {
  std::uint64_t longest = 0, sum = 0, seen = 0;
  for (const TimedClass& each : launch.classes) {
    longest = std::max(longest, each.time.cycles);
    sum += each.time.cycles * each.count;
    seen += each.count;
  }
  if (seen == 0) return 0;
  const std::uint64_t slots = std::uint64_t{launch.compute_units} * launch.resident;
  if (launch.classes.size() == 1) return longest * ((groups + slots - 1) / slots);
  return std::max(longest, sum * groups / seen / slots);
}

class Timing final : public LaunchObserver {
 public:
  explicit Timing(const LaunchRequest& request) : target_(request.kernel->object->target), clock_(device_clock()) {}

  std::unique_ptr<GroupObserver> of_group(const Dispatch& dispatch) override {
    const std::uint64_t groups = std::uint64_t{dispatch.grid.x} * dispatch.grid.y * dispatch.grid.z;
    const std::uint64_t per_unit = (groups + dispatch.compute_units - 1) / dispatch.compute_units;
    const std::lock_guard guard(mutex_);
    groups_ = groups;
    launch_.compute_units = dispatch.compute_units;
    launch_.resident = static_cast<std::uint32_t>(std::min<std::uint64_t>(dispatch.workgroups_per_unit, per_unit));
    return make_timed_group(dispatch, launch_.resident, clock_, classes_);
  }

  void finish(const LaunchRecord& record) override {
    launch_.record = record;
    launch_.target = target_;
    launch_.classes = classes_.all();
    launch_.cycles = cycles_of(launch_, groups_);
    device_clock() += launch_.cycles;
    State& all = state();
    const std::lock_guard guard(all.mutex);
    all.launches.push_back(std::move(launch_));
    if (all.launches.size() <= kRememberedLaunches) return;
    all.launches.pop_front();
    ++all.dropped;
  }

 private:
  // Cycles that all launches so far have taken: what a kernel's clock begins with.
  static std::atomic<std::uint64_t>& device_clock() {
    static std::atomic<std::uint64_t> clock{0};
    return clock;
  }

  Target target_;
  std::uint64_t clock_, groups_ = 0;
  std::mutex mutex_;
  TimedLaunch launch_;
  TimedClasses classes_;
};

std::string class_text(const TimedClass& each) {
  const GroupTime& t = each.time;
  const auto field = [](const char* name, std::uint64_t value) {
    return ", \"" + std::string(name) + "\": " + std::to_string(value);
  };
  constexpr const char* kWaits[] = {"wait_memory", "wait_lds", "wait_barrier", "wait_units"};
  std::string out = "{\"workgroups\": " + std::to_string(each.count) + field("cycles", t.cycles) +
                    field("instructions", t.instructions) + field("matrix_cycles", t.matrix) +
                    field("vector_cycles", t.vector) + field("memory_cycles", t.memory) + field("lds_cycles", t.lds) +
                    field("lds_conflict_cycles", t.conflicts) + field("bytes", t.bytes) +
                    field("missed_bytes", t.missed_bytes);
  for (std::size_t kind = 0; kind < std::size(kWaits); ++kind) out += field(kWaits[kind], t.waits[kind]);
  return out + ", \"whole\": " + (each.whole ? "true" : "false") + "}";
}

std::string launch_text(const TimedLaunch& launch) {
  const auto triple = [](const std::uint32_t (&v)[3]) {
    return "[" + std::to_string(v[0]) + ", " + std::to_string(v[1]) + ", " + std::to_string(v[2]) + "]";
  };
  std::string out = "{\"kernel\": " + json_text(launch.record.kernel) +
                    ", \"device\": " + std::to_string(launch.record.device) + ", \"target\": \"" +
                    (launch.target == Target::Gfx942 ? "gfx942" : "gfx950") +
                    "\", \"grid\": " + triple(launch.record.grid) + ", \"block\": " + triple(launch.record.block) +
                    ", \"compute_units\": " + std::to_string(launch.compute_units) +
                    ", \"resident\": " + std::to_string(launch.resident) +
                    ", \"megahertz\": " + std::to_string(timing_numbers(launch.target).megahertz) +
                    ", \"cycles\": " + std::to_string(launch.cycles) + ", \"classes\": [";
  for (std::size_t i = 0; i < launch.classes.size(); ++i) out += (i != 0 ? ", " : "") + class_text(launch.classes[i]);
  return out + "]}";
}

}  // namespace

std::unique_ptr<LaunchObserver> make_timing(const LaunchRequest& request) {
  if (configuration().timing_file.empty()) return nullptr;
  return std::make_unique<Timing>(request);
}

void write_timing_at_exit() {
  if (!configuration().timing_file.empty()) state();
}

std::string timing_json() {
  State& all = state();
  const std::lock_guard guard(all.mutex);
  std::string out = "{\"version\": 1, \"launches\": [";
  for (std::size_t i = 0; i < all.launches.size(); ++i) out += (i != 0 ? ",\n" : "\n") + launch_text(all.launches[i]);
  return out + "], \"launches_dropped\": " + std::to_string(all.dropped) + "}";
}

}  // namespace apb::emu
