#include "machine/schedule/workgroup.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "execute/bind.h"
#include "isa/decode.h"
#include "machine/check/checks.h"
#include "machine/check/findings.h"
#include "machine/load/program.h"
#include "machine/schedule/wave_setup.h"
#include "machine/settings/configuration.h"

namespace apb::emu {
namespace {

// Waves of a workgroup take short turns, because on the card they run side by side on four SIMDs: AITER's attention for gfx950
// reads a tile from LDS and loads the next one over it some 50 instructions later with no barrier between, which is
// right only as long as no wave is far ahead of the others.
constexpr std::uint64_t kBudget = 16;
constexpr std::uint64_t kSlice = 80'000;  // instructions of each wave before the workgroup lets another one in
constexpr std::uint32_t kSleeps = 256;    // rounds of sleep in which it is looked for what a workgroup waits for
constexpr std::size_t kFileBytes = 512 * kRowBytes;  // both register files of a wave

std::uint64_t scratch_per_wave(const Dispatch& d) { return std::uint64_t{d.scratch_bytes} * kLanes; }

// The same as run(), one instruction at a time, with its text.
void run_traced(Wave& wave, const Instruction* code, std::uint64_t instructions) {
  while (instructions-- && wave.stop == Stop::None) {
    if (wave.pc < wave.code_dwords && code[wave.pc].execute) {
      const std::string source = wave.group->lines != nullptr ? wave.group->lines->text(wave.pc * 4) : std::string();
      log(LogLevel::Trace, "workgroup (%u, %u, %u) wave %u code+0x%x exec 0x%016llx: %s%s%s", wave.group->id[0],
          wave.group->id[1], wave.group->id[2], wave.number, wave.pc * 4, static_cast<unsigned long long>(wave.exec()),
          disassemble(wave.target, code[wave.pc]).c_str(), source.empty() ? "" : "  ; ", source.c_str());
    }
    run(wave, code, 1);
  }
}

}  // namespace

ResidentWorkgroup::Pages::Pages(std::size_t bytes) : data_(nullptr), bytes_(bytes) {
  if (bytes_ == 0) return;
  void* at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::uint8_t*>(at);
}

ResidentWorkgroup::Pages::~Pages() {
  if (data_) ::munmap(data_, bytes_);
}

std::uint64_t ResidentWorkgroup::bytes(const Dispatch& d) {
  const std::uint64_t rows = std::min<std::uint64_t>(d.kernel->vgprs, 512) * kRowBytes;
  return d.waves_per_workgroup() * (rows + scratch_per_wave(d)) + d.lds_bytes;
}

ResidentWorkgroup::ResidentWorkgroup(const Dispatch& dispatch)
    : dispatch_(dispatch),
      registers_(dispatch.waves_per_workgroup() * kFileBytes),
      lds_((dispatch.lds_end + 3) / 4 * 4),
      scratch_(dispatch.waves_per_workgroup() * scratch_per_wave(dispatch)),
      waves_(dispatch.waves_per_workgroup()),
      waiting_(waves_.size()),
      spin_(*dispatch.kernel),
      watch_(observers_) {
  const std::uint32_t waves = dispatch.waves_per_workgroup();
  const auto add = [&](bool first) {
    for (const auto& each : dispatch.observers)
      if (each->goes_first() == first) observers_.add(each->of_group(dispatch), waves);
  };
  add(true);
  observers_.add(make_workgroup_checks(configuration().checks, waves, dispatch.lds_end), waves);
  add(false);
  for (std::size_t i = 0; i < waves_.size(); ++i) {
    waves_[i].vector = reinterpret_cast<std::uint32_t*>(registers_.data() + i * kFileBytes);
    waves_[i].scratch = scratch_.data() ? scratch_.data() + i * scratch_per_wave(dispatch) : nullptr;
    waves_[i].counters = &counters_;
  }
  use_observers(false);
  group_.kernel = dispatch.kernel->name.c_str();
  group_.lines = dispatch.kernel->object->lines.get();
  group_.lds = lds_.data();
  group_.lds_bytes = dispatch.lds_end;
  if (configuration().checks.level >= CheckLevel::Permissive) group_.tolerates = tolerates;
  group_.shared_base = kSharedAperture;
  group_.private_base = kPrivateAperture;
}

void ResidentWorkgroup::begin(std::uint64_t linear) {
  const Dim3& grid = dispatch_.grid;
  group_.id[0] = static_cast<std::uint32_t>(linear % grid.x);
  group_.id[1] = static_cast<std::uint32_t>(linear / grid.x % grid.y);
  group_.id[2] = static_cast<std::uint32_t>(linear / grid.x / grid.y);
  const Dim3 block = dispatch_.block_of(group_.id);
  group_.waves = (block.x * block.y * block.z + kLanes - 1) / kLanes;
  group_.waiting = group_.ended = 0;
  forget_watch(false);
  observers_.begin(group_);
  std::fill_n(reinterpret_cast<std::uint32_t*>(lds_.data()), (group_.lds_bytes + 3) / 4, kPoison);
  const std::uint64_t scratch_dwords = scratch_per_wave(dispatch_) * group_.waves / 4;
  std::fill_n(reinterpret_cast<std::uint32_t*>(scratch_.data()), scratch_dwords, kPoison);
  std::ranges::fill(waiting_, 0);
  for (std::uint32_t i = 0; i < group_.waves; ++i) start_wave(waves_[i], dispatch_, group_, block, i);
}

void ResidentWorkgroup::release_barrier() {
  observers_.barrier();
  group_.waiting = 0;
  for (std::uint32_t i = 0; i < group_.waves; ++i) {
    if (!waiting_[i]) continue;
    waiting_[i] = 0;
    waves_[i].stop = Stop::None;
  }
}

// False: the wave has a fault.
bool ResidentWorkgroup::advance(Wave& wave) {
  const std::uint64_t limit = configuration().instruction_limit, before = wave.executed;
  const std::uint64_t instructions = limit ? std::min(kBudget, limit - std::min(limit, before)) : kBudget;
  const Instruction* code = dispatch_.kernel->object->instructions.data();
  if (configuration().log == LogLevel::Trace)
    run_traced(wave, code, instructions);
  else
    run(wave, code, instructions);
  if (wave.stop != Stop::Fault && wave.stop != Stop::Ended && limit && wave.executed >= limit)
    raise(wave, FaultKind::InstructionLimit, -1, "%llu instructions (AITER_PREBUILT_EMULATOR_LIMIT)",
          static_cast<unsigned long long>(limit));
  return wave.stop != Stop::Fault;
}

void ResidentWorkgroup::rested(std::uint64_t instructions) {
  for (std::uint32_t i = 0; i < group_.waves; ++i)
    if (!waiting_[i] && waves_[i].stop != Stop::Ended) waves_[i].executed += instructions;
}

void ResidentWorkgroup::use_observers(bool recording) {
  for (std::size_t i = 0; i < waves_.size(); ++i)
    waves_[i].observer = recording ? &watch_ : observers_.of_wave(static_cast<std::uint32_t>(i));
}

void ResidentWorkgroup::forget_watch(bool in_vain) {
  if (watch_.records()) use_observers(false);
  watch_.forget(in_vain);
  watched_ = surely_ = false;
  sleeping_ = 0;
}

bool ResidentWorkgroup::waits(bool all_sleep) {
  const bool comes_back = spin_.waits({waves_.data(), group_.waves}, waiting_, written());
  sleeping_ = all_sleep ? sleeping_ + 1 : 0;
  const bool recorded = watch_.records();
  const Watch::Finding found =
      watch_.round(counters_.global_written - counters_.written_as_it_was, all_sleep || comes_back);
  if (watch_.records() != recorded) use_observers(!recorded);
  watched_ = found == Watch::Finding::Waits;
  surely_ = watched_ && comes_back;
  // Without a finding those that come back or sleep give way all the same: a few looks for nothing are cheap.
  return watched_ || ((all_sleep || comes_back) && found == Watch::Finding::Fails) || sleeping_ >= kSleeps;
}

Turn ResidentWorkgroup::rounds(const std::atomic<bool>& stop, Interruption& interruption) {
  spin_.moved();
  forget_watch(watched_ && !watch_.changed());
  std::uint64_t left = kSlice * group_.waves;
  while (true) {
    bool all_sleep = true;
    for (std::uint32_t i = 0; i < group_.waves; ++i) {
      Wave& wave = waves_[i];
      if (waiting_[i] || wave.stop == Stop::Ended) continue;
      if (stop.load(std::memory_order_relaxed)) return Turn::Stopped;
      const std::uint64_t before = wave.executed;
      if (!advance(wave)) {
        observers_.faulted(wave);
        fault_ = wave.fault;
        return Turn::Fault;
      }
      left -= std::min(left, wave.executed - before);
      if (wave.stop == Stop::Yield) {
        wave.stop = Stop::None;
        continue;
      }
      all_sleep = false;
      if (wave.stop == Stop::None) continue;
      spin_.moved();
      if (wave.stop == Stop::Ended) {
        watch_.moved();
        observers_.ended(wave);
        ++group_.ended;
      }
      if (wave.stop == Stop::Barrier) {
        ++group_.waiting;
        waiting_[i] = 1;
      }
    }
    if (group_.ended == group_.waves) return Turn::Finished;
    // The barrier counts waves that have not ended, as the hardware's does.
    if (group_.waiting == group_.waves - group_.ended) release_barrier();
    if (waits(all_sleep)) return Turn::Waiting;
    if (left == 0 || interruption.due()) return Turn::Paused;
  }
}

}  // namespace apb::emu
