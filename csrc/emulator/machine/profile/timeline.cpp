#include "machine/profile/timeline.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "isa/decode.h"
#include "machine/output/json.h"
#include "machine/output/output_file.h"
#include "machine/settings/configuration.h"

namespace apb::emu {
namespace {

constexpr std::uint64_t kMostSlices = 300'000;  // waves and waits of a process: some 60 MB of text
constexpr std::size_t kMostLaunches = 50'000;
constexpr int kProcessesOfDevice = 100, kTracksOfUnit = 64;

struct Launch {
  std::string kernel;
  int device = 0;
  std::uint64_t queue = 0, start = 0, cycles = 0;
  Dim3 grid;
  std::uint32_t waves_per_group = 1;
  std::vector<GroupTimes> groups;
};

struct State {
  std::mutex mutex;
  std::vector<Launch> launches;
  std::map<int, std::uint64_t> now;  // by device: launches lie one behind the other
  std::uint64_t dropped_groups = 0, dropped_launches = 0;
};

void write_file();
std::atomic<std::uint64_t> slices_left{kMostSlices};

State& state() {
  static State* const only = [] {
    auto* made = new State;  // never destroyed: the exit handler reads it
    pthread_atfork([] { state().mutex.lock(); }, [] { state().mutex.unlock(); },
                   [] {
                     state().launches.clear();  // the parent writes them
                     state().mutex.unlock();
                   });
    std::atexit(write_file);
    return made;
  }();
  return *only;
}

std::string_view wait_name(Event kind) {
  switch (kind) {
    case Event::WaitVector: return "wait vmcnt";
    case Event::WaitLds: return "wait lgkmcnt";
    case Event::WaitBarrier: return "wait barrier";
    default: return "wait MFMA";
  }
}

// Microseconds with three places, a cycle being shown as a nanosecond. By hand: the locale may write a comma.
std::string stamp(std::uint64_t cycles) {
  char text[32];
  std::snprintf(text, sizeof text, "%llu.%03llu", static_cast<unsigned long long>(cycles / 1000),
                static_cast<unsigned long long>(cycles % 1000));
  return text;
}

class Writer {
 public:
  void slice(int process, std::uint64_t track, std::string_view name, std::uint64_t begin, std::uint64_t end,
             const std::string& arguments) {
    open("X", process, track);
    text_ += ", \"name\": " + json_text(name) + ", \"ts\": " + stamp(begin) + ", \"dur\": " + stamp(end - begin);
    text_ += ", \"args\": {" + arguments + "}}";
  }
  void process(int process, const std::string& name) {
    if (!processes_.insert(process).second) return;
    label("process_name", process, 0, name);
    open("M", process, 0);
    text_ += ", \"name\": \"process_sort_index\", \"args\": {\"sort_index\": " + std::to_string(process) + "}}";
  }
  void track(int process, std::uint64_t track, const std::string& name) {
    if (tracks_.insert({process, track}).second) label("thread_name", process, track, name);
  }
  std::string take(const std::string& other) {
    return "{\"displayTimeUnit\": \"ns\", \"otherData\": {" + other + "}, \"traceEvents\": [" + std::move(text_) +
           "\n]}\n";
  }

 private:
  void open(const char* phase, int process, std::uint64_t track) {
    text_ += text_.empty() ? "\n" : ",\n";
    text_ += std::string("{\"ph\": \"") + phase + "\", \"pid\": " + std::to_string(process) +
             ", \"tid\": " + std::to_string(track);
  }
  void label(const char* what, int process, std::uint64_t track, const std::string& name) {
    open("M", process, track);
    text_ += std::string(", \"name\": \"") + what + "\", \"args\": {\"name\": " + json_text(name) + "}}";
  }
  std::string text_;
  std::set<int> processes_;
  std::set<std::pair<int, std::uint64_t>> tracks_;
};

// Workgroups take their slot when the one before has left it.
std::vector<std::uint64_t> starts_of(const Launch& launch, std::uint64_t& last) {
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint64_t> free;
  std::vector<std::uint64_t> starts;
  for (const GroupTimes& group : launch.groups) {
    std::uint64_t& at = free[{group.place.xcc, group.place.unit, group.place.slot}];
    starts.push_back(at);
    at += group.cycles;
    last = std::max(last, at);
  }
  return starts;
}

std::string name_of(int device) {
  const Target target = configuration().devices[static_cast<std::size_t>(device)].target;
  return "device " + std::to_string(device) + " (" + std::string(name(target)) + ")";
}

void write_group(Writer& out, const Launch& launch, const GroupTimes& group, std::uint64_t begin, double stretch) {
  const int process = launch.device * kProcessesOfDevice + 1 + static_cast<int>(group.place.xcc);
  out.process(process, name_of(launch.device) + " XCD " + std::to_string(group.place.xcc));
  const auto time = [&](std::uint64_t cycles) {
    return launch.start + static_cast<std::uint64_t>(static_cast<double>(begin + cycles) * stretch);
  };
  const std::uint64_t x = group.number % launch.grid.x, y = group.number / launch.grid.x % launch.grid.y,
                      z = group.number / launch.grid.x / launch.grid.y;
  for (std::size_t w = 0; w < group.waves.size(); ++w) {
    const WaveTimes& wave = group.waves[w];
    const std::uint64_t at = std::uint64_t{group.place.slot} * launch.waves_per_group + w;
    const std::uint64_t track = std::uint64_t{group.place.unit} * kTracksOfUnit + at + 1;
    out.track(process, track,
              "CU " + std::to_string(group.place.unit) + " SIMD " + std::to_string(at % kSimds) + " slot " +
                  std::to_string(at / kSimds));
    out.slice(process, track, launch.kernel, time(0), time(wave.end),
              "\"workgroup\": [" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) +
                  "], \"wave\": " + std::to_string(w) + (wave.cut ? ", \"waits_cut\": true" : ""));
    for (const Wait& wait : wave.waits)
      out.slice(process, track, wait_name(wait.kind), time(wait.begin), time(wait.end), "");
  }
}

void write_launch(Writer& out, const Launch& launch) {
  const int process = launch.device * kProcessesOfDevice;
  out.process(process, name_of(launch.device) + " kernels");
  out.track(process, launch.queue, "stream " + std::to_string(launch.queue));
  out.slice(process, launch.queue, launch.kernel, launch.start, launch.start + launch.cycles,
            "\"workgroups\": " + std::to_string(std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z));
  std::uint64_t last = 0;
  const std::vector<std::uint64_t> starts = starts_of(launch, last);
  // Shared units make a launch longer than each of its waves alone: the picture is stretched to it.
  const double stretch = last == 0 ? 1 : static_cast<double>(launch.cycles) / static_cast<double>(last);
  for (std::size_t g = 0; g < launch.groups.size(); ++g) write_group(out, launch, launch.groups[g], starts[g], stretch);
}

void write_file() {
  State& all = state();
  const std::lock_guard guard(all.mutex);
  Writer out;
  for (const Launch& launch : all.launches) write_launch(out, launch);
  const std::string other =
      "\"version\": 1, \"time\": \"estimated cycles; one cycle is shown as one nanosecond\", "
      "\"workgroups_dropped\": " +
      std::to_string(all.dropped_groups) + ", \"launches_dropped\": " + std::to_string(all.dropped_launches);
  if (all.dropped_groups + all.dropped_launches != 0)
    log(LogLevel::Error,
        "AITER_PREBUILT_EMULATOR_PERFETTO: %llu workgroups and %llu launches are not in the file, which is full",
        static_cast<unsigned long long>(all.dropped_groups), static_cast<unsigned long long>(all.dropped_launches));
  write_output("AITER_PREBUILT_EMULATOR_PERFETTO", with_process(configuration().profile.timeline), out.take(other));
}

}  // namespace

bool timeline_has_room(std::uint64_t slices) {
  std::uint64_t left = slices_left.load();
  while (left >= slices)
    if (slices_left.compare_exchange_weak(left, left - slices)) return true;
  return false;
}

void add_to_timeline(const LaunchRequest& request, LaunchProfile profile) {
  State& all = state();
  const std::lock_guard guard(all.mutex);
  all.dropped_groups += profile.groups_dropped;
  if (all.launches.size() == kMostLaunches) {
    ++all.dropped_launches;
    return;
  }
  std::uint64_t& now = all.now[request.device];
  Launch launch;
  launch.kernel = request.kernel->name;
  launch.device = request.device;
  launch.queue = request.queue;
  launch.start = now;
  launch.cycles = profile.timing.cycles;
  launch.grid = request.grid;
  launch.waves_per_group = profile.waves_per_group;
  launch.groups = std::move(profile.groups);
  now += profile.timing.cycles;
  all.launches.push_back(std::move(launch));
}

void write_timeline_at_exit() {
  if (!configuration().profile.timeline.empty()) state();
}

}  // namespace apb::emu
