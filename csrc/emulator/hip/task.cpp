// Tasks: who may run, on which thread, and waiting for them.
#include "task.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <set>
#include <system_error>
#include <thread>

namespace apb::emu::hip {
namespace {

constexpr std::chrono::milliseconds kLook{20};  // between looks for a signal
constexpr std::chrono::milliseconds kExit{500};
constexpr std::size_t kIdleThreads = 4;  // that wait for more

// Never destroyed and its threads are detached, as with the pool of launches.
class Tasks {
 public:
  std::mutex mutex;
  std::condition_variable changed;
  std::map<const Stream*, std::shared_ptr<Task>> last;  // of each stream that has any
  std::set<std::shared_ptr<Task>> open;

  void start(const std::shared_ptr<Task>& task) {
    ready_.push_back(task);
    if (ready_.size() <= idle_) return wake_.notify_one();
    try {
      std::thread([this] { serve(); }).detach();
    } catch (const std::system_error& error) {
      log(LogLevel::Error, "no thread for the work of a stream starts: %s", error.what());
      wake_.notify_one();  // whoever is done with its own takes it
    }
  }

  // With the mutex held.
  void end(Task& task, hipError_t result) {
    task.result = result;
    task.done = true;
    for (const auto& next : task.behind) {
      std::erase_if(next->before, [&](const auto& one) { return one.get() == &task; });
      if (--next->missing == 0) start(next);
    }
    task.behind.clear();
    const auto at = last.find(task.stream.get());
    if (at != last.end() && at->second.get() == &task) last.erase(at);
    std::erase_if(open, [&](const auto& one) { return one.get() == &task; });
    count().store(open.size(), std::memory_order_release);
    changed.notify_all();
  }

  static std::atomic<std::size_t>& count() {
    static std::atomic<std::size_t> tasks{0};
    return tasks;
  }

 private:
  void serve() {
    std::unique_lock lock(mutex);
    while (true) {
      if (ready_.empty()) {
        if (idle_ == kIdleThreads) return;
        ++idle_;
        wake_.wait(lock, [this] { return !ready_.empty(); });
        --idle_;
      }
      std::shared_ptr<Task> task = std::move(ready_.front());
      ready_.pop_front();
      const bool cancelled = task->cancelled && !task->rest;
      lock.unlock();
      const hipError_t result = run_task(*task, cancelled);
      // The operation's destructor may free memory, or its stream, and must not run with the mutex held.
      const Operation operation = std::exchange(task->operation, EmptyOperation{});
      const auto action = std::exchange(task->action, nullptr);
      const auto rest = std::exchange(task->rest, nullptr);
      lock.lock();
      end(*task, result);
      lock.unlock();
      task.reset();
      lock.lock();
    }
  }

  static hipError_t run_task(Task& task, bool cancelled);

  std::condition_variable wake_;
  std::deque<std::shared_ptr<Task>> ready_;
  std::size_t idle_ = 0;
};

std::atomic<Tasks*> current{nullptr};

Tasks& make_tasks();
Tasks& tasks() {
  Tasks* existing = current.load(std::memory_order_acquire);
  return existing ? *existing : make_tasks();
}

// A child has none of the threads: what was outstanding is the parent's, and its stream is idle here. The old object, whose
// conditions count waiters that are not there, is left as it is, and what the tasks hold with it.
void in_child() {
  Tasks& old = tasks();
  for (const auto& task : old.open) task->done = true;
  Tasks::count() = 0;
  waiting_calls() = 0;
  old.mutex.unlock();
  current = new Tasks;
}

// Kernels still run when the process exits: they end here, before the objects that they use do.
void at_exit() {
  if (!outstanding()) return;
  cancel(all_tasks());
  Tasks& all = tasks();
  std::unique_lock lock(all.mutex);
  all.changed.wait_for(lock, kExit, [&] { return all.open.empty(); });
}

Tasks& make_tasks() {
  static const bool made = [] {
    current = new Tasks;
    pthread_atfork([] { tasks().mutex.lock(); }, [] { tasks().mutex.unlock(); }, in_child);
    std::atexit(at_exit);
    return true;
  }();
  static_cast<void>(made);
  return *current.load(std::memory_order_acquire);
}

hipError_t Tasks::run_task(Task& task, bool cancelled) {
  const InterruptionScope scope(task.interruption);
  const EntryScope entry("work of a stream");
  Device& device = *find_device(task.stream->device);
  thread().device = device.ordinal;
  hipError_t result = device.fault;
  try {
    if (task.rest) {
      result = finish_kernel(*task.rest, *task.stream);
    } else if (cancelled || (result != hipSuccess && !task.always)) {
      if (cancelled) result = hipErrorLaunchFailure;
      skip(task.operation, result);
    } else {
      result = task.action ? task.action() : run(task.operation, *task.stream);
    }
  } catch (const std::bad_alloc&) {
    result = fail(hipErrorOutOfMemory, "no host memory");
  }
  // Sticky faults are the device's; anything else is for the next call that synchronises.
  if (result != hipSuccess && device.fault == hipSuccess) device.late = result;
  return result;
}

// All that the tasks wait for, and they themselves; with the mutex held.
std::set<Task*> closure(const TaskList& list) {
  std::set<Task*> out;
  std::vector<Task*> rest;
  for (const auto& task : list) rest.push_back(task.get());
  while (!rest.empty()) {
    Task* const task = rest.back();
    rest.pop_back();
    if (task->done || !out.insert(task).second) continue;
    for (const auto& one : task->before) rest.push_back(one.get());
  }
  return out;
}

bool concerns(const Stream& waits, const Stream& other) {
  if (&waits == &other) return true;
  return waits.device == other.device && waits.blocking() && other.blocking() && (waits.null || other.null);
}

}  // namespace

Task::Task(std::shared_ptr<Stream> on, Operation work)
    : stream(std::move(on)), operation(std::move(work)), interruption(std::make_shared<Interruption>(0)) {
  interruption->leave();
}

bool outstanding() { return Tasks::count().load(std::memory_order_acquire) != 0; }

TaskList tasks_before(const Stream& stream) {
  TaskList out;
  if (!outstanding()) return out;
  Tasks& all = tasks();
  const std::lock_guard guard(all.mutex);
  for (const auto& [other, task] : all.last)
    if (concerns(stream, *other)) out.push_back(task);
  return out;
}

TaskList tasks_of_device(int device) {
  TaskList out;
  if (!outstanding()) return out;
  Tasks& all = tasks();
  const std::lock_guard guard(all.mutex);
  for (const auto& [stream, task] : all.last)
    if (stream->device == device) out.push_back(task);
  return out;
}

TaskList all_tasks() {
  Tasks& all = tasks();
  const std::lock_guard guard(all.mutex);
  return {all.open.begin(), all.open.end()};
}

std::shared_ptr<Task> enqueue(std::shared_ptr<Task> task, TaskList before, bool last) {
  Tasks& all = tasks();
  const std::lock_guard guard(all.mutex);
  std::erase_if(before, [](const auto& one) { return one->done.load(); });
  task->missing = before.size();
  for (const auto& one : before) one->behind.push_back(task);
  task->before = std::move(before);
  all.open.insert(task);
  Tasks::count().store(all.open.size(), std::memory_order_release);
  if (last) all.last[task->stream.get()] = task;
  if (task->missing == 0) all.start(task);
  return task;
}

std::shared_ptr<Task> enqueue_rest(const std::shared_ptr<Stream>& stream, Operation operation,
                                   std::unique_ptr<LaunchRest> rest, bool last) {
  auto task = std::make_shared<Task>(stream, std::move(operation));
  task->rest = std::move(rest);
  task->interruption = InterruptionScope().state();
  return enqueue(std::move(task), {}, last);
}

void cancel(const TaskList& list) {
  Tasks& all = tasks();
  const std::lock_guard guard(all.mutex);
  for (Task* task : closure(list)) {
    task->cancelled = true;
    task->interruption->ask();
  }
}

void wait_for(const TaskList& list) {
  if (list.empty()) return;
  InterruptionScope asked;
  Tasks& all = tasks();
  std::unique_lock lock(all.mutex);
  const auto done = [&] { return std::ranges::all_of(list, [](const auto& one) { return one->done.load(); }); };
  ++waiting_calls();
  bool ended = false;
  while (!all.changed.wait_for(lock, kLook, done)) {
    look_for_handlers();
    if (ended || !asked.state()->due()) continue;
    ended = true;
    lock.unlock();
    cancel(list);
    lock.lock();
  }
  --waiting_calls();
}

hipError_t synchronize(Device& device, const TaskList& list) {
  wait_for(list);
  if (const hipError_t fault = device.fault; fault != hipSuccess) return fault;
  return device.late.load() == hipSuccess ? hipSuccess : device.late.exchange(hipSuccess);
}

void settle(int device) {
  if (!outstanding()) return;
  wait_for(device < 0 ? all_tasks() : tasks_of_device(device));
}

}  // namespace apb::emu::hip
