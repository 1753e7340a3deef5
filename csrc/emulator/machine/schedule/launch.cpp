// A launch from its request to its end: is it possible, what do its waves see, who runs them.
#include "machine/schedule/launch.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "isa/decode.h"
#include "machine/memory/allocations.h"
#include "machine/profile/counters.h"
#include "machine/schedule/dispatch.h"
#include "machine/schedule/interrupt.h"
#include "machine/schedule/occupancy.h"
#include "machine/schedule/pool.h"
#include "machine/schedule/scheduler.h"
#include "machine/schedule/services.h"
#include "machine/settings/configuration.h"

namespace apb::emu {
namespace {

constexpr std::uint32_t kMostBlock = 1024, kMostGridX = 0x7fffffff, kMostGridYz = 65536;
constexpr std::uint32_t kMostScratch = 131056;  // COMPUTE_TMPRING_SIZE.WAVESIZE: 13 bits of 1 KiB per wave of 64 lanes
constexpr std::uint32_t kDynamicStackBytes = 16384;  // what HIP sets aside when a kernel's stack has no known size
constexpr std::uint64_t kPacketHeader = 2;           // HSA_PACKET_TYPE_KERNEL_DISPATCH

std::string text_of(Dim3 size) {
  return "(" + std::to_string(size.x) + ", " + std::to_string(size.y) + ", " + std::to_string(size.z) + ")";
}

std::uint64_t volume(Dim3 size) { return std::uint64_t{size.x} * size.y * size.z; }

LaunchResult check_block(const LaunchRequest& r, std::string& text) {
  const Kernel& kernel = *r.kernel;
  const std::uint32_t longest = std::max({r.block.x, r.block.y, r.block.z});
  if (longest > kMostBlock || volume(r.block) == 0 || volume(r.block) > std::min(kMostBlock, kernel.max_block)) {
    text = "block " + text_of(r.block) + ": 1 to " + std::to_string(std::min(kMostBlock, kernel.max_block)) +
           " work items are possible";
    return LaunchResult::InvalidConfiguration;
  }
  const Dim3 required{kernel.required_block[0], kernel.required_block[1], kernel.required_block[2]};
  if (volume(required) && (required.x != r.block.x || required.y != r.block.y || required.z != r.block.z)) {
    text = "block " + text_of(r.block) + ": the kernel was compiled for " + text_of(required);
    return LaunchResult::InvalidConfiguration;
  }
  if (r.tail.x >= std::max(r.block.x, 1u) || r.tail.y >= r.block.y || r.tail.z >= r.block.z) {
    text =
        "last workgroup of " + text_of(r.tail) + " work items: it must be smaller than the block " + text_of(r.block);
    return LaunchResult::InvalidConfiguration;
  }
  return LaunchResult::Done;
}

LaunchResult check_grid(const LaunchRequest& r, std::string& text) {
  const bool fits = r.grid.x <= kMostGridX && r.grid.y <= kMostGridYz && r.grid.z <= kMostGridYz;
  // The dispatch packet counts work items in 32 bits per dimension.
  const auto countable = [](std::uint32_t grid, std::uint32_t block) {
    return std::uint64_t{grid} * block <= UINT32_MAX;
  };
  if (volume(r.grid) && fits && countable(r.grid.x, r.block.x) && countable(r.grid.y, r.block.y) &&
      countable(r.grid.z, r.block.z))
    return LaunchResult::Done;
  text = "grid " + text_of(r.grid) + " of blocks " + text_of(r.block) +
         ": 1 to 2147483647, 65536, 65536 blocks and below 2^32 work items per dimension are possible";
  return LaunchResult::InvalidConfiguration;
}

LaunchResult check(const LaunchRequest& r, std::string& text) {
  if (!r.kernel || !r.kernel->object) {
    text = "no kernel";
    return LaunchResult::InvalidValue;
  }
  const auto& devices = configuration().devices;
  if (r.device < 0 || static_cast<std::size_t>(r.device) >= devices.size()) {
    text = "device " + std::to_string(r.device) + " of " + std::to_string(devices.size());
    return LaunchResult::InvalidValue;
  }
  if (LaunchResult result = check_block(r, text); result != LaunchResult::Done) return result;
  if (LaunchResult result = check_grid(r, text); result != LaunchResult::Done) return result;
  const Target target = r.kernel->object->target;
  const std::uint64_t lds = std::uint64_t{r.kernel->static_lds} + r.dynamic_lds;
  if (lds > lds_of_unit(target)) {
    text = std::to_string(r.kernel->static_lds) + " bytes of static and " + std::to_string(r.dynamic_lds) +
           " bytes of dynamic LDS: " + std::string(name(target)) + " has " + std::to_string(lds_of_unit(target));
    return LaunchResult::TooMuchLds;
  }
  if (r.kernel->private_bytes > kMostScratch) {
    text = std::to_string(r.kernel->private_bytes) + " bytes of scratch per work item: at most " +
           std::to_string(kMostScratch);
    return LaunchResult::OutOfMemory;
  }
  return LaunchResult::Done;
}

std::uint32_t scratch_bytes(const Kernel& kernel) {
  const std::uint32_t bytes =
      kernel.dynamic_stack ? std::max(kernel.private_bytes, kDynamicStackBytes) : kernel.private_bytes;
  return (bytes + 15) / 16 * 16;
}

std::uint32_t items(std::uint32_t grid, std::uint32_t block, std::uint32_t tail) {
  return tail ? (grid - 1) * block + tail : grid * block;
}

void describe_dispatch(const LaunchRequest& r, Dispatch& d) {
  d.kernel = r.kernel;
  d.grid = r.grid;
  d.block = r.block;
  d.tail = r.tail;
  d.lds_bytes = r.kernel->static_lds + r.dynamic_lds;
  const std::uint32_t piece =
      configuration().checks.level >= CheckLevel::Permissive ? lds_granule(r.kernel->object->target) : 1;
  d.lds_end = (d.lds_bytes + piece - 1) / piece * piece;
  d.scratch_bytes = scratch_bytes(*r.kernel);
  d.compute_units = configuration().devices[static_cast<std::size_t>(r.device)].compute_units;
  d.workgroups_per_unit = std::max(workgroups_per_unit(*r.kernel, volume(r.block), r.dynamic_lds), 1u);
  d.workgroups = volume(r.grid);
  if (const std::uint64_t most = configuration().timing_sample) d.workgroups = std::min(d.workgroups, most);
  d.waves = d.workgroups * d.waves_per_workgroup();
  d.memory.asks_host = names_service(*r.kernel);
  d.memory.device = Allocations::instance().snapshot(r.device);
  d.memory.ordinal = r.device;
}

void fill_packet(const LaunchRequest& r, Dispatch& d) {
  DispatchPacket& p = d.packet;
  p.header = kPacketHeader;
  p.grid_size[0] = items(r.grid.x, r.block.x, r.tail.x);
  p.grid_size[1] = items(r.grid.y, r.block.y, r.tail.y);
  p.grid_size[2] = items(r.grid.z, r.block.z, r.tail.z);
  p.setup = p.grid_size[2] > 1 ? 3 : p.grid_size[1] > 1 ? 2 : 1;
  p.workgroup_size[0] = static_cast<std::uint16_t>(r.block.x);
  p.workgroup_size[1] = static_cast<std::uint16_t>(r.block.y);
  p.workgroup_size[2] = static_cast<std::uint16_t>(r.block.z);
  p.private_segment_size = d.scratch_bytes;
  p.group_segment_size = d.lds_bytes;
  p.kernel_object = r.kernel->descriptor;
  p.kernarg_address = reinterpret_cast<std::uint64_t>(d.kernarg);
  d.memory.add("dispatch packet", reinterpret_cast<std::uint64_t>(&p), sizeof p);
}

LaunchRecord record(const LaunchRequest& r, const Dispatch& d, const Counters& counters, double seconds) {
  LaunchRecord out;
  out.kernel = r.kernel->name;
  out.device = r.device;
  const Dim3 sizes[2] = {r.grid, r.block};
  for (int i = 0; i < 2; ++i) {
    std::uint32_t* to = i == 0 ? out.grid : out.block;
    to[0] = sizes[i].x;
    to[1] = sizes[i].y;
    to[2] = sizes[i].z;
  }
  out.waves = d.waves;
  out.occupancy = occupancy(*r.kernel, volume(r.block), r.dynamic_lds);
  out.seconds = seconds;
  out.counters = counters;
  std::uint64_t instructions = 0;
  for (const std::uint64_t count : counters.instructions) instructions += count;
  log(LogLevel::Info, "kernel %s, device %d, grid %s, block %s: %llu waves, %llu instructions, %.3f ms",
      r.kernel->name.c_str(), r.device, text_of(r.grid).c_str(), text_of(r.block).c_str(),
      static_cast<unsigned long long>(d.waves), static_cast<unsigned long long>(instructions), seconds * 1e3);
  record_launch(out);
  return out;
}

LaunchResult fault_of(const LaunchRequest& r, const Fault& found, Fault& fault, std::string& text) {
  fault = found;
  fault.text = "kernel " + r.kernel->name + ": " + found.text;
  text = fault.text;
  return LaunchResult::Fault;
}

LaunchResult no_memory(const LaunchRequest& r, std::string& text) {
  text = "kernel " + r.kernel->name + ": out of host memory";
  return LaunchResult::OutOfMemory;
}

// One launch while it runs. Waves see its dispatch, so it does not move.
class RunningLaunch final : public LaunchRest {
 public:
  RunningLaunch(const LaunchRequest& request, std::shared_ptr<Interruption> interruption)
      : request_(request), interruption_(std::move(interruption)) {
    describe_dispatch(request_, dispatch_);
    fill_kernarg(request_, dispatch_);
    fill_packet(request_, dispatch_);
    dispatch_.observers = make_observers(request_);
    threads_ =
        static_cast<unsigned>(std::min<std::uint64_t>(std::max(configuration().threads, 1u), dispatch_.workgroups));
    scheduler_.emplace(dispatch_, *interruption_, threads_, request_.cooperative);
  }

  void run(bool patient) {
    scheduler_->set_patient(patient);
    run_on_pool(threads_ - 1, [this] { scheduler_->work(); });
  }
  bool over() { return scheduler_->over(); }
  // The caller's thread keeps no live state for it from now on.
  void leave() {
    request_.arguments = {};
    interruption_->leave();
  }

  LaunchResult result(Fault& fault, std::string& text) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin_;
    if (scheduler_->out_of_memory()) {
      text = "no host memory for a workgroup's registers";
      return LaunchResult::OutOfMemory;
    }
    const LaunchRecord done = record(request_, dispatch_, scheduler_->counters(), seconds.count());
    for (const auto& each : dispatch_.observers) each->finish(done);
    if (scheduler_->fault().kind != FaultKind::None) return fault_of(request_, scheduler_->fault(), fault, text);
    return LaunchResult::Done;
  }

  // While all wait only this thread looks after them: the helpers are for others.
  LaunchResult finish(Fault& fault, std::string& text) override {
    try {
      while (!over()) {
        scheduler_->wait_for_change();
        run(true);
      }
      return result(fault, text);
    } catch (const std::bad_alloc&) {
      return no_memory(request_, text);
    }
  }

 private:
  LaunchRequest request_;
  std::shared_ptr<Interruption> interruption_;
  Dispatch dispatch_;
  unsigned threads_ = 1;
  std::optional<Scheduler> scheduler_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

LaunchResult run_launch(const LaunchRequest& r, Fault& fault, std::string& text, std::unique_ptr<LaunchRest>* rest) {
  if (!r.kernel->register_problem.empty())
    return fault_of(
        r,
        {FaultKind::IllegalRegister, std::string(name(FaultKind::IllegalRegister)) + ": " + r.kernel->register_problem},
        fault, text);
  const InterruptionScope scope;
  auto running = std::make_unique<RunningLaunch>(r, scope.state());
  running->run(rest == nullptr);
  if (rest == nullptr || running->over()) return running->finish(fault, text);
  running->leave();
  *rest = std::move(running);
  return LaunchResult::Waits;
}

}  // namespace

LaunchResult launch(const LaunchRequest& request, Fault& fault, std::string& text, std::unique_ptr<LaunchRest>* rest) {
  fault = {};
  text.clear();
  const LaunchResult possible = check(request, text);
  if (possible != LaunchResult::Done) {
    if (request.kernel) text = "kernel " + request.kernel->name + ": " + text;
    return possible;
  }
  try {
    return run_launch(request, fault, text, rest);
  } catch (const std::bad_alloc&) {
    return no_memory(request, text);
  }
}

}  // namespace apb::emu
