#include "machine/profile/estimate.h"

#include <algorithm>

namespace apb::emu {
namespace {

// Latencies in cycles, from published measurements of MI300X (Chips and Cheese, "Testing AMD's giant MI300X"): LDS about 64, the vector
// cache about 120, behind it 250 (L2) to 800 (HBM), of which one number stands for all; scalar loads about 200.
constexpr std::uint64_t kLdsLatency = 64, kNearLatency = 120, kFarLatency = 500, kScalarLatency = 200;
constexpr std::uint32_t kMostVector = 63, kMostOthers = 15;  // what vmcnt and lgkmcnt can count

// Bytes that HBM gives a whole card in a cycle of its compute units: 5.3 TB/s at 2.1 GHz, 8 TB/s at 2.4 GHz.
double bytes_each_cycle(Target target) { return (target == Target::Gfx950 ? 8e12 : 5.3e12) / clock_of(target); }

}  // namespace

double clock_of(Target target) { return target == Target::Gfx950 ? 2.4e9 : 2.1e9; }

void WaveClock::Queue::add(std::uint64_t done) {
  const std::uint64_t before = count_ == 0 ? 0 : done_[(count_ - 1) % kMost];
  done_[count_++ % kMost] = std::max(done, before);
}

std::uint64_t WaveClock::Queue::until(std::uint32_t left) const {
  if (count_ <= left || left >= kMost) return 0;
  return done_[(count_ - 1 - left) % kMost];
}

void WaveClock::wait(std::uint64_t until, Event kind, Sums& sums, std::vector<Wait>* waits) {
  if (until <= now_) return;
  sums[kind] += until - now_;
  if (waits != nullptr) waits->push_back({now_, until, kind});
  now_ = until;
}

void WaveClock::release(std::uint64_t at, Sums& sums, std::vector<Wait>* waits) {
  wait(at, Event::WaitBarrier, sums, waits);
}

void WaveClock::issue(const Instruction& instruction, const OpcodeClass& opcode, std::uint32_t matrix_cycles,
                      const AccessCost& cost, Sums& sums, std::vector<Wait>* waits) {
  if (instruction.opcode == Opcode::S_WAITCNT) {
    // gfx9: vmcnt in [3:0] and [15:14], lgkmcnt in [11:8].
    const auto immediate = static_cast<std::uint32_t>(instruction.immediate);
    wait(vector_.until((immediate & 15) | (immediate >> 14 & 3) << 4), Event::WaitVector, sums, waits);
    wait(others_.until(immediate >> 8 & 15), Event::WaitLds, sums, waits);
  }
  if (opcode.unit == Unit::Matrix) {
    wait(matrix_free_, Event::WaitMatrix, sums, waits);
    matrix_free_ = now_ + matrix_cycles;
  }
  const bool memory = opcode.unit == Unit::Memory || opcode.unit == Unit::Flat;
  if (memory) {
    wait(vector_.until(kMostVector), Event::WaitVector, sums, waits);
    memory_free_ = std::max(memory_free_, now_) + cost.halves;
    const std::uint64_t done = memory_free_ + (cost.missed ? kFarLatency : kNearLatency);
    vector_.add(done);
    if (opcode.unit == Unit::Flat) others_.add(done);
  } else if (opcode.unit == Unit::Lds) {
    wait(others_.until(kMostOthers), Event::WaitLds, sums, waits);
    lds_free_ = std::max(lds_free_, now_) + cost.lds_cycles;
    others_.add(lds_free_ + kLdsLatency);
  } else if (opcode.unit == Unit::ScalarMemory) {
    others_.add(now_ + kScalarLatency);
  }
  now_ += opcode.cycles;
}

void UnitLoad::add(const UnitLoad& more) {
  for (std::uint32_t s = 0; s < kSimds; ++s) {
    issue[s] += more.issue[s];
    matrix[s] += more.matrix[s];
  }
  lds += more.lds;
  memory += more.memory;
  groups += more.groups;
  longest = std::max(longest, more.longest);
  wave_cycles += more.wave_cycles;
}

std::uint64_t UnitLoad::cycles(std::uint32_t resident) const {
  std::uint64_t most = std::max({groups / std::max(resident, 1u), longest, lds, memory});
  for (std::uint32_t s = 0; s < kSimds; ++s) most = std::max({most, issue[s], matrix[s]});
  return most;
}

Timing estimate(Target target, const std::vector<UnitLoad>& units, std::uint32_t resident, std::uint64_t memory_bytes) {
  Timing timing;
  for (const UnitLoad& unit : units) {
    const std::uint64_t cycles = unit.cycles(resident);
    timing.cycles = std::max(timing.cycles, cycles);
    timing.unit_cycles += cycles;
    // Waves that share their unit take as much longer than alone as it does.
    const std::uint64_t alone = std::max(unit.groups / std::max(resident, 1u), unit.longest);
    if (alone != 0)
      timing.wave_cycles += static_cast<std::uint64_t>(static_cast<double>(unit.wave_cycles) *
                                                       (static_cast<double>(cycles) / static_cast<double>(alone)));
  }
  const auto memory = static_cast<std::uint64_t>(static_cast<double>(memory_bytes) / bytes_each_cycle(target));
  if (memory > timing.cycles && timing.cycles != 0) {
    const double longer = static_cast<double>(memory) / static_cast<double>(timing.cycles);
    for (std::uint64_t* each : {&timing.cycles, &timing.unit_cycles, &timing.wave_cycles})
      *each = static_cast<std::uint64_t>(static_cast<double>(*each) * longer);
  }
  return timing;
}

}  // namespace apb::emu
