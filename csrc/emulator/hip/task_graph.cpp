// A graph's nodes as tasks.
#include <map>

#include "graph.h"
#include "task.h"

namespace apb::emu::hip {
namespace {

// The nodes from where the graph was left. Answers the tasks behind which all of it is done.
class Nodes {
 public:
  Nodes(const std::shared_ptr<Stream>& stream, Left left) : stream_(stream), left_(std::move(left)) {}

  TaskList enqueue_all(const Graph& graph, const TaskList& before) {
    std::vector<std::shared_ptr<Node>> order;
    sorted(graph, order);
    std::size_t at = 0;
    const bool inside = !left_.path.empty();
    if (inside) {
      at = left_.path.back();
      left_.path.pop_back();
    }
    std::map<const Node*, TaskList> behind;  // nothing: the node is done
    TaskList out;
    for (std::size_t i = at; i < order.size(); ++i) {
      TaskList after = before;
      for (const auto& dependency : order[i]->dependencies)
        for (const auto& task : behind[dependency.get()]) after.push_back(task);
      TaskList made = inside && i == at ? go_on(*order[i]) : enqueue_node(*order[i], after);
      out.insert(out.end(), made.begin(), made.end());
      behind[order[i].get()] = std::move(made);
    }
    return out;
  }

 private:
  TaskList go_on(const Node& node) {
    if (const auto* child = std::get_if<GraphOperation>(&node.operation)) return enqueue_all(*child->graph, {});
    return {enqueue_rest(stream_, node.operation, std::move(left_.rest), false)};
  }

  TaskList enqueue_node(const Node& node, const TaskList& after) {
    if (!node.enabled) return after;
    if (const auto* child = std::get_if<GraphOperation>(&node.operation)) {
      TaskList inner = enqueue_all(*child->graph, after);
      return inner.empty() ? after : inner;
    }
    auto task = std::make_shared<Task>(stream_, node.operation);  // a copy: the node may be changed meanwhile
    if (auto* record = std::get_if<RecordOperation>(&task->operation)) begin_record(*record, task);
    return {enqueue(std::move(task), after, false)};
  }

  std::shared_ptr<Stream> stream_;
  Left left_;
};

}  // namespace

std::shared_ptr<Task> enqueue_graph(const std::shared_ptr<Stream>& stream, const Graph& graph, Left left,
                                    const TaskList& before) {
  TaskList all = Nodes(stream, std::move(left)).enqueue_all(graph, before);
  all.insert(all.end(), before.begin(), before.end());
  return enqueue(std::make_shared<Task>(stream, EmptyOperation{}), std::move(all));
}

}  // namespace apb::emu::hip
