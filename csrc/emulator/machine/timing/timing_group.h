// One workgroup after the other, recorded as it runs, with a clock for each wave; what was recorded is replayed when it is new.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "machine/observe/observers.h"
#include "machine/timing/timing_replay.h"

namespace apb::emu {

// Workgroups that executed the same instructions at the same cost.
struct TimedClass {
  std::uint64_t count = 0;
  GroupTime time;
  bool whole = true;  // the trace was kept to its end
};

class TimedClasses {
 public:
  // Replays the traces when no workgroup before was like this one.
  void add(Target target, const Instruction* code, const std::vector<WaveTrace>& waves, std::uint32_t copies,
           bool whole);
  std::vector<TimedClass> all() const;  // the most frequent first

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, TimedClass> classes_;  // by the hash of all waves' steps
};

// `clock`: what the clocks of its waves begin with. `classes` outlives it.
std::unique_ptr<GroupObserver> make_timed_group(const Dispatch& dispatch, std::uint32_t copies, std::uint64_t clock,
                                                TimedClasses& classes);

}  // namespace apb::emu
