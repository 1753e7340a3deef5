#include "machine/profile/dispatch_log.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "machine/load/descriptor.h"
#include "machine/output/json.h"
#include "machine/output/output_file.h"
#include "machine/profile/pmc.h"
#include "machine/settings/configuration.h"

namespace apb::emu {
namespace {

constexpr std::size_t kMostDispatches = 100'000;  // in memory until the process ends

struct DispatchRow {
  std::uint64_t id = 0, queue = 0, kernel_id = 0, grid = 0, start = 0, end = 0;
  int device = 0;
  long thread = 0;
  std::uint32_t workgroup = 0, lds = 0, scratch = 0, vgprs = 0, agprs = 0, sgprs = 0;
  std::string kernel, limiter;
  std::uint64_t groups = 0, cycles = 0;
  const char* timing = "";
  std::vector<double> values;  // in the order of the configuration's names; NaN: not on this target
};

struct State {
  std::mutex mutex;
  std::deque<DispatchRow> rows;
  struct Known {
    std::uint64_t id = 0;
    KernelSites sites;
  };
  // Two modules may have a kernel of one name: where its code is and how long tell them apart.
  std::map<std::tuple<std::string, std::uint32_t, std::uint32_t>, Known> kernels;
  std::uint64_t next = 0, dropped = 0;
};

void write_files();

State& state() {
  static State* const only = [] {
    auto* made = new State;  // never destroyed: the exit handler reads it
    pthread_atfork([] { state().mutex.lock(); }, [] { state().mutex.unlock(); },
                   [] {
                     state().rows.clear();  // the parent writes them
                     state().kernels.clear();
                     state().mutex.unlock();
                   });
    if (!configuration().profile.output.empty()) std::atexit(write_files);
    return made;
  }();
  return *only;
}

// SGPRs are given out in sixteens: rsrc1 [9:6] counts half of that (LLVM, AMDGPUUsage, GRANULATED_WAVEFRONT_SGPR_COUNT of gfx9).
std::uint32_t allocated_sgprs(const Kernel& kernel) { return ((kernel.rsrc1 >> 6 & 15) / 2 + 1) * 16; }

void describe(DispatchRow& row, const LaunchRequest& r, const LaunchProfile& p) {
  const Kernel& kernel = *r.kernel;
  const auto items = [](std::uint32_t grid, std::uint32_t block, std::uint32_t tail) {
    return tail != 0 ? std::uint64_t{grid - 1} * block + tail : std::uint64_t{grid} * block;
  };
  row.device = r.device;
  row.queue = r.queue;
  row.thread = ::syscall(SYS_gettid);
  row.grid = items(r.grid.x, r.block.x, r.tail.x) * items(r.grid.y, r.block.y, r.tail.y) *
             items(r.grid.z, r.block.z, r.tail.z);
  row.groups = std::uint64_t{r.grid.x} * r.grid.y * r.grid.z;
  row.workgroup = r.block.x * r.block.y * r.block.z;
  const std::uint32_t granule = lds_granule(p.target), lds = kernel.static_lds + r.dynamic_lds;
  row.lds = (lds + granule - 1) / granule * granule;
  row.scratch = kernel.private_bytes;
  const std::uint32_t both = rsrc::allocated_vgprs(kernel.rsrc1);
  row.vgprs = std::min(rsrc::accum_offset(kernel.rsrc3), both);
  row.agprs = both - row.vgprs;
  row.sgprs = allocated_sgprs(kernel);
  row.kernel = kernel.name;
  row.limiter = p.occupancy.limiter();
  row.cycles = p.timing.cycles;
  row.timing = p.timing.source;
}

std::string number_text(double value) {
  char text[64];
  if (value == std::floor(value) && std::fabs(value) < 9e15) {
    std::snprintf(text, sizeof text, "%lld", static_cast<long long>(value));
    return text;
  }
  // Not %f with a fraction: the locale may write a comma.
  const double whole = std::floor(std::fabs(value));
  const long long parts = std::llround((std::fabs(value) - whole) * 1e6);
  std::snprintf(text, sizeof text, "%s%lld.%06lld", value < 0 ? "-" : "",
                static_cast<long long>(whole) + parts / 1000000, parts % 1000000);
  return text;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out + "\"";
}

void csv_rows(const DispatchRow& row, std::string& out) {
  const auto& names = configuration().profile.counters;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::isnan(row.values[i])) continue;
    std::string value = number_text(row.values[i]);
    if (value.find('.') == std::string::npos) value += ".000000";
    out += std::to_string(row.id) + "," + std::to_string(row.id) + ",\"Agent " + std::to_string(row.device + 1) +
           "\"," + std::to_string(row.queue) + "," + std::to_string(::getpid()) + "," + std::to_string(row.thread) +
           "," + std::to_string(row.grid) + "," + std::to_string(row.kernel_id) + "," + quoted(row.kernel) + "," +
           std::to_string(row.workgroup) + "," + std::to_string(row.lds) + "," + std::to_string(row.scratch) + "," +
           std::to_string(row.vgprs) + "," + std::to_string(row.agprs) + "," + std::to_string(row.sgprs) + "," +
           quoted(names[i]) + "," + value + "," + std::to_string(row.start) + "," + std::to_string(row.end) + "\n";
  }
}

std::string json_row(const DispatchRow& row) {
  const auto field = [](const char* name, std::uint64_t value) {
    return std::string(", \"") + name + "\": " + std::to_string(value);
  };
  std::string out = "{\"dispatch\": " + std::to_string(row.id) + ", \"kernel\": " + json_text(row.kernel);
  out += field("device", static_cast<std::uint64_t>(row.device)) + field("queue", row.queue) +
         field("kernel_id", row.kernel_id) + field("work_items", row.grid) + field("workgroups", row.groups) +
         field("workgroup_size", row.workgroup) + field("lds_bytes", row.lds) + field("scratch_bytes", row.scratch) +
         field("vgprs", row.vgprs) + field("agprs", row.agprs) + field("sgprs", row.sgprs) +
         field("cycles", row.cycles);
  out += ", \"cycles_from\": " + json_text(row.timing) + ", \"occupancy_limiter\": " + json_text(row.limiter);
  out += ", \"counters\": {";
  const auto& names = configuration().profile.counters;
  const char* separator = "";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::isnan(row.values[i])) continue;
    out += separator + json_text(names[i]) + ": " + number_text(row.values[i]);
    separator = ", ";
  }
  return out + "}}";
}

std::string document(State& all) {
  std::string out = "{\"counters\": [";
  const char* separator = "";
  for (const std::string& name : configuration().profile.counters) {
    out += separator + json_text(name);
    separator = ", ";
  }
  out += "], \"dispatches\": [";
  separator = "";
  for (const DispatchRow& row : all.rows) {
    out += separator + json_row(row);
    separator = ", ";
  }
  out += "], \"dropped\": " + std::to_string(all.dropped) + ", \"kernels\": [";
  separator = "";
  for (const auto& [key, known] : all.kernels) {
    out += separator + ("{\"kernel\": " + json_text(std::get<0>(key))) +
           ", \"kernel_id\": " + std::to_string(known.id) + ", \"sites\": " + known.sites.json() + "}";
    separator = ", ";
  }
  return out + "]}";
}

void write_files() {
  State& all = state();
  const std::lock_guard guard(all.mutex);
  const ProfileConfiguration& asked = configuration().profile;
  const std::string base = with_process(asked.output);
  if (all.dropped != 0)
    log(LogLevel::Error, "AITER_PREBUILT_EMULATOR_PMC: the first %llu launches are not in the files, which keep %zu",
        static_cast<unsigned long long>(all.dropped), kMostDispatches);
  if (asked.csv) {
    std::string text =
        "\"Correlation_Id\",\"Dispatch_Id\",\"Agent_Id\",\"Queue_Id\",\"Process_Id\",\"Thread_Id\",\"Grid_Size\","
        "\"Kernel_Id\","
        "\"Kernel_Name\",\"Workgroup_Size\",\"LDS_Block_Size\",\"Scratch_Size\",\"VGPR_Count\",\"Accum_VGPR_Count\","
        "\"SGPR_Count\",\"Counter_Name\",\"Counter_Value\",\"Start_Timestamp\",\"End_Timestamp\"\n";
    for (const DispatchRow& row : all.rows) csv_rows(row, text);
    write_output("AITER_PREBUILT_EMULATOR_PMC_OUTPUT", base + "_counter_collection.csv", text);
  }
  if (asked.json)
    write_output("AITER_PREBUILT_EMULATOR_PMC_OUTPUT", base + "_results.json",
                 "{\"version\": 1, \"process\": " + std::to_string(::getpid()) + ", \"pmc\": " + document(all) + "}\n");
}

}  // namespace

void log_dispatch(const LaunchRequest& request, const LaunchRecord& /*record*/, const LaunchProfile& profile,
                  std::uint64_t start) {
  const ProfileConfiguration& asked = configuration().profile;
  if (asked.counters.empty()) return;
  DispatchRow row;
  describe(row, request, profile);
  row.start = start;
  row.end =
      start + static_cast<std::uint64_t>(static_cast<double>(profile.timing.cycles) * 1e9 / clock_of(profile.target));
  std::string problem;
  for (const std::string& name : asked.counters) {
    const PmcCounter* counter = find_pmc(name, problem);
    const bool there = counter != nullptr && (counter->targets & target_bit(profile.target)) != 0;
    row.values.push_back(there ? counter->value(profile) : std::nan(""));
  }
  State& all = state();
  const std::lock_guard guard(all.mutex);
  row.id = ++all.next;
  const std::uint64_t next_kernel = all.kernels.size() + 1;
  State::Known& kernel = all.kernels[{row.kernel, request.kernel->entry, request.kernel->code_bytes}];
  if (kernel.id == 0) kernel.id = next_kernel;
  kernel.sites.add(*request.kernel, profile.sites);
  row.kernel_id = kernel.id;
  all.rows.push_back(std::move(row));
  if (all.rows.size() <= kMostDispatches) return;
  all.rows.pop_front();
  ++all.dropped;
}

std::string dispatches_json() {
  if (configuration().profile.counters.empty()) return {};
  State& all = state();
  const std::lock_guard guard(all.mutex);
  return document(all);
}

void reset_dispatches() {
  if (configuration().profile.counters.empty()) return;
  State& all = state();
  const std::lock_guard guard(all.mutex);
  all.rows.clear();
  all.kernels.clear();
  all.dropped = 0;
}

void write_dispatches_at_exit() {
  if (!configuration().profile.counters.empty()) state();
}

}  // namespace apb::emu
