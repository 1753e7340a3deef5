// Ctrl-C while a kernel runs. A card's driver waits in the kernel, and a signal ends that wait; here the host's own threads
// compute, and a kernel without an end would leave the program deaf for as long as the instruction limit allows.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace apb::emu {

// Ends one launch, or all launches of one call, early: on SIGINT, or on request. Any thread.
class Interruption {
 public:
  explicit Interruption(unsigned signals_before) : before_(signals_before) {}
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  ~Interruption() = default;

  // Shall the launch end? Half a second after the signal, so that whoever counts signals to stop between two launches does not
  // lose the one that is running; at once after a second signal.
  bool due();
  void ask() { asked_.store(true, std::memory_order_relaxed); }
  // The call is over and its launch is not: signals are no matter any more, because they are for who waits for it.
  void leave() { left_.store(true); }
  bool left() const { return left_.load(std::memory_order_relaxed); }

 private:
  const unsigned before_;
  std::atomic<std::int64_t> seen_{0};  // when one of its threads saw the signal; nanoseconds
  std::atomic<bool> asked_{false}, left_{false};
};

// One call that launches or waits, from when it is asked to its end, on any thread; calls may overlap. What it begins inside (its
// kernel, the kernels of a graph) has a scope too, and the Interruption of the outermost one. While there is one, SIGINT is
// counted, and then handled as the program has it: its handler is called, by the same signal. A program that has none ends at
// once, as ever, and one that ignores SIGINT is not interrupted.
class InterruptionScope {
 public:
  InterruptionScope();
  // On a thread of the library's own, for work whose call is over: no signal ends it.
  explicit InterruptionScope(std::shared_ptr<Interruption> other);
  InterruptionScope(const InterruptionScope&) = delete;
  InterruptionScope& operator=(const InterruptionScope&) = delete;
  ~InterruptionScope();
  const std::shared_ptr<Interruption>& state() const { return state_; }

 private:
  std::shared_ptr<Interruption> state_;
  bool outermost_ = false, counts_ = false;
};

// The number of host calls that wait for unfinished work. A kernel that waits for somebody else is at rest. That time counts as
// instructions (AITER_PREBUILT_EMULATOR_LIMIT) only while somebody would hang with it.
std::atomic<unsigned>& waiting_calls();

// For a call that waits, at each look: the program may have another handler by now. Any lock may be held.
void look_for_handlers();

// Signals that came while a call like that ran.
unsigned interrupts_seen();

}  // namespace apb::emu
