#include "machine/schedule/pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "machine/settings/configuration.h"

namespace apb::emu {
namespace {

// The stack that executing a wave may take. A thread with less lets another one work for it.
constexpr std::size_t kStackNeeded = std::size_t{1} << 18;

// The lowest address of the calling thread's stack, asked for once: for the main thread that reads a file.
std::uintptr_t stack_bottom() {
  static thread_local const std::uintptr_t bottom = [] {
    pthread_attr_t attributes;
    void* start = nullptr;
    std::size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return std::uintptr_t{0};
    pthread_attr_getstack(&attributes, &start, &size);
    pthread_attr_destroy(&attributes);
    return reinterpret_cast<std::uintptr_t>(start);
  }();
  return bottom;
}

// Here, or on a thread of its own where little is left of this stack (threading.stack_size() goes down to 32 KiB).
void work_with_room(const std::function<void()>& work) {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (here - stack_bottom() >= kStackNeeded) return work();
  try {
    std::thread(work).join();
  } catch (const std::system_error& error) {
    log(LogLevel::Warning, "no thread with a larger stack starts: %s", error.what());
    work();
  }
}

struct Job {
  const std::function<void()>* work = nullptr;
  unsigned wanted = 0;  // helpers that may still begin
  unsigned running = 0;
};

// Never destroyed and its threads are detached: they must hold up neither exit() nor a library's end.
class Pool {
 public:
  void run(unsigned helpers, const std::function<void()>& work) {
    Job job{&work, helpers};
    {
      const std::lock_guard guard(mutex_);
      grow();
      jobs_.push_back(&job);
    }
    if (helpers == 1)
      wake_.notify_one();
    else
      wake_.notify_all();
    work_with_room(work);
    std::unique_lock lock(mutex_);
    std::erase(jobs_, &job);
    done_.wait(lock, [&] { return job.running == 0; });
  }

 private:
  void grow() {
    const unsigned target = std::max(configuration().threads, 1u) - 1;
    while (threads_ < target) {
      try {
        std::thread([this] { serve(); }).detach();
      } catch (const std::system_error& error) {
        log(LogLevel::Warning, "only %u of %u worker threads start: %s", threads_, target, error.what());
        return;  // the caller's thread does the work
      }
      ++threads_;
    }
  }

  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return !jobs_.empty(); });
      Job* job = jobs_.front();
      job->running += 1;
      job->wanted -= 1;
      if (job->wanted == 0) jobs_.pop_front();
      lock.unlock();
      (*job->work)();
      lock.lock();
      job->running -= 1;
      if (job->running == 0) done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<Job*> jobs_;  // those that want more helpers
  unsigned threads_ = 0;
};

std::atomic<Pool*> current{nullptr};

Pool& pool() {
  // After fork() the child has none of the threads: it leaves the old pool, whose locks may be held for ever, and makes
  // its own.
  static const int registered = pthread_atfork(nullptr, nullptr, [] { current.store(nullptr); });
  static_cast<void>(registered);
  if (Pool* existing = current.load(std::memory_order_acquire)) return *existing;
  auto* made = new Pool;
  Pool* expected = nullptr;
  if (current.compare_exchange_strong(expected, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *expected;
}

}  // namespace

void run_on_pool(unsigned helpers, const std::function<void()>& work) {
  if (helpers == 0)
    work_with_room(work);
  else
    pool().run(helpers, work);
}

}  // namespace apb::emu
