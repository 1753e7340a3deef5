#include "machine/profile/profile.h"

#include <algorithm>
#include <ctime>

#include "machine/profile/dispatch_log.h"
#include "machine/profile/group_profile.h"
#include "machine/profile/timeline.h"
#include "machine/settings/configuration.h"

namespace apb::emu {
namespace {

// The time as in ROCm's timestamps: nanoseconds since the machine started.
std::uint64_t host_nanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// Two compute units share a scalar cache (AMD's white paper of CDNA3).
constexpr std::size_t kUnitsOfScalarCache = 2;

}  // namespace

LaunchProfiler::LaunchProfiler(const LaunchRequest& request)
    : request_(request),
      units_(configuration().devices[static_cast<std::size_t>(request.device)].compute_units),
      read_(xccs_of(static_cast<std::uint32_t>(units_.size()))),
      written_(read_.size()),
      scalar_(units_.size() / kUnitsOfScalarCache + 1),
      start_(host_nanoseconds()) {}

std::unique_ptr<GroupObserver> LaunchProfiler::of_group(const Dispatch& dispatch) {
  {
    const std::lock_guard guard(mutex_);
    resident_ = dispatch.workgroups_per_unit;
    waves_per_group_ = dispatch.waves_per_workgroup();
  }
  return std::make_unique<GroupProfiler>(*this, dispatch, !configuration().profile.timeline.empty());
}

std::shared_ptr<LaunchProfiler::Tally> LaunchProfiler::new_tally() {
  auto made = std::make_shared<Tally>();
  const std::lock_guard guard(mutex_);
  tallies_.push_back(made);
  return made;
}

void LaunchProfiler::ended(const GroupResult& group) {
  const std::lock_guard guard(mutex_);
  const std::size_t in_xcc = std::max<std::size_t>(units_.size() / read_.size(), 1);
  const std::size_t unit = std::min(group.place.xcc * in_xcc + group.place.unit, units_.size() - 1);
  units_[unit].add(group.load);
  read_[group.place.xcc].merge(*group.read);
  read_[group.place.xcc].merge(*group.scalar);
  scalar_[unit / kUnitsOfScalarCache].merge(*group.scalar);
  written_[group.place.xcc].merge(*group.written);
  if (group.times == nullptr) return;
  std::uint64_t slices = group.times->waves.size();
  for (const WaveTimes& wave : group.times->waves) slices += wave.waits.size();
  if (!timeline_has_room(slices)) {
    ++dropped_;
    return;
  }
  groups_.push_back(std::move(*group.times));
}

LaunchProfile LaunchProfiler::profile() {
  LaunchProfile out;
  out.target = request_.kernel->object->target;
  out.compute_units = static_cast<std::uint32_t>(units_.size());
  for (const auto& each : tallies_) {
    out.sums.add(each->sums);
    for (const auto& [offset, site] : each->sites) out.sites[offset].add(site);
  }
  SectorSet all_read, all_written;
  for (std::size_t xcc = 0; xcc < read_.size(); ++xcc) {
    out.xcd_read.add(read_[xcc].count());
    out.xcd_written.add(written_[xcc].count());
    all_read.merge(read_[xcc]);
    all_written.merge(written_[xcc]);
    read_[xcc].merge(written_[xcc]);
    out.xcd_lines += read_[xcc].count().lines;
  }
  for (const SectorSet& each : scalar_) out.scalar_halves += each.count().halves;
  out.launch_read = all_read.count();
  out.launch_written = all_written.count();
  constexpr std::uint64_t kLine = 128, kSector = 1u << kSectorShift;
  out.timing =
      estimate(out.target, units_, resident_, out.launch_read.lines * kLine + out.launch_written.sectors * kSector);
  const Dim3 block = request_.block;
  out.occupancy = occupancy(*request_.kernel, std::uint64_t{block.x} * block.y * block.z, request_.dynamic_lds);
  out.waves_per_group = waves_per_group_;
  std::ranges::sort(groups_, {}, &GroupTimes::number);
  out.groups = std::move(groups_);
  out.groups_dropped = dropped_;
  return out;
}

void LaunchProfiler::finish(const LaunchRecord& record) {
  LaunchProfile found = profile();
  log_dispatch(request_, record, found, start_);
  if (!configuration().profile.timeline.empty()) add_to_timeline(request_, std::move(found));
}

}  // namespace apb::emu
