// The clock of one wave: in order, four cycles an instruction, with a scoreboard for what instructions leave behind.
#pragma once

#include <array>
#include <cstdint>
#include <deque>

#include "machine/timing/timing_trace.h"

namespace apb::emu {

// The units that waves of a compute unit share: the end of each unit's present work, and its busy cycles.
struct TimingUnits {
  static constexpr int kSimds = 4;
  struct Unit {
    std::uint64_t free = 0, busy = 0;
    // Begins at `at` or when it is free; says when it began.
    std::uint64_t take(std::uint64_t at, std::uint64_t cycles);
  };
  Unit simd[kSimds], matrix[kSimds], scalar[kSimds], memory, lds;
};

enum class TimingWait : std::uint8_t { Memory, Lds, Barrier, Units };
inline constexpr std::size_t kTimingWaits = 4;

class TimingWave {
 public:
  TimingWave(Target target, int simd) : target_(target), numbers_(&timing_numbers(target)), simd_(simd) {}

  // The cycle at which the wave can go on behind this instruction.
  void execute(const Instruction& instruction, const TimingStep& step, TimingUnits& units);
  std::uint64_t now() const { return now_; }
  void start_at(std::uint64_t cycle) { now_ = cycle; }
  void leave_barrier(std::uint64_t cycle);
  std::uint64_t waited(TimingWait kind) const { return waited_[static_cast<std::size_t>(kind)]; }
  // When the last of what it asked for has come.
  std::uint64_t done() const;

 private:
  static constexpr std::uint32_t kRegisters = 512;
  void wait_until(std::uint64_t cycle, TimingWait kind);
  void wait_for(std::uint32_t immediate);
  void wait_for_operands(const Instruction& instruction);
  void alu(const Instruction& instruction, TimingUnits& units);
  void memory(const Instruction& instruction, const TimingStep& step, TimingUnits& units);

  Target target_;
  const TimingNumbers* numbers_;
  int simd_;
  std::uint64_t now_ = 0;
  std::array<std::uint64_t, kRegisters> ready_{};  // results of matrix instructions
  std::uint64_t any_ready_ = 0;                    // all are by then
  std::deque<std::uint64_t> memory_, lds_;         // when each of those under way is back, in the order of issue
  std::array<std::uint64_t, kTimingWaits> waited_{};
};

}  // namespace apb::emu
