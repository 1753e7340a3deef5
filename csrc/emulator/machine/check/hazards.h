// The registers of one wave that are still being loaded: vmcnt and lgkmcnt as gfx9 counts them.
#pragma once

#include <array>
#include <cstdint>

#include "execute/wave.h"

namespace apb::emu {

// Vector memory returns in the order of issue (gfx9 has one counter for loads, stores and atomics), LDS among itself too; scalar
// loads come back in any order, so only lgkmcnt(0) tells that one of them has. FLAT counts in both; memory answers with vmcnt, LDS with
// lgkmcnt, there in no order with what else LDS does.
class Hazards {
 public:
  // Raises `hazard` when the instruction touches a register that is being loaded; then counts it, or forgets what it waits for.
  void before(Wave& wave, const Instruction& instruction);
  void reset();

  // The vector memory instruction issued last, as a number for arrived().
  std::uint32_t last_vector_memory() const { return vector_issued_; }
  std::uint32_t vector_memory_done() const { return vector_done_; }  // all up to this one have arrived
  bool arrived(std::uint32_t number) const { return number <= vector_done_; }
  static bool loads_to_lds(const Instruction& instruction);

 private:
  struct Load {
    std::uint32_t vector = 0, lds = 0, scalar = 0;  // numbers in the three queues; 0 or done: nothing to wait for
    std::uint32_t address = 0;                      // of the load's instruction
    std::uint32_t step = 0;                         // when it was issued, in instructions of the wave
  };
  static constexpr int kScalarFirst = 512, kRegisters = kScalarFirst + sreg::kCount;

  bool waiting(const Load& load) const {
    return load.vector > vector_done_ || load.lds > lds_done_ || load.scalar > scalar_done_;
  }
  bool outstanding() const {
    return vector_issued_ > vector_done_ || lds_issued_ > lds_done_ || scalar_issued_ > scalar_done_;
  }
  void wait(std::uint32_t immediate);
  void issue(const Wave& wave, const Instruction& instruction);
  void mark(const Operand& operand, const Load& load);
  bool clear(Wave& wave, const Operand& operand, const Load* in_order);
  bool clear(Wave& wave, int first, int count, const Load* in_order);
  void report(Wave& wave, int number, const Load& load) const;

  std::array<Load, kRegisters> loads_{};
  std::array<std::uint64_t, kRegisters / 64> maybe_{};  // registers whose load may be under way
  std::uint32_t step_ = 0;                              // instructions so far, for messages: it may wrap
  std::uint32_t vector_issued_ = 0, vector_done_ = 0, lds_issued_ = 0, lds_done_ = 0, scalar_issued_ = 0,
                scalar_done_ = 0;
};

}  // namespace apb::emu
