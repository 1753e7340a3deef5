// The trace of a wave for the timing model: one short record for each instruction, with the cost of its addresses.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "execute/observer.h"
#include "machine/timing/timing_numbers.h"

namespace apb::emu {

struct TimingStep {
  std::uint32_t index = 0;      // of the instruction in its code object, in dwords
  std::uint32_t bytes = 0;      // of memory, asked for by active lanes
  std::uint16_t memory = 0;     // cycles of the vector memory path
  std::uint16_t lds = 0;        // cycles of LDS
  std::uint16_t conflicts = 0;  // of these, because of banks
  std::uint16_t missed = 0;     // lines that the L1 did not have
  bool taken = false;           // a branch that jumped
  bool operator==(const TimingStep&) const = default;
};

// Cycles of LDS for one access of a wave, 0 to 16 bytes a lane.
struct LdsCost {
  std::uint32_t cycles = 0, conflicts = 0;
};
LdsCost lds_cost(const TimingNumbers& numbers, LdsAccess access, const std::uint32_t* address, std::uint64_t active,
                 std::uint32_t bytes);

// The L1 of a compute unit, least recently used lines first out.
class VectorCache {
 public:
  explicit VectorCache(const TimingNumbers& numbers);
  bool hit(std::uint64_t line);  // and it is there from now on
  void clear();

 private:
  static constexpr std::uint32_t kWays = 64;
  struct Way {
    std::uint64_t line = UINT64_MAX, used = 0;
  };
  std::uint32_t sets_;
  std::uint64_t now_ = 0;
  std::vector<Way> ways_;
};

// Gathers the accesses of one instruction of one wave.
class StepRecorder {
 public:
  StepRecorder(const TimingNumbers& numbers, VectorCache& cache) : numbers_(&numbers), cache_(&cache) {}
  void start(const Instruction& instruction);
  void lds(int lane, LdsAccess access, std::uint32_t address, std::uint32_t bytes);
  void lds(LdsAccess access, const std::uint32_t* address, std::uint64_t active, std::uint32_t bytes);
  void global(int lane, std::uint64_t address, std::uint32_t bytes);
  void global(const std::uint64_t* address, std::uint64_t active, std::uint32_t bytes);
  TimingStep finish(const Instruction& instruction, bool taken);

 private:
  // Accesses that came lane by lane: those of all lanes together are one access of the wave.
  struct Round {
    std::array<std::uint32_t, kLanes> address{};
    std::uint64_t active = 0;
    std::uint32_t bytes = 0;
    LdsAccess access = LdsAccess::Read;
  };
  void flush();

  const TimingNumbers* numbers_;
  VectorCache* cache_;
  TimingStep step_;
  Round round_;
  std::vector<std::uint64_t> sectors_;  // of memory, one for each cycle of the path
};

}  // namespace apb::emu
