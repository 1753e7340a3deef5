#include "machine/debug/debugger.h"

#include <vector>

#include "machine/debug/debug_channel.h"
#include "machine/debug/debug_state.h"
#include "machine/observe/instruction_observer.h"
#include "machine/settings/configuration.h"

namespace apb::emu {
namespace {

class GroupDebugger;

class WaveDebugger final : public InstructionObserver {
 public:
  WaveDebugger(LiveGroup& group, std::uint32_t number) : group_(&group), number_(number) {}

  void before(Wave& wave, const Instruction& instruction) override {
    DebugState& state = DebugState::instance();
    group_->executing.store(true,
                            std::memory_order_seq_cst);  // then look whether all shall stand: nobody looks in between
    LiveGroup::Seat& seat = group_->seats[number_];
    seat.wave = &wave;
    seat.next = &instruction;
    seat.inside = true;
    ++seat.count;
    const bool marked = group_->code->flags[instruction.address / 4].load(std::memory_order_relaxed) != 0;
    if ((marked || state.attention()) && !state.look(*group_, number_)) come_back(wave, instruction, seat);
  }
  void after(Wave& /*wave*/, const Instruction& /*instruction*/) override {
    group_->seats[number_].inside = false;
    group_->executing.store(false, std::memory_order_seq_cst);
  }

 private:
  // Resumes the wave as if it slept before the instruction.
  void come_back(Wave& wave, const Instruction& instruction, LiveGroup::Seat& seat) {
    wave.pc -= instruction.dwords;
    wave.stop = Stop::Yield;
    seat.inside = false;
    --seat.count;
    group_->executing.store(false, std::memory_order_seq_cst);
  }

  LiveGroup* group_;
  std::uint32_t number_;
};

class GroupDebugger final : public GroupObserver {
 public:
  GroupDebugger(const Dispatch& dispatch, DebuggedCode& code) {
    const std::uint32_t waves = dispatch.waves_per_workgroup();
    live_.dispatch = &dispatch;
    live_.code = &code;
    live_.seats.resize(waves);
    for (std::uint32_t number = 0; number < waves; ++number) waves_.emplace_back(live_, number);
  }
  GroupDebugger(const GroupDebugger&) = delete;
  GroupDebugger& operator=(const GroupDebugger&) = delete;
  ~GroupDebugger() override { DebugState::instance().end(live_); }

  Observer* of_wave(std::uint32_t number) override { return &waves_[number]; }
  void begin(const Workgroup& group) override {
    live_.group = &group;
    DebugState::instance().begin(live_);
  }
  void ended(const Wave& wave) override { DebugState::instance().wave_ended(live_, wave.number); }
  void faulted(Wave& wave) override {
    live_.executing.store(true, std::memory_order_seq_cst);
    LiveGroup::Seat& seat = live_.seats[wave.number];
    seat.wave = &wave;
    seat.inside = wave.current != nullptr;
    seat.next = wave.current;
    DebugState::instance().fault(live_, wave.number);
  }

 private:
  LiveGroup live_;
  std::vector<WaveDebugger> waves_;
};

class LaunchDebugger final : public LaunchObserver {
 public:
  explicit LaunchDebugger(std::shared_ptr<DebuggedCode> code) : code_(std::move(code)) {}
  bool goes_first() const override { return true; }
  std::unique_ptr<GroupObserver> of_group(const Dispatch& dispatch) override {
    return std::make_unique<GroupDebugger>(dispatch, *code_);
  }

 private:
  std::shared_ptr<DebuggedCode> code_;
};

}  // namespace

std::unique_ptr<LaunchObserver> make_debugger(const LaunchRequest& request) {
  if (configuration().debug_socket.empty() || !DebugChannel::instance().open()) return nullptr;
  return std::make_unique<LaunchDebugger>(DebugState::instance().code_of(*request.kernel->object));
}

}  // namespace apb::emu
