// A workgroup on a host thread: the waves' register files, LDS and scratch, and the round robin among its waves.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "machine/observe/observers.h"
#include "machine/schedule/dispatch.h"
#include "machine/schedule/interrupt.h"
#include "machine/schedule/spin.h"
#include "machine/schedule/watch.h"

namespace apb::emu {

enum class Turn : std::uint8_t {
  Finished,
  Paused,   // its slice is used up, or a signal came: another workgroup may have to run first
  Waiting,  // all its waves sleep, or spin on what none of them writes; see watched()
  Fault,
  Stopped,  // the launch ends because of another workgroup
};

class ResidentWorkgroup {
 public:
  explicit ResidentWorkgroup(const Dispatch& dispatch);

  // Makes all waves ready to start as workgroup number `linear` of the grid; the same object serves one workgroup after
  // the other.
  void begin(std::uint64_t linear);
  // Runs the waves in turns.
  Turn turn(const std::atomic<bool>& stop, Interruption& interruption) { return last_ = rounds(stop, interruption); }
  // After Waiting: is it known which bytes it waits for, and has one of them changed? Another thread may ask.
  bool waiting() const { return last_ == Turn::Waiting; }
  bool watched() const { return watched_; }
  bool reads() const { return watch_.reads(); }  // memory, while it waits: somebody else may end that
  bool surely() const { return surely_; }  // every wave comes back to the same state: only such a change lets it go on
  bool changed() const { return watched_ && watch_.changed(); }
  // Time in which its waves would have gone on waiting, as instructions: a hang reaches the limit as soon as without rest.
  void rested(std::uint64_t instructions);

  const Counters& counters() const { return counters_; }  // of all workgroups it has run
  const Fault& fault() const { return fault_; }
  static std::uint64_t bytes(const Dispatch& dispatch);  // memory that one such object touches, roughly

  std::uint64_t look = 0;  // the scheduler's: when it was last run

 private:
  // Anonymous memory: rows that a kernel does not use are never touched and cost nothing.
  class Pages {
   public:
    explicit Pages(std::size_t bytes);
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    ~Pages();
    std::uint8_t* data() const { return data_; }

   private:
    std::uint8_t* data_;
    std::size_t bytes_;
  };

  Turn rounds(const std::atomic<bool>& stop, Interruption& interruption);
  bool advance(Wave& wave);
  std::uint64_t written() const {
    return counters_.global_written - counters_.written_as_it_was + counters_.lds_written;
  }
  void release_barrier();
  // After a round: has it come to where only others can help?
  bool waits(bool all_sleep);
  void use_observers(bool recording);
  void forget_watch(bool in_vain);

  const Dispatch& dispatch_;
  Pages registers_, lds_, scratch_;
  Workgroup group_;
  std::vector<Wave> waves_;
  std::vector<std::uint8_t> waiting_;  // per wave: stands at the barrier
  GroupObservers observers_;
  SpinWatch spin_;
  Watch watch_;
  Turn last_ = Turn::Paused;
  bool watched_ = false, surely_ = false;
  std::uint32_t sleeping_ = 0;  // rounds in which all waves slept
  Counters counters_;
  Fault fault_;
};

}  // namespace apb::emu
