// Work that is not done when the call that enqueued it returns.
//
// A call runs its work itself when nothing that it must wait for is outstanding, which is nearly always. When a kernel only waits
// for somebody else's store, the call returns without it: what is left becomes a task, and so does all that is enqueued
// behind it. Tasks run on threads of the library's own, each as soon as those before it are done.
#pragma once

#include <functional>
#include <vector>

#include "machine/schedule/interrupt.h"
#include "stream.h"

namespace apb::emu::hip {

struct Task;
using TaskList = std::vector<std::shared_ptr<Task>>;

struct Task {
  std::shared_ptr<Stream> stream;
  Operation operation;
  std::function<hipError_t()> action;  // instead of an operation
  std::unique_ptr<LaunchRest> rest;    // of the operation, a kernel that runs already
  bool always = false;                 // after a fault of its device, too
  std::shared_ptr<Interruption> interruption;

  Task(std::shared_ptr<Stream> on, Operation work);

  std::atomic<bool> done{false};
  std::atomic<hipError_t> result{hipSuccess};

  // Under the mutex of all tasks.
  TaskList before, behind;  // not done yet
  std::size_t missing = 0;  // of `before`
  bool cancelled = false;
};

// Is anything outstanding, on any stream?
bool outstanding();
// The tasks that an operation enqueued now must wait for. They are the stream's own, and between the legacy stream and the
// blocking streams of its device those of the others.
TaskList tasks_before(const Stream& stream);
TaskList tasks_of_device(int device);
TaskList all_tasks();
// `last`: what is enqueued on the stream next waits for it.
std::shared_ptr<Task> enqueue(std::shared_ptr<Task> task, TaskList before, bool last = true);
// Until they are done. SIGINT ends them, and the wait.
void wait_for(const TaskList& list);
// The same, for calls that synchronise with a device: its fault, or what went wrong in work whose call had returned.
hipError_t synchronize(Device& device, const TaskList& list);
// For calls that take memory away: until nothing of the device runs, or of any device when it is negative.
void settle(int device);
// Ends what runs of them, and what they wait for; what has not begun never does.
void cancel(const TaskList& list);

// A kernel that the calling thread has left, in whose InterruptionScope it is.
std::shared_ptr<Task> enqueue_rest(const std::shared_ptr<Stream>& stream, Operation operation,
                                   std::unique_ptr<LaunchRest> rest, bool last = true);
// A graph, or what is left of it: nodes that depend on nothing that is outstanding run side by side. Answers the task behind all
// of it.
std::shared_ptr<Task> enqueue_graph(const std::shared_ptr<Stream>& stream, const Graph& graph, Left left,
                                    const TaskList& before);

}  // namespace apb::emu::hip
