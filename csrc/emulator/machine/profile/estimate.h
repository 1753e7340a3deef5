// A simple estimate of cycles, for the counters that need a time to be shares of: a wave issues in order and alone, waits where it says
// s_waitcnt or s_barrier, and for the matrix pipe. What a compute unit's waves share bounds them from outside. It knows no dependencies
// between registers, no caches but "has this workgroup touched the line", and no other workgroup's traffic: see the README.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "machine/profile/pmc_events.h"

namespace apb::emu {

inline constexpr std::uint32_t kSimds = 4;

struct Wait {
  std::uint64_t begin = 0, end = 0;
  Event kind{};  // WaitVector, WaitLds, WaitBarrier, WaitMatrix
};

// The cost of an instruction's accesses, known when it was executed.
struct AccessCost {
  std::uint32_t lds_cycles = 0;  // of the banks
  std::uint32_t halves = 0;      // of 64 bytes, one a cycle through the address unit and the vector cache
  bool missed = false;           // touched a line that the workgroup had not touched before
};

// One wave's time.
class WaveClock {
 public:
  void start() { *this = WaveClock(); }
  // `waits` gets what it waited for, if given.
  void issue(const Instruction& instruction, const OpcodeClass& opcode, std::uint32_t matrix_cycles,
             const AccessCost& cost, Sums& sums, std::vector<Wait>* waits);
  std::uint64_t now() const { return now_; }
  void release(std::uint64_t at, Sums& sums, std::vector<Wait>* waits);  // from a barrier

 private:
  // Completion times of what is under way in one of the wave's counters; they are taken as in order.
  class Queue {
   public:
    void add(std::uint64_t done);
    std::uint64_t until(std::uint32_t left) const;  // when at most `left` are under way

   private:
    static constexpr std::uint32_t kMost = 64;  // vmcnt has 6 bits
    std::array<std::uint64_t, kMost> done_{};
    std::uint32_t count_ = 0;  // ever added
  };
  void wait(std::uint64_t until, Event kind, Sums& sums, std::vector<Wait>* waits);

  std::uint64_t now_ = 0, matrix_free_ = 0, memory_free_ = 0, lds_free_ = 0;
  Queue vector_, others_;
};

// The load of one compute unit in a launch.
struct UnitLoad {
  std::array<std::uint64_t, kSimds> issue{}, matrix{};  // cycles
  std::uint64_t lds = 0, memory = 0;
  std::uint64_t groups = 0;       // sum of the workgroups' own times
  std::uint64_t longest = 0;      // of them
  std::uint64_t wave_cycles = 0;  // sum of the waves' own times
  void add(const UnitLoad& more);
  // With `resident` workgroups at a time.
  std::uint64_t cycles(std::uint32_t resident) const;
};

// A launch's time. `cycles` is where a better model's answer goes: everything that is a share of time divides by it.
struct Timing {
  std::uint64_t cycles = 0;       // of the whole launch, on the compute units' clock
  std::uint64_t unit_cycles = 0;  // summed over compute units that had work
  std::uint64_t wave_cycles = 0;  // summed over waves, from their first instruction to their last
  const char* source = "estimate";
};
Timing estimate(Target target, const std::vector<UnitLoad>& units, std::uint32_t resident, std::uint64_t memory_bytes);

// Cycles a second of the cards' highest clock: MI300X 2.1 GHz, MI355X 2.4 GHz (AMD's data sheets).
double clock_of(Target target);

}  // namespace apb::emu
