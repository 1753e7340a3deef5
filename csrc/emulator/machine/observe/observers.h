// The observers of a launch's waves: checks first (after the one that lets waves come back to an instruction), then counters,
// traces and the like, as configured. One list, in observers.cpp; a launch without an entry runs in the usual loop.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "execute/observer.h"

namespace apb::emu {

struct Dispatch;
struct LaunchRecord;
struct LaunchRequest;

// Looks at one workgroup after the other, all of one launch. All waves of a workgroup run on one host thread at a time, so
// nothing here locks.
class GroupObserver {
 public:
  virtual ~GroupObserver() = default;
  virtual Observer* of_wave(std::uint32_t number) = 0;  // stays owned here; null: does not look at this wave
  // A workgroup of the launch is about to start: `group.id` is set, its waves are not.
  virtual void begin(const Workgroup& /*group*/) {}
  // Every wave that has not ended stands at its s_barrier, and will be let go.
  virtual void barrier() {}
  virtual void ended(const Wave& /*wave*/) {}
  // Its launch ends because of the wave: nothing has been taken apart yet.
  virtual void faulted(Wave& /*wave*/) {}
};

// Looks at one launch. Its GroupObservers are made on any host thread, several at a time, and hand over what they found themselves:
// at finish() none runs, and some may be gone. finish() comes after a fault, too, on the thread that
// launched or, of a launch that outlived its call, on one of the library's.
class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  virtual std::unique_ptr<GroupObserver> of_group(const Dispatch& dispatch) = 0;  // null: does not look at this launch
  virtual void finish(const LaunchRecord& /*record*/) {}
  // Does it let waves come back to an instruction? Then the others, the checks too, must not have seen it yet.
  virtual bool goes_first() const { return false; }
};
using LaunchObservers = std::vector<std::unique_ptr<LaunchObserver>>;
LaunchObservers make_observers(const LaunchRequest& request);

// Several as one, in the order of the list. Empty ones have no observer for any wave.
class GroupObservers final : public GroupObserver {
 public:
  void add(std::unique_ptr<GroupObserver> more, std::uint32_t waves);
  Observer* of_wave(std::uint32_t number) override;
  void begin(const Workgroup& group) override;
  void barrier() override;
  void ended(const Wave& wave) override;
  void faulted(Wave& wave) override;

 private:
  class Chain;
  std::vector<std::unique_ptr<GroupObserver>> all_;
  std::vector<std::unique_ptr<Chain>> chains_;  // per wave, when there is more than one of them

 public:
  GroupObservers();
  GroupObservers(const GroupObservers&) = delete;
  GroupObservers& operator=(const GroupObservers&) = delete;
  ~GroupObservers() override;
};

}  // namespace apb::emu
