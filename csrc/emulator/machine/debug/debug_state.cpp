#include "machine/debug/debug_state.h"

#include <algorithm>
#include <chrono>

#include "machine/debug/debug_channel.h"
#include "machine/output/json.h"
#include "machine/schedule/interrupt.h"

namespace apb::emu {
namespace {

constexpr std::chrono::milliseconds kLook{20};  // between looks for Ctrl-C while everything stands
constexpr std::chrono::milliseconds kStill{1};  // between looks whether everything stands
// A step goes first: a wave at a breakpoint waits for it, unless the wave that is stepped seems to wait itself, at a barrier.
constexpr std::chrono::milliseconds kPatience{250};
constexpr std::uint64_t kTurns = 64;      // and its wave had as many: a busy machine is no barrier
constexpr std::size_t kMostCodes = 4096;  // of objects that were launched: those of unloaded ones are stale

}  // namespace

DebugState& DebugState::instance() {
  static DebugState* const only = new DebugState;  // threads outlive destructors
  return *only;
}

std::shared_ptr<DebuggedCode> DebugState::code_of(const CodeObject& code) {
  std::vector<Resolved> placed;
  const Lock lock(mutex_);
  if (codes_.size() >= kMostCodes) codes_.clear();
  std::shared_ptr<DebuggedCode>& known = codes_[code.number];
  if (!known) {
    known = std::make_shared<DebuggedCode>(code);
    say_placed(known->place(breakpoints_));
  }
  return known;
}

void DebugState::say_placed(const std::vector<Resolved>& placed) {
  for (const Resolved& one : placed)
    DebugChannel::instance().send(R"({"event": "placed", "id": )" + std::to_string(one.id) + R"(, "line": )" +
                                  std::to_string(one.line) + R"(, "places": )" + std::to_string(one.offsets.size()) +
                                  "}");
}

void DebugState::begin(LiveGroup& group) {
  Lock lock(mutex_);
  std::erase(live_, &group);  // the one before it ended with its launch
  changed_.wait(lock, [this] { return !halted_; });
  group.serial = ++serial_;
  for (LiveGroup::Seat& seat : group.seats) seat = {};
  group.left = group.group->waves;
  live_.push_back(&group);
}

void DebugState::end(LiveGroup& group) {
  const Lock lock(mutex_);
  std::erase(live_, &group);
}

void DebugState::wave_ended(LiveGroup& group, std::uint32_t number) {
  const Lock lock(mutex_);
  group.seats[number].wave = nullptr;
  if (step_.of(group, number)) {
    step_ = {};
    update_attention();
  }
  if (group.left > 0) --group.left;
  if (group.left == 0) std::erase(live_, &group);
}

std::string DebugState::breakpoints_at(const LiveGroup& group, std::uint32_t number) const {
  std::string ids;
  const auto [first, last] = group.code->at.equal_range(group.seats[number].next->address);
  for (auto at = first; at != last; ++at) {
    const auto found = std::ranges::find(breakpoints_, at->second, &Breakpoint::id);
    if (found == breakpoints_.end() || !found->condition.wants_workgroup(group.group->id) ||
        !found->condition.wants_wave(number))
      continue;
    ids += (ids.empty() ? "" : ", ") + std::to_string(at->second);
  }
  return ids;
}

// The lines of a step are compared from the outermost function to what is inlined deepest: what lies deeper than where the step
// began belongs to the same line as long as the line that it was inlined at is the same.
bool DebugState::step_is_done(const LiveGroup& group, std::uint32_t number) const {
  const LiveGroup::Seat& seat = group.seats[number];
  if (seat.count <= step_.after) return false;
  const SourceLines* lines = group.code->object->lines.get();
  if (step_.kind == StepKind::Instruction || lines == nullptr || step_.levels.empty()) return true;
  const std::vector<std::uint64_t> now = lines->levels(seat.next->address);
  if (now.empty()) return false;  // code of no line
  const std::size_t depth = step_.levels.size();
  if (step_.kind == StepKind::Out) return now.size() < depth;
  if (step_.kind == StepKind::In) return now != step_.levels;
  return now.size() < depth || now[depth - 1] != step_.levels[depth - 1];
}

DebugState::Reason DebugState::reason(const LiveGroup& group, std::uint32_t number) {
  if (pause_) return {"pause", {}};
  if (entry_) return {"entry", {}};
  const bool stepped = step_.of(group, number);
  if (stepped) {
    step_.seen = Clock::now();
    step_.waited = 0;
    if (step_is_done(group, number)) return {"step", {}};
    if (group.seats[number].count <= step_.after) return {};  // where the step began
  }
  const std::string ids = breakpoints_at(group, number);
  if (ids.empty()) return {};
  const bool first = step_.on && !stepped && (++step_.waited < kTurns || Clock::now() - step_.seen < kPatience);
  if (first) return {{}, {}, true};
  return {"breakpoint", R"(, "ids": [)" + ids + "]"};
}

void DebugState::halt(LiveGroup& group, std::uint32_t number, const std::string& reason, const std::string& extra) {
  halted_ = true;
  ++halts_;
  pause_ = entry_ = false;
  step_ = {};
  interrupts_ = interrupts_seen();
  update_attention();
  DebugChannel::instance().send(R"({"event": "stopped", "reason": )" + json_text(reason) + R"(, "group": )" +
                                std::to_string(group.serial) + R"(, "wave": )" + std::to_string(number) + extra + "}");
}

// Until everybody goes on. A signal to the program lets it go on, too: its launch ends then as it would have.
void DebugState::park(Lock& lock, LiveGroup& group) {
  group.executing.store(false, std::memory_order_seq_cst);
  changed_.notify_all();
  for (const std::uint64_t halt = halts_; halted_ && halts_ == halt;) {
    changed_.wait_for(lock, kLook);
    if (!halted_ || interrupts_seen() == interrupts_) continue;
    go_on();
    DebugChannel::instance().send(R"({"event": "continued"})");
  }
  group.executing.store(true, std::memory_order_seq_cst);
}

bool DebugState::look(LiveGroup& group, std::uint32_t number) {
  Lock lock(mutex_);
  while (attached()) {
    if (halted_) {
      park(lock, group);
      continue;
    }
    const Reason found = reason(group, number);
    if (found.waits) return false;
    if (found.why.empty()) return true;
    halt(group, number, found.why, found.extra);
    park(lock, group);
    return true;
  }
  return true;
}

void DebugState::fault(LiveGroup& group, std::uint32_t number) {
  Lock lock(mutex_);
  while (attached() && halted_) park(lock, group);
  if (attached() && stop_on_fault_) {
    halt(group, number, "exception", R"(, "text": )" + json_text(group.seats[number].wave->fault.text));
    park(lock, group);
  }
  group.executing.store(false);
}

bool DebugState::wait_until_still(Lock& lock) {
  const auto runs = [](const LiveGroup* group) { return group->executing.load(); };
  for (const Clock::time_point end = Clock::now() + std::chrono::seconds(10); halted_;
       changed_.wait_for(lock, kStill)) {
    if (std::ranges::none_of(live_, runs)) return true;
    if (Clock::now() > end) return false;
  }
  return false;
}

void DebugState::update_attention() { attention_.store(halted_ || pause_ || entry_ || step_.on); }

void DebugState::go_on() {
  halted_ = false;
  update_attention();
  changed_.notify_all();
}

void DebugState::attach() {
  const Lock lock(mutex_);
  attached_ = true;
}

void DebugState::detach() {
  const Lock lock(mutex_);
  attached_ = false;
  breakpoints_.clear();
  for (const auto& [number, code] : codes_) code->place({});
  pause_ = entry_ = false;
  step_ = {};
  go_on();
}

void DebugState::set_breakpoints(std::vector<Breakpoint> all) {
  const Lock lock(mutex_);
  breakpoints_ = std::move(all);
  // Code that no launch uses may be unloaded: it is looked up again when it is launched.
  std::erase_if(codes_, [](const auto& entry) { return entry.second.use_count() == 1; });
  for (const auto& [number, code] : codes_) say_placed(code->place(breakpoints_));
}

void DebugState::stop_on_fault(bool stop) {
  const Lock lock(mutex_);
  stop_on_fault_ = stop;
}

void DebugState::stop_at_entry() {
  const Lock lock(mutex_);
  entry_ = true;
  update_attention();
}

void DebugState::pause() {
  const Lock lock(mutex_);
  pause_ = !halted_;
  update_attention();
}

bool DebugState::resume() {
  const Lock lock(mutex_);
  if (!halted_) return false;
  go_on();
  return true;
}

bool DebugState::step(std::uint64_t group, std::uint32_t wave, StepKind kind) {
  Lock lock(mutex_);
  if (!halted_ || !wait_until_still(lock)) return false;
  const auto found = std::ranges::find(live_, group, &LiveGroup::serial);
  if (found == live_.end() || wave >= (*found)->seats.size() || (*found)->seats[wave].wave == nullptr) return false;
  const LiveGroup::Seat& seat = (*found)->seats[wave];
  step_ = {true, *found, group, wave, seat.count + (seat.inside ? 0 : 1), kind, {}, Clock::now()};
  if (const SourceLines* lines = (*found)->code->object->lines.get())
    step_.levels = lines->levels((*found)->offset(seat));
  go_on();
  return true;
}

}  // namespace apb::emu
