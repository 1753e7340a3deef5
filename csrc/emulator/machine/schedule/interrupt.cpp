#include "machine/schedule/interrupt.h"

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

// A handler of the program, in one of two forms.
struct Handler {
  std::atomic<Plain> plain{nullptr};
  std::atomic<Full> full{nullptr};

  void set(const Action& action) {
    const bool is_full = (action.sa_flags & SA_SIGINFO) != 0;
    plain.store(is_full ? nullptr : action.sa_handler);
    full.store(is_full ? action.sa_sigaction : nullptr);
  }
  void set(const Handler& other) {
    plain.store(other.plain.load());
    full.store(other.full.load());
  }
  void call(int number, ::siginfo_t* info, void* context) const {
    if (const Full with_info = full.load())
      with_info(number, info, context);
    else if (const Plain without = plain.load())
      without(number);
  }
};

// The state that the handler reads: it may run on any thread, at any time. `below` is the handler that was there before `next`.
std::atomic<unsigned> signals{0};
Handler next, below;
std::atomic<bool> one_shot{false};  // the kernel would take `next` away before it calls it
static_assert(std::atomic<unsigned>::is_always_lock_free && std::atomic<Plain>::is_always_lock_free);
// The depth of the handler on this thread, and the outermost one's callee. The model keeps a signal from allocating them.
#define APB_OF_THREAD __attribute__((tls_model("initial-exec"))) thread_local
APB_OF_THREAD unsigned depth = 0;
APB_OF_THREAD Plain called_plain = nullptr;
APB_OF_THREAD Full called_full = nullptr;
#undef APB_OF_THREAD

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
  const unsigned level = depth++;
  if (level == 0) {
    called_plain = next.plain.load();
    called_full = next.full.load();
    signals.fetch_add(1, std::memory_order_relaxed);
    if (one_shot.exchange(false)) {
      Action none{};
      none.sa_handler = SIG_DFL;
      ::sigaction(SIGINT, &none, nullptr);
    }
    next.call(number, info, context);
  } else if (level == 1) {
    // From the program's handler, and the same signal: it was put over this one and passes on to it, or raises the signal again for
    // what it has put back, which is the next one by now if somebody looked meanwhile.
    const bool same = next.plain.load() == called_plain && next.full.load() == called_full;
    (same ? below : next).call(number, info, context);
  }
  depth = level;
  errno = error;
}

bool is_ours(const Action& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == count_and_pass_on;
}

bool can_be_passed_on(const Action& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

bool is_next(const Action& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 ? action.sa_sigaction == next.full.load()
                                             : action.sa_handler == next.plain.load();
}

void install() {
  Action now{};
  if (::sigaction(SIGINT, nullptr, &now) != 0 || is_ours(now)) return;
  installed = false;
  if (!can_be_passed_on(now)) return;
  if (!is_next(now)) below.set(next);
  next.set(now);
  one_shot.store((now.sa_flags & SA_RESETHAND) != 0);
  program_has = now;
  Action ours = now;  // its mask, and whether system calls go on
  // One for a single signal (LLVM has one, which puts the former back and raises the signal again) is taken away as the kernel would.
  ours.sa_flags = static_cast<int>((static_cast<unsigned>(now.sa_flags) | SA_SIGINFO) & ~SA_RESETHAND);
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
  depth = 0;  // a handler that was left by a jump
  ++running;
  return signals.load(std::memory_order_relaxed);
}

}  // namespace

void look_for_handlers() {
  const std::unique_lock guard(mutex(), std::try_to_lock);  // the next look does, too
  if (guard && running != 0) install();
}

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
