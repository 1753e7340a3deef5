// Ctrl-C while a kernel runs. A card's driver waits in the kernel, and a signal ends that wait; here the host's own threads
// compute, and a kernel without an end would leave the program deaf for as long as the instruction limit allows.
#pragma once

#include <atomic>
#include <cstdint>

namespace apb::emu {

// One call that launches, from when it is asked to its end, on any thread; calls may overlap. What it begins inside (its
// kernel, the kernels of a graph) has an Interruption too, which is the same one. While there is one, SIGINT is
// counted, and then handled as the program has it: its handler is called, by the same signal. A program that has none ends at
// once, as ever, and one that ignores SIGINT is not interrupted.
class Interruption {
 public:
  Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  ~Interruption();

  // Shall the launch end? Half a second after the signal, so that whoever counts signals to stop between two launches does not
  // lose the one that is running; at once after a second signal. Any thread.
  bool due();

 private:
  Interruption* const outer_;  // of the same thread, or null
  unsigned before_ = 0;
  std::atomic<std::int64_t> seen_{0};  // when one of its threads saw the signal; nanoseconds
};

// Signals that came while a call like that ran.
unsigned interrupts_seen();

}  // namespace apb::emu
