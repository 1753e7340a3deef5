#include "machine/timing/timing_wave.h"

#include <algorithm>

namespace apb::emu {
namespace {

constexpr std::uint32_t kMostVector = 63, kMostLds = 15;  // vmcnt has 6 bits, lgkmcnt 4

int first_register(const Operand& operand) {
  if (operand.kind == OperandKind::Vgpr) return operand.index;
  return operand.kind == OperandKind::Accvgpr ? 256 + operand.index : -1;
}

bool same(const Operand& a, const Operand& b) {
  return first_register(a) >= 0 && first_register(a) == first_register(b) && a.dwords == b.dwords;
}

std::uint64_t back_of(const std::deque<std::uint64_t>& queue) { return queue.empty() ? 0 : queue.back(); }

}  // namespace

std::uint64_t TimingUnits::Unit::take(std::uint64_t at, std::uint64_t cycles) {
  const std::uint64_t begin = std::max(at, free);
  free = begin + cycles;
  busy += cycles;
  return begin;
}

void TimingWave::wait_until(std::uint64_t cycle, TimingWait kind) {
  if (cycle <= now_) return;
  waited_[static_cast<std::size_t>(kind)] += cycle - now_;
  now_ = cycle;
}

void TimingWave::leave_barrier(std::uint64_t cycle) { wait_until(cycle, TimingWait::Barrier); }

std::uint64_t TimingWave::done() const { return std::max({now_, back_of(memory_), back_of(lds_), any_ready_}); }

// s_waitcnt of gfx9: vmcnt in [3:0] and [15:14], lgkmcnt in [11:8].
void TimingWave::wait_for(std::uint32_t immediate) {
  const std::uint32_t vector = (immediate & 15) | (immediate >> 14 & 3) << 4, others = immediate >> 8 & 15;
  while (memory_.size() > vector) {
    wait_until(memory_.front(), TimingWait::Memory);
    memory_.pop_front();
  }
  while (lds_.size() > others) {
    wait_until(lds_.front(), TimingWait::Lds);
    lds_.pop_front();
  }
}

// A matrix instruction may take the sum of the one before as soon as that has left the unit; everybody else waits for it to be
// written back.
void TimingWave::wait_for_operands(const Instruction& i) {
  if (now_ >= any_ready_) return;
  std::uint64_t until = 0;
  const bool matrix = i.category == Category::Mfma;
  const auto look = [&](const Operand& operand, std::uint64_t early) {
    const int first = first_register(operand);
    if (first < 0) return;
    for (int r = first; r < first + operand.dwords && r < static_cast<int>(kRegisters); ++r) {
      const std::uint64_t ready = ready_[static_cast<std::size_t>(r)];
      until = std::max(until, ready > early ? ready - early : 0);
    }
  };
  for (std::size_t s = 0; s < i.source.size(); ++s) {
    const bool sum = matrix && s == 2 && same(i.source[2], i.destination[0]);
    look(i.source[s], sum ? numbers_->matrix_result : 0);
  }
  for (const Operand& operand : i.scale) look(operand, 0);
  if (!matrix) look(i.destination[0], 0);
  wait_until(until, TimingWait::Units);
}

void TimingWave::alu(const Instruction& i, TimingUnits& units) {
  const std::uint32_t cycles = alu_cycles(target_, i);
  const bool matrix = i.category == Category::Mfma;
  TimingUnits::Unit& unit = matrix ? units.matrix[simd_] : units.simd[simd_];
  const std::uint64_t begin = unit.take(now_, cycles);
  wait_until(begin, TimingWait::Units);
  now_ += matrix ? numbers_->issue : cycles;
  if (!matrix) return;
  const std::uint64_t ready = begin + cycles + numbers_->matrix_result;
  const int first = first_register(i.destination[0]);
  for (int r = first; first >= 0 && r < first + i.destination[0].dwords && r < static_cast<int>(kRegisters); ++r)
    ready_[static_cast<std::size_t>(r)] = ready;
  any_ready_ = std::max(any_ready_, ready);
}

void TimingWave::memory(const Instruction& i, const TimingStep& step, TimingUnits& units) {
  if (step.memory != 0) {
    const std::uint64_t begin = units.memory.take(now_, step.memory);
    std::uint64_t back = begin + step.memory + (step.missed != 0 ? numbers_->far : numbers_->near);
    // A load straight to LDS writes there when it comes.
    if (step.lds != 0) back = std::max(back, units.lds.take(begin, step.lds));
    memory_.push_back(std::max(back, back_of(memory_)));
    if (i.encoding == Encoding::Flat) lds_.push_back(memory_.back());
  } else if (step.lds != 0 || i.category == Category::Lds) {
    const std::uint64_t begin = units.lds.take(now_, step.lds);
    lds_.push_back(std::max(begin + step.lds + numbers_->lds, back_of(lds_)));
  } else if (i.category == Category::Smem) {
    lds_.push_back(std::max(now_ + numbers_->scalar, back_of(lds_)));
  } else {
    memory_.push_back(std::max(now_ + numbers_->near, back_of(memory_)));  // no lane was active
  }
  if (memory_.size() > kMostVector) wait_for(0xf00u | 15u | 3u << 14);
  if (lds_.size() > kMostLds) wait_for((kMostLds << 8) | 15u | 3u << 14);
  now_ += numbers_->issue;
}

void TimingWave::execute(const Instruction& i, const TimingStep& step, TimingUnits& units) {
  wait_for_operands(i);
  switch (i.category) {
    case Category::Valu:
    case Category::Mfma: return alu(i, units);
    case Category::Smem:
    case Category::VmemLoad:
    case Category::VmemStore:
    case Category::Atomic:
    case Category::Lds: return memory(i, step, units);
    case Category::Branch: now_ += numbers_->issue + (step.taken ? numbers_->branch : 0); return;
    default: break;
  }
  if (i.opcode == Opcode::S_WAITCNT) wait_for(static_cast<std::uint32_t>(i.immediate));
  if (i.opcode == Opcode::S_NOP) now_ += numbers_->issue * (static_cast<std::uint32_t>(i.immediate) & 15);
  if (i.opcode == Opcode::S_SLEEP) now_ += 64ull * (static_cast<std::uint32_t>(i.immediate) & 127);
  if (i.category == Category::Salu) wait_until(units.scalar[simd_].take(now_, numbers_->issue), TimingWait::Units);
  now_ += numbers_->issue;
}

}  // namespace apb::emu
