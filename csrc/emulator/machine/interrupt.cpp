#include "interrupt.h"

#include <pthread.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction is POSIX, <csignal> need not have it

#include <cerrno>
#include <chrono>
#include <mutex>
#include <utility>

namespace apb::emu {
namespace {

using Action = struct ::sigaction;
using Plain = void (*)(int);
using Full = void (*)(int, ::siginfo_t*, void*);

constexpr std::int64_t kGrace = 500'000'000;  // nanoseconds

// What the handler reads: it may run on any thread, at any time.
std::atomic<unsigned> signals{0};
std::atomic<Plain> next_plain{nullptr};
std::atomic<Full> next_full{nullptr};
static_assert(std::atomic<unsigned>::is_always_lock_free && std::atomic<Plain>::is_always_lock_free);

// Under the mutex; never destroyed, because a thread may launch while the process exits.
std::mutex& mutex() {
  static auto* const made = new std::mutex;
  return *made;
}
unsigned running = 0;
bool installed = false;
Action program_has{};

void count_and_pass_on(int number, ::siginfo_t* info, void* context) {
  const int error = errno;
  signals.fetch_add(1, std::memory_order_relaxed);
  if (const Full full = next_full.load())
    full(number, info, context);
  else if (const Plain plain = next_plain.load())
    plain(number);
  errno = error;
}

bool is_ours(const Action& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == count_and_pass_on;
}

// A handler that the kernel would take away at the first signal is left alone.
bool can_be_passed_on(const Action& action) {
  if ((action.sa_flags & SA_RESETHAND) != 0) return false;
  return (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

void install() {
  Action now{};
  if (::sigaction(SIGINT, nullptr, &now) != 0 || is_ours(now)) return;
  installed = false;
  if (!can_be_passed_on(now)) return;
  const bool full = (now.sa_flags & SA_SIGINFO) != 0;
  next_plain.store(full ? nullptr : now.sa_handler);
  next_full.store(full ? now.sa_sigaction : nullptr);
  program_has = now;
  Action ours = now;  // its mask, and whether system calls go on
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = count_and_pass_on;
  installed = ::sigaction(SIGINT, &ours, nullptr) == 0;
}

// The program's handler again, unless somebody has put another one there meanwhile.
void restore() {
  Action now{};
  if (installed && ::sigaction(SIGINT, nullptr, &now) == 0 && is_ours(now)) ::sigaction(SIGINT, &program_has, nullptr);
  installed = false;
}

// A child has none of the launches of the other threads.
void watch_forks() {
  static const int registered = pthread_atfork([] { mutex().lock(); }, [] { mutex().unlock(); },
                                               [] {
                                                 restore();
                                                 running = 0;
                                                 mutex().unlock();
                                               });
  static_cast<void>(registered);
}

thread_local std::shared_ptr<Interruption> outermost;

unsigned begin() {
  watch_forks();
  const std::lock_guard guard(mutex());
  install();  // each launch looks: the program may have another handler since the last one
  ++running;
  return signals.load(std::memory_order_relaxed);
}

}  // namespace

unsigned interrupts_seen() { return signals.load(std::memory_order_relaxed); }

InterruptionScope::InterruptionScope() : state_(outermost) {
  if (state_) return;
  state_ = outermost = std::make_shared<Interruption>(begin());
  outermost_ = counts_ = true;
}

InterruptionScope::InterruptionScope(std::shared_ptr<Interruption> other)
    : state_(std::move(other)), outermost_(!outermost) {
  if (outermost_) outermost = state_;
}

InterruptionScope::~InterruptionScope() {
  if (outermost_) outermost.reset();
  if (!counts_) return;
  const std::lock_guard guard(mutex());
  if (running != 0) --running;  // none in a child that was forked by a host function of the call
  if (running == 0) restore();
}

bool Interruption::due() {
  if (asked_.load(std::memory_order_relaxed)) return true;
  if (left()) return false;
  const unsigned since = signals.load(std::memory_order_relaxed) - before_;
  if (since != 1) return since > 1;
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  std::int64_t first = 0;
  if (seen_.compare_exchange_strong(first, now)) return false;
  return now - first >= kGrace;
}

std::atomic<unsigned>& waiting_calls() {
  static std::atomic<unsigned> count{0};
  return count;
}

}  // namespace apb::emu
