// The state that a debugger sees: running workgroups, stopped waves with their reasons, and how they go on. All stop when one
// does.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "machine/debug/debug_breakpoints.h"
#include "machine/schedule/dispatch.h"

namespace apb::emu {

// A workgroup between its first instruction and its last. Its waves are changed by one host thread, and only while `executing`.
struct LiveGroup {
  struct Seat {
    Wave* wave = nullptr;  // null: has not begun, or has ended
    const Instruction* next = nullptr;
    bool inside = false;      // `next` was looked at and has not been executed
    std::uint64_t count = 0;  // instructions that were looked at
  };
  std::uint64_t serial = 0;  // of the process; 0: none runs
  const Dispatch* dispatch = nullptr;
  const Workgroup* group = nullptr;
  DebuggedCode* code = nullptr;
  std::vector<Seat> seats;
  std::uint32_t left = 0;  // waves that have not ended
  std::atomic<bool> executing{false};

  std::uint32_t offset(const Seat& seat) const { return seat.inside ? seat.next->address : seat.wave->pc * 4; }
};

enum class StepKind : std::uint8_t { Instruction, In, Over, Out };

class DebugState {
 public:
  static DebugState& instance();

  // ---- of waves, on the threads that run them
  bool attached() const { return attached_.load(std::memory_order_acquire); }
  bool attention() const { return attention_.load(std::memory_order_seq_cst); }
  std::shared_ptr<DebuggedCode> code_of(const CodeObject& code);
  void begin(LiveGroup& group);
  void end(LiveGroup& group);
  void wave_ended(LiveGroup& group, std::uint32_t number);
  // The wave is about to execute seats[number].next; returns when it goes on. False: not yet, others shall run first.
  [[nodiscard]] bool look(LiveGroup& group, std::uint32_t number);
  // It has stopped with a fault.
  void fault(LiveGroup& group, std::uint32_t number);

  // ---- of whoever debugs, on the thread that reads the socket
  void attach();
  void detach();  // everybody goes on, and nobody stops any more
  void set_breakpoints(std::vector<Breakpoint> all);
  void stop_on_fault(bool stop);
  void stop_at_entry();
  void pause();
  bool resume();  // false: nothing stands
  bool step(std::uint64_t group, std::uint32_t wave, StepKind kind);

  // Calls `see` with all live groups while everything stands still; false: something runs.
  template <typename See> bool standing(See see) {
    std::unique_lock lock(mutex_);
    if (!halted_ || !wait_until_still(lock)) return false;
    see(live_);
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Step {
    bool on = false;
    const LiveGroup* group = nullptr;
    std::uint64_t serial = 0;
    std::uint32_t wave = 0;
    std::uint64_t after = 0;  // its count
    StepKind kind{};
    std::vector<std::uint64_t> levels;  // of the line that it began at
    Clock::time_point seen;             // when its wave was about to execute something
    std::uint64_t waited = 0;           // how often others have come for nothing since then
    bool of(const LiveGroup& other, std::uint32_t number) const {
      return on && group == &other && serial == other.serial && wave == number;
    }
  };
  using Lock = std::unique_lock<std::mutex>;
  struct Reason {
    std::string why, extra;  // empty: none
    bool waits = false;      // for the wave that is stepped
  };
  Reason reason(const LiveGroup& group, std::uint32_t number);
  std::string breakpoints_at(const LiveGroup& group, std::uint32_t number) const;
  bool step_is_done(const LiveGroup& group, std::uint32_t number) const;
  void halt(LiveGroup& group, std::uint32_t number, const std::string& reason, const std::string& extra);
  void park(Lock& lock, LiveGroup& group);
  bool wait_until_still(Lock& lock);
  void go_on();
  void update_attention();
  void say_placed(const std::vector<Resolved>& placed);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> attached_{false}, attention_{false};
  bool halted_ = false, pause_ = false, entry_ = false, stop_on_fault_ = true;
  std::uint64_t serial_ = 0, halts_ = 0;
  unsigned interrupts_ = 0;  // seen when it halted
  Step step_;
  std::vector<Breakpoint> breakpoints_;
  std::map<std::uint64_t, std::shared_ptr<DebuggedCode>> codes_;  // by CodeObject::number
  std::vector<LiveGroup*> live_;
};

}  // namespace apb::emu
