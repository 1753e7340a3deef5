#include "machine/timing/timing_group.h"

#include <algorithm>

#include "machine/schedule/dispatch.h"

namespace apb::emu {
namespace {

constexpr std::size_t kMostSteps = 1'000'000;  // of a wave; 20 bytes each, and up to 16 waves

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 12) + (hash >> 4);
  return hash * 0xff51afd7ed558ccdull;
}

std::uint64_t hash_of(const std::vector<WaveTrace>& waves) {
  std::uint64_t hash = waves.size();
  for (const WaveTrace& trace : waves) {
    hash = mixed(hash, trace.size());
    for (const TimingStep& s : trace) {
      hash = mixed(hash, std::uint64_t{s.index} << 32 | s.bytes);
      hash = mixed(hash, std::uint64_t{s.memory} << 48 | std::uint64_t{s.lds} << 32 | std::uint64_t{s.missed} << 16 |
                             s.conflicts);
    }
  }
  return hash;
}

class TimedWave final : public Observer {
 public:
  TimedWave(Target target, int simd, VectorCache& cache)
      : target_(target), simd_(simd), recorder_(timing_numbers(target), cache), time_(target, simd) {}

  void reset(std::uint64_t clock) {
    time_ = TimingWave(target_, simd_);
    units_ = {};
    begin_ = clock;
    clock_ = clock;
    trace.clear();
    ended = false;
    whole = true;
  }
  void before(Wave& wave, const Instruction& instruction) override {
    wave.cycles = &clock_;
    recorder_.start(instruction);
  }
  void after(Wave& wave, const Instruction& instruction) override {
    const bool taken = wave.pc != instruction.address / 4 + instruction.dwords;
    const TimingStep step = recorder_.finish(instruction, taken);
    time_.execute(instruction, step, units_);
    clock_ = begin_ + time_.now();
    if (trace.size() < kMostSteps)
      trace.push_back(step);
    else
      whole = false;
  }
  void lds_read(Wave&, int lane, std::uint32_t address, std::uint32_t bytes) override {
    recorder_.lds(lane, LdsAccess::Read, address, bytes);
  }
  void lds_write(Wave&, int lane, std::uint32_t address, std::uint32_t bytes) override {
    recorder_.lds(lane, LdsAccess::Write, address, bytes);
  }
  void lds_atomic(Wave&, int lane, std::uint32_t address, std::uint32_t bytes) override {
    recorder_.lds(lane, LdsAccess::Atomic, address, bytes);
  }
  void global(Wave&, int lane, std::uint64_t address, std::uint32_t bytes) override {
    recorder_.global(lane, address, bytes);
  }
  void lds_lanes(Wave&, LdsAccess access, const std::uint32_t* address, std::uint64_t active,
                 std::uint32_t bytes) override {
    recorder_.lds(access, address, active, bytes);
  }
  void global_lanes(Wave&, const std::uint64_t* address, std::uint64_t active, std::uint32_t bytes) override {
    recorder_.global(address, active, bytes);
  }

  std::uint64_t now() const { return time_.now(); }
  void leave_barrier(std::uint64_t cycle) {
    time_.leave_barrier(cycle);
    clock_ = begin_ + time_.now();
  }

  WaveTrace trace;
  bool ended = false, whole = true;

 private:
  Target target_;
  int simd_;
  StepRecorder recorder_;
  TimingWave
      time_;  // as if it had the compute unit for itself: what its clock says before the others' traces are known
  TimingUnits units_;
  std::uint64_t begin_ = 0, clock_ = 0;
};

class TimedGroup final : public GroupObserver {
 public:
  TimedGroup(const Dispatch& dispatch, std::uint32_t copies, std::uint64_t clock, TimedClasses& classes)
      : target_(dispatch.kernel->object->target),
        code_(dispatch.kernel->object->instructions.data()),
        copies_(copies),
        clock_(clock),
        cache_(timing_numbers(target_)),
        classes_(&classes) {
    const std::uint32_t waves = dispatch.waves_per_workgroup();
    waves_.reserve(waves);
    for (std::uint32_t number = 0; number < waves; ++number)
      waves_.emplace_back(target_, static_cast<int>(number % TimingUnits::kSimds), cache_);
  }

  Observer* of_wave(std::uint32_t number) override { return &waves_[number]; }

  void begin(const Workgroup& group) override {
    cache_.clear();
    left_ = group.waves;
    for (TimedWave& wave : waves_) wave.reset(clock_);
  }

  void barrier() override {
    std::uint64_t last = 0;
    for (const TimedWave& wave : waves_)
      if (!wave.ended) last = std::max(last, wave.now());
    for (TimedWave& wave : waves_)
      if (!wave.ended) wave.leave_barrier(last + timing_numbers(target_).barrier);
  }

  void ended(const Wave& wave) override {
    waves_[wave.number].ended = true;
    if (--left_ != 0) return;
    std::vector<WaveTrace> traces;
    bool whole = true;
    for (TimedWave& each : waves_) {
      if (!each.ended) continue;  // the last workgroup of a grid may have fewer waves
      whole = whole && each.whole;
      traces.push_back(std::move(each.trace));
    }
    classes_->add(target_, code_, traces, copies_, whole);
  }

 private:
  Target target_;
  const Instruction* code_;
  std::uint32_t copies_, left_ = 0;
  std::uint64_t clock_;
  VectorCache cache_;
  std::vector<TimedWave> waves_;
  TimedClasses* classes_;
};

}  // namespace

void TimedClasses::add(Target target, const Instruction* code, const std::vector<WaveTrace>& waves,
                       std::uint32_t copies, bool whole) {
  const std::uint64_t hash = hash_of(waves);
  {
    const std::lock_guard guard(mutex_);
    TimedClass& known = classes_[hash];
    if (known.count++ != 0) return;
    known.whole = whole;
  }
  const GroupTime time = replay(target, code, waves, std::max(copies, 1u));
  const std::lock_guard guard(mutex_);
  classes_[hash].time = time;
}

std::vector<TimedClass> TimedClasses::all() const {
  const std::lock_guard guard(mutex_);
  std::vector<TimedClass> out;
  out.reserve(classes_.size());
  for (const auto& [hash, each] : classes_) out.push_back(each);
  std::stable_sort(out.begin(), out.end(), [](const TimedClass& a, const TimedClass& b) {
    return a.count != b.count ? a.count > b.count : a.time.cycles > b.time.cycles;
  });
  return out;
}

std::unique_ptr<GroupObserver> make_timed_group(const Dispatch& dispatch, std::uint32_t copies, std::uint64_t clock,
                                                TimedClasses& classes) {
  return std::make_unique<TimedGroup>(dispatch, copies, clock, classes);
}

}  // namespace apb::emu
