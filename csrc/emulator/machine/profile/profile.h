// Counts a launch for rocprofv3's counters and for the timeline of its waves. Only there when one of them was asked for.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "machine/observe/observers.h"
#include "machine/profile/estimate.h"
#include "machine/profile/sectors.h"
#include "machine/profile/sites.h"
#include "machine/schedule/dispatch.h"
#include "machine/schedule/occupancy.h"
#include "machine/schedule/wave_setup.h"

namespace apb::emu {

// A workgroup on the timeline: its waves' times, from its own start.
struct WaveTimes {
  std::uint64_t end = 0;
  std::vector<Wait> waits;
  bool cut = false;  // there were more waits than are kept
};
struct GroupTimes {
  std::uint64_t number = 0, cycles = 0;
  Place place;
  std::vector<WaveTimes> waves;
};

// All that is known of a launch when it is over: what counters are computed from.
struct LaunchProfile {
  Target target{};
  std::uint32_t compute_units = 1;
  Sums sums;
  Sites sites;
  SectorCount xcd_read, xcd_written;  // distinct for each XCD, summed over them: what its L2 must fetch and write back
  std::uint64_t xcd_lines = 0;        // of 128 bytes, read or written: what its L2 does not have at first
  SectorCount launch_read, launch_written;  // distinct in the launch
  std::uint64_t scalar_halves = 0;          // of 64 bytes, distinct for each scalar cache
  Timing timing;
  Occupancy occupancy;
  std::uint32_t waves_per_group = 1;
  std::vector<GroupTimes> groups;  // for the timeline, those that were kept, by number
  std::uint64_t groups_dropped = 0;
};

class LaunchProfiler final : public LaunchObserver {
 public:
  explicit LaunchProfiler(const LaunchRequest& request);
  std::unique_ptr<GroupObserver> of_group(const Dispatch& dispatch) override;
  void finish(const LaunchRecord& record) override;

  // The result of a workgroup when its last wave ended; any host thread.
  struct GroupResult {
    std::uint64_t number = 0;
    Place place;
    UnitLoad load;
    SectorSet *read = nullptr, *written = nullptr, *scalar = nullptr;
    GroupTimes* times = nullptr;  // null: no timeline
  };
  void ended(const GroupResult& group);
  // The sums of an observer's workgroups, also of those that never ended; stays alive here.
  struct Tally {
    Sums sums;
    Sites sites;
  };
  std::shared_ptr<Tally> new_tally();

 private:
  LaunchProfile profile();

  const LaunchRequest& request_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Tally>> tallies_;
  std::vector<UnitLoad> units_;
  std::vector<SectorSet> read_, written_;  // by XCD
  std::vector<SectorSet> scalar_;          // by scalar cache
  std::vector<GroupTimes> groups_;
  std::uint64_t dropped_ = 0;
  std::uint32_t waves_per_group_ = 1, resident_ = 1;
  std::uint64_t start_ = 0;  // host nanoseconds
};

}  // namespace apb::emu
