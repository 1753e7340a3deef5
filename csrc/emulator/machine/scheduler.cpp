#include "scheduler.h"

#include <sched.h>

#include <algorithm>
#include <new>

namespace apb::emu {
namespace {

constexpr std::uint64_t kMostMemory = 4ull << 30;  // of register files, LDS and scratch of one launch
constexpr std::uint32_t kWavesPerUnit = 32;        // eight on each of four SIMDs

// A launch that only waits looks again at once for a while, because what it waits for is mostly near; then it sleeps in between.
constexpr std::uint64_t kLooks = 32;
constexpr std::chrono::microseconds kShortRest{50}, kLongRest{200};
constexpr std::uint64_t kInstructionsPerMicrosecond = 64;  // of a wave that spins

// How many workgroups the card would run at once, and no more than memory is sensible for.
std::uint64_t most_resident(const Dispatch& d) {
  const std::uint64_t per_unit = std::max(kWavesPerUnit / std::max(d.waves_per_workgroup(), 1u), 1u);
  const std::uint64_t by_memory =
      std::max<std::uint64_t>(kMostMemory / std::max<std::uint64_t>(ResidentWorkgroup::bytes(d), 1), 64);
  return std::min({d.compute_units * per_unit, by_memory, d.workgroups});
}

}  // namespace

Scheduler::Scheduler(const Dispatch& dispatch, Interruption& interruption, unsigned threads, bool all_resident)
    : dispatch_(dispatch), interruption_(interruption) {
  most_ = all_resident ? dispatch.workgroups : std::max<std::uint64_t>(most_resident(dispatch), threads);
  allowed_ = all_resident ? most_ : std::max(threads, 1u);
}

void Scheduler::work() {
  Slot mine;
  try {
    while (take(mine)) {
      const Turn turn = mine->turn(stop_);
      if (give(mine, turn)) ::sched_yield();
      if (interruption_.due()) interrupt();
    }
    const std::lock_guard guard(mutex_);
    if (mine) idle_.push_back(std::move(mine));  // keeps its counters
  } catch (const std::bad_alloc&) {
    // What this thread held is lost: the launch cannot end well.
    const std::lock_guard guard(mutex_);
    out_of_memory_ = stop_ = true;
    changed_.notify_all();
  }
}

// Called with the lock held.
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
  ++next_;
  return true;
}

bool Scheduler::take(Slot& mine) {
  std::unique_lock lock(mutex_);
  while (!stop_ && !out_of_memory_) {
    if (next_ < dispatch_.workgroups && resident_ < allowed_) {
      const std::uint64_t number = next_;
      if (!start(mine)) continue;
      lock.unlock();
      mine->begin(number);
      return true;
    }
    if (!aside_.empty() && waiting_turns_ != 0 && std::chrono::steady_clock::now() < not_before_) {
      changed_.wait_until(lock, not_before_);
      continue;
    }
    if (!aside_.empty()) {
      if (mine) idle_.push_back(std::move(mine));
      mine = std::move(aside_.front());
      aside_.pop_front();
      return true;
    }
    if (next_ == dispatch_.workgroups && resident_ == 0) return false;
    changed_.wait(lock);
  }
  return false;
}

// Called with the lock held, as what follows.
bool Scheduler::set_aside(Slot& mine, bool waits) {
  aside_.push_back(std::move(mine));
  if (++turns_without_end_ >= resident_ && next_ < dispatch_.workgroups && allowed_ < most_) {
    allowed_ = std::min(allowed_ * 2, most_);
    turns_without_end_ = 0;
  }
  changed_.notify_all();
  waiting_turns_ = waits ? waiting_turns_ + 1 : 0;
  const bool others_start = next_ < dispatch_.workgroups && resident_ < allowed_;
  return waits && !others_start && waiting_turns_ % resident_ == 0 && all_wait();
}

// True as long as a turn for another process is all that is tried; then nobody is taken for a while.
bool Scheduler::all_wait() {
  const std::uint64_t looks = waiting_turns_ / resident_;
  if (looks <= kLooks) return true;
  const auto rest = looks <= 4 * kLooks ? kShortRest : kLongRest;
  not_before_ = std::chrono::steady_clock::now() + rest;
  for (const Slot& one : aside_) one->rested(static_cast<std::uint64_t>(rest.count()) * kInstructionsPerMicrosecond);
  return false;
}

bool Scheduler::give(Slot& mine, Turn turn) {
  const std::lock_guard guard(mutex_);
  switch (turn) {
    case Turn::Finished:
      --resident_;
      turns_without_end_ = waiting_turns_ = 0;
      changed_.notify_all();
      return false;
    case Turn::Paused: return set_aside(mine, false);
    case Turn::Waiting: return set_aside(mine, true);
    case Turn::Fault:
      if (!stop_) fault_ = mine->fault();  // the first one is reported
      stop_ = true;
      changed_.notify_all();
      return false;
    case Turn::Stopped: return false;
  }
  return false;
}

void Scheduler::interrupt() {
  const std::lock_guard guard(mutex_);
  const bool done = next_ == dispatch_.workgroups && resident_ == 0;
  if (stop_ || done) return;
  fault_ = {FaultKind::Interrupted, std::string(name(FaultKind::Interrupted)) + ": SIGINT came while it ran"};
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
