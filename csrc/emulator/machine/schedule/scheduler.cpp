#include "machine/schedule/scheduler.h"

#include <sched.h>

#include <algorithm>
#include <new>

#include "machine/settings/configuration.h"

namespace apb::emu {
namespace {

constexpr std::uint64_t kMostMemory = 4ull << 30;  // of registers, LDS and scratch of one launch

// A launch that only waits looks again at once for a while, because what it waits for is mostly near; then it rests in between.
constexpr std::chrono::microseconds kNoRest{300}, kFewRests{2000};
constexpr std::chrono::microseconds kShortRest{50}, kLongRest{200}, kLongestRest{1000};
constexpr std::chrono::milliseconds kLongWait{100};  // after which nobody expects an answer at once
constexpr unsigned kMostPolls = 4;  // doublings of the time between looks at what is parked while others run
constexpr std::uint64_t kInstructionsPerMicrosecond = 64;  // of a wave that spins
constexpr std::uint64_t kLooksSure = 64,
                        kLooksLikely = 16;  // after which one that is known to wait is run all the same

// The number of workgroups that the card would run at once, limited by memory (scratch: registers and LDS of a card are some 200
// MiB).
std::uint64_t most_resident(const Dispatch& d) {
  const std::uint64_t by_memory =
      std::max<std::uint64_t>(kMostMemory / std::max<std::uint64_t>(ResidentWorkgroup::bytes(d), 1), 64);
  return std::min({std::uint64_t{d.compute_units} * d.workgroups_per_unit, by_memory, d.workgroups});
}

}  // namespace

Scheduler::Scheduler(const Dispatch& dispatch, Interruption& interruption, unsigned threads, bool all_resident)
    : dispatch_(dispatch),
      interruption_(interruption),
      allowed_(std::max(threads, 1u)),
      most_(all_resident ? dispatch.workgroups : std::max<std::uint64_t>(most_resident(dispatch), threads)) {}

void Scheduler::work() {
  Slot mine;
  try {
    while (take(mine)) {
      give(mine, mine->turn(stop_, interruption_));
      if (interruption_.due()) {
        const std::lock_guard guard(mutex_);
        interrupt();
      }
    }
    const std::lock_guard guard(mutex_);
    if (mine) idle_.push_back(std::move(mine));  // keeps its counters
  } catch (const std::bad_alloc&) {
    // The state that this thread held is lost: the launch cannot end well.
    const std::lock_guard guard(mutex_);
    out_of_memory_ = stop_ = true;
    changed_.notify_all();
  }
}

// Called with the lock held, as all that follows but take() and give().
bool Scheduler::can_start() const {
  return next_ < dispatch_.workgroups && resident_ < most_ && resident_ - parked_ < allowed_;
}

bool Scheduler::start(Slot& mine) {
  try {
    if (!mine && !idle_.empty()) {
      mine = std::move(idle_.back());
      idle_.pop_back();
    }
    if (!mine) mine = std::make_unique<ResidentWorkgroup>(dispatch_);
  } catch (const std::bad_alloc&) {
    most_ = allowed_ = resident_;  // those that run must do
    if (resident_ == 0) out_of_memory_ = true;
    return false;
  }
  ++resident_;
  ++running_;
  ++next_;
  return true;
}

// Has it reason to run? Those whose time is up always; those that wait when their bytes have changed, or at a new look.
bool Scheduler::ready(const ResidentWorkgroup& one) const {
  if (!one.waiting()) return true;
  if (one.changed()) return true;
  return look_ - one.look >= (one.surely() ? kLooksSure : one.watched() ? kLooksLikely : 1);
}

bool Scheduler::next(Slot& mine) {
  const auto found = std::ranges::find_if(aside_, [this](const Slot& one) { return ready(*one); });
  if (found == aside_.end()) return false;
  if (mine) idle_.push_back(std::move(mine));
  mine = std::move(*found);
  aside_.erase(found);
  if (mine->watched()) {
    --parked_;
    if (mine->changed()) progress();
  }
  ++running_;
  return true;
}

bool Scheduler::take(Slot& mine) {
  Lock lock(mutex_);
  while (!stop_ && !out_of_memory_ && !leave_) {
    if (can_start()) {
      const std::uint64_t number = next_;
      if (!start(mine)) continue;
      lock.unlock();
      mine->begin(number);
      return true;
    }
    if (next(mine)) return true;
    if (next_ == dispatch_.workgroups && resident_ == 0) return false;
    rest(lock);
  }
  return false;
}

// Nobody is ready. While one thread waits for those that run, or for somebody else, the others sleep until it tells them.
void Scheduler::rest(Lock& lock) {
  if (aside_.empty() || looking_) {
    changed_.wait(lock);
    return;
  }
  looking_ = true;
  if (running_ != 0)
    changed_.wait_for(lock, kShortRest * (1u << std::min(polls_++, kMostPolls)));  // their stores may let one go on
  else
    look(lock);
  looking_ = false;
  changed_.notify_all();
  if (interruption_.due()) interrupt();
}

void Scheduler::look(Lock& lock) {
  ++look_;
  const Clock::time_point now = Clock::now();
  if (idle_since_ == Clock::time_point{}) idle_since_ = now;
  const auto idle = now - idle_since_;
  if (idle < kNoRest) {
    lock.unlock();
    ::sched_yield();
    lock.lock();
    return;
  }
  // Nobody can end a wait without a look at memory: whoever launched such a thing shall see that it hangs.
  const bool others_may_help = std::ranges::any_of(aside_, [](const Slot& one) { return one->reads(); });
  if (idle >= kFewRests && others_may_help)
    leave_ = true;
  else
    sleep(lock, idle < kFewRests ? kShortRest : kLongRest);
}

void Scheduler::sleep(Lock& lock, std::chrono::microseconds time) {
  changed_.wait_for(lock, time);
  // Once the call that launched has gone on, a wait does no harm as long as nobody waits for it.
  if (interruption_.left() && waiting_calls().load(std::memory_order_relaxed) == 0) return;
  for (const Slot& one : aside_) one->rested(static_cast<std::uint64_t>(time.count()) * kInstructionsPerMicrosecond);
}

bool Scheduler::over() {
  const std::lock_guard guard(mutex_);
  return at_end();
}

void Scheduler::wait_for_change() {
  Lock lock(mutex_);
  leave_ = false;
  const Clock::time_point begin = Clock::now();
  while (!at_end() && !can_start() && std::ranges::none_of(aside_, [this](const Slot& one) { return ready(*one); })) {
    look_for_handlers();
    if (interruption_.due()) return interrupt();
    ++look_;
    sleep(lock, Clock::now() - begin < kLongWait ? kLongRest : kLongestRest);
  }
}

void Scheduler::set_aside(Slot& mine, bool waits) {
  mine->look = look_;
  if (!waits) progress();
  if (mine->watched()) {
    ++parked_;
  } else if (++turns_without_end_ >= resident_ - parked_ && next_ < dispatch_.workgroups && allowed_ < most_) {
    allowed_ = std::min(allowed_ * 2, most_);
    turns_without_end_ = 0;
  }
  aside_.push_back(std::move(mine));
  changed_.notify_all();
}

void Scheduler::give(Slot& mine, Turn turn) {
  const std::lock_guard guard(mutex_);
  --running_;
  switch (turn) {
    case Turn::Finished:
      --resident_;
      turns_without_end_ = 0;
      progress();
      changed_.notify_all();
      return;
    case Turn::Paused:
      if (first_pause_ == Clock::time_point{}) first_pause_ = Clock::now();
      if (!patient_ && Clock::now() - first_pause_ > std::chrono::seconds(configuration().patience)) leave_ = true;
      return set_aside(mine, false);
    case Turn::Waiting: return set_aside(mine, true);
    case Turn::Fault:
      if (!stop_) fault_ = mine->fault();  // the first one is reported
      stop_ = true;
      changed_.notify_all();
      return;
    case Turn::Stopped: return;
  }
}

void Scheduler::interrupt() {
  const bool done = next_ == dispatch_.workgroups && resident_ == 0;
  if (stop_ || done) return;
  fault_ = {FaultKind::Interrupted, std::string(name(FaultKind::Interrupted)) +
                                        ": SIGINT came while it ran, its device was reset, or the process ended"};
  stop_ = true;
  changed_.notify_all();
}

Counters Scheduler::counters() const {
  Counters sum;
  const auto add = [&sum](const Slot& slot) {
    const Counters& more = slot->counters();
    for (int i = 0; i < kCategoryCount; ++i) sum.instructions[i] += more.instructions[i];
    sum.flops += more.flops;
    sum.global_read += more.global_read;
    sum.global_written += more.global_written;
    sum.lds_read += more.lds_read;
    sum.lds_written += more.lds_written;
  };
  std::ranges::for_each(idle_, add);
  std::ranges::for_each(aside_, add);
  return sum;
}

}  // namespace apb::emu
