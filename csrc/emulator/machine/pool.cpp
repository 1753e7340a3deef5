#include "pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "configuration.h"

namespace apb::emu {
namespace {

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
    work();
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
    work();
  else
    pool().run(helpers, work);
}

}  // namespace apb::emu
