#include "machine/timing/timing_replay.h"

#include <algorithm>

namespace apb::emu {
namespace {

struct Running {
  TimingWave time;
  const WaveTrace* trace;
  std::uint32_t group;
  std::size_t next = 0;
  bool waits = false;
  bool ended() const { return next == trace->size(); }
};

class ComputeUnit {
 public:
  ComputeUnit(Target target, const Instruction* code, std::span<const WaveTrace> traces, std::uint32_t copies)
      : numbers_(timing_numbers(target)), code_(code) {
    for (std::uint32_t copy = 0; copy < copies; ++copy)
      for (const WaveTrace& trace : traces) {
        const auto simd = static_cast<int>(waves_.size() % TimingUnits::kSimds);
        waves_.push_back({TimingWave(target, simd), &trace, copy});
      }
  }

  void run() {
    while (Running* wave = earliest()) {
      const TimingStep& step = (*wave->trace)[wave->next++];
      const Instruction& instruction = code_[step.index];
      wave->time.execute(instruction, step, units_);
      if (instruction.opcode == Opcode::S_BARRIER) wave->waits = !wave->ended();
      if (wave->waits || wave->ended()) release(wave->group);
    }
  }

  GroupTime result(std::uint32_t copies) const {
    GroupTime out;
    for (const Running& wave : waves_) {
      out.cycles = std::max(out.cycles, wave.time.done());
      if (wave.group != 0) continue;
      out.instructions += wave.trace->size();
      for (std::size_t kind = 0; kind < std::size(out.waits); ++kind)
        out.waits[kind] += wave.time.waited(static_cast<TimingWait>(kind));
      for (const TimingStep& step : *wave.trace) {
        out.conflicts += step.conflicts;
        out.bytes += step.bytes;
        out.missed_bytes += std::uint64_t{step.missed} * numbers_.cache_line;
      }
    }
    for (int simd = 0; simd < TimingUnits::kSimds; ++simd) {
      out.matrix = std::max(out.matrix, units_.matrix[simd].busy / copies);
      out.vector = std::max(out.vector, units_.simd[simd].busy / copies);
    }
    out.memory = units_.memory.busy / copies;
    out.lds = units_.lds.busy / copies;
    return out;
  }

 private:
  // The wave that is least far: units are asked in the order of time.
  Running* earliest() {
    Running* found = nullptr;
    for (Running& wave : waves_)
      if (!wave.waits && !wave.ended() && (found == nullptr || wave.time.now() < found->time.now())) found = &wave;
    return found;
  }

  // All of the group that have not ended stand at the barrier: they go on together.
  void release(std::uint32_t group) {
    std::uint64_t last = 0;
    for (const Running& wave : waves_) {
      if (wave.group != group || wave.ended()) continue;
      if (!wave.waits) return;
      last = std::max(last, wave.time.now());
    }
    for (Running& wave : waves_) {
      if (wave.group != group || !wave.waits) continue;
      wave.waits = false;
      wave.time.leave_barrier(last + numbers_.barrier);
    }
  }

  const TimingNumbers& numbers_;
  const Instruction* code_;
  TimingUnits units_;
  std::vector<Running> waves_;
};

}  // namespace

GroupTime replay(Target target, const Instruction* code, std::span<const WaveTrace> waves, std::uint32_t copies) {
  ComputeUnit unit(target, code, waves, copies);
  unit.run();
  return unit.result(copies);
}

}  // namespace apb::emu
