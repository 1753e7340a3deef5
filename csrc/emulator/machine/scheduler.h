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

#include "interrupt.h"
#include "workgroup.h"

namespace apb::emu {

// Threads take workgroups in order from a shared count. One that does not finish within its slice is set aside; when
// every resident one has had a slice and none has finished, twice as many become resident: workgroups that wait for
// others find them running in the end, in whatever order they depend on each other, while ordinary long ones stay few.
// When all that can run wait, somebody else must store first, who may need this core: the launch rests between its looks.
class Scheduler {
 public:
  Scheduler(const Dispatch& dispatch, Interruption& interruption, unsigned threads, bool all_resident);
  void work();                // what each thread does; returns when nothing is left for it
  Counters counters() const;  // after all threads have returned
  const Fault& fault() const { return fault_; }
  bool out_of_memory() const { return out_of_memory_; }

 private:
  using Slot = std::unique_ptr<ResidentWorkgroup>;
  bool take(Slot& mine);
  bool give(Slot& mine, Turn turn);        // true: everybody waits, let another process have the core
  bool set_aside(Slot& mine, bool waits);  // the same
  bool all_wait();
  bool start(Slot& mine);
  void interrupt();

  const Dispatch& dispatch_;
  Interruption& interruption_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> stop_{false};
  std::uint64_t next_ = 0, resident_ = 0, allowed_ = 1, most_ = 1, turns_without_end_ = 0;
  std::uint64_t waiting_turns_ = 0;                   // since somebody did something else
  std::chrono::steady_clock::time_point not_before_;  // the next look, when everybody waits
  std::deque<Slot> aside_;
  std::vector<Slot> idle_;
  Fault fault_;
  bool out_of_memory_ = false;
};

}  // namespace apb::emu
