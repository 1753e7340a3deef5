// The workgroups of one launch over host threads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "machine/schedule/interrupt.h"
#include "machine/schedule/workgroup.h"

namespace apb::emu {

// Threads take workgroups in order from a shared count. One that does not finish within its slice is set aside; when every resident
// one has had a slice and none has finished, twice as many become resident. One that waits for bytes in memory (watch.h)
// is parked: it takes nobody's place, so that the next one starts, and is not run before they change. So workgroups that wait for
// others find them running, in whatever order they depend on each other, up to as many as the card holds, while ordinary
// long ones stay few. When all wait, somebody else must store first, who may need this core: the launch rests between its looks.
class Scheduler {
 public:
  Scheduler(const Dispatch& dispatch, Interruption& interruption, unsigned threads, bool all_resident);
  // The loop of each thread. All threads return when no work is left, and when all workgroups have waited for a while for a store
  // that only somebody else can make. One that is not `patient` leaves after a while, too: a kernel that polls while doing work
  // is not detected as blocked.
  void work();
  void set_patient(bool patient) { patient_ = patient; }
  bool over();  // after all threads have returned: nothing is left to do
  void
  wait_for_change();  // after all threads have returned: until one of the workgroups has reason to run, or all must end
  Counters counters() const;  // after all threads have returned
  const Fault& fault() const { return fault_; }
  bool out_of_memory() const { return out_of_memory_; }

 private:
  using Slot = std::unique_ptr<ResidentWorkgroup>;
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  bool take(Slot& mine);
  void give(Slot& mine, Turn turn);
  void set_aside(Slot& mine, bool waits);
  bool can_start() const;
  bool start(Slot& mine);
  bool next(Slot& mine);
  bool ready(const ResidentWorkgroup& one) const;
  void rest(Lock& lock);
  void look(Lock& lock);
  void sleep(Lock& lock, std::chrono::microseconds time);
  bool at_end() const { return stop_ || out_of_memory_ || (next_ == dispatch_.workgroups && resident_ == 0); }
  void interrupt();
  void progress() {
    idle_since_ = {};
    polls_ = 0;
  }

  const Dispatch& dispatch_;
  Interruption& interruption_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> stop_{false};
  std::uint64_t next_ = 0, resident_ = 0, allowed_ = 1, most_ = 1, turns_without_end_ = 0;
  std::uint64_t parked_ = 0, running_ = 0;  // of the resident ones: known to wait; in a turn
  std::uint64_t look_ = 1;                  // counts times at which all waited
  bool looking_ = false;                    // a thread of this launch rests for all of them
  bool leave_ = false, patient_ = false;    // all threads return
  unsigned polls_ = 0;                      // of parked ones in vain, while others run
  Clock::time_point idle_since_;            // zero: somebody gets on
  Clock::time_point first_pause_;           // zero: no slice was used up yet
  std::deque<Slot> aside_;
  std::vector<Slot> idle_;
  Fault fault_;
  bool out_of_memory_ = false;
};

}  // namespace apb::emu
