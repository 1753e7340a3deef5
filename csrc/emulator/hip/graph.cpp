// Graphs: nodes, dependencies, copies, order.
#include "graph.h"

#include <algorithm>
#include <map>

#include "machine/memory/allocations.h"
#include "memory.h"
#include "pool.h"

namespace apb::emu::hip {

GraphMemory::~GraphMemory() {
  Allocation found;
  // The program may have freed it itself, and somebody else have the address now.
  if (live(address, found) && found.number == number) device_free(address);
}

std::shared_ptr<Node> add_node(const std::shared_ptr<Graph>& graph, Operation operation,
                               std::vector<std::shared_ptr<Node>> dependencies) {
  const std::lock_guard guard(capture_mutex());
  auto node = std::make_shared<Node>();
  node->operation = std::move(operation);
  node->dependencies = std::move(dependencies);
  node->graph = graph;
  graph->nodes.push_back(node);
  table<Node>().add(node);
  return node;
}

// A node is known by what was added: a clone's child graphs are clones too.
std::shared_ptr<Graph> clone(const Graph& graph) {
  const std::lock_guard guard(capture_mutex());
  auto copy = std::make_shared<Graph>();
  copy->original = &graph;
  std::map<const Node*, std::shared_ptr<Node>> made;
  for (const auto& node : graph.nodes) {
    Operation operation = node->operation;
    if (auto* child = std::get_if<GraphOperation>(&operation)) {
      child->graph = clone(*child->graph);
      child->graph->child = true;
    }
    auto twin = add_node(copy, std::move(operation), {});
    twin->original = node.get();
    twin->enabled = node->enabled;
    made[node.get()] = std::move(twin);
  }
  for (const auto& node : graph.nodes)
    for (const auto& dependency : node->dependencies)
      made[node.get()]->dependencies.push_back(made.at(dependency.get()));
  return copy;
}

bool sorted(const Graph& graph, std::vector<std::shared_ptr<Node>>& out) {
  const std::lock_guard guard(capture_mutex());
  std::map<const Node*, std::size_t> waiting;
  std::map<const Node*, std::vector<std::shared_ptr<Node>>> followers;
  for (const auto& node : graph.nodes) {
    waiting[node.get()] = node->dependencies.size();
    for (const auto& dependency : node->dependencies) followers[dependency.get()].push_back(node);
  }
  out.clear();
  for (const auto& node : graph.nodes)
    if (node->dependencies.empty()) out.push_back(node);
  for (std::size_t i = 0; i < out.size(); ++i)
    for (const auto& next : followers[out[i].get()])
      if (--waiting[next.get()] == 0) out.push_back(next);
  return out.size() == graph.nodes.size();
}

hipError_t run_nodes(const std::vector<std::shared_ptr<Node>>& order, Stream& stream, Left* left) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!order[i]->enabled) continue;
    if (const hipError_t fault = find_device(stream.device)->fault; fault != hipSuccess) return fault;
    if (const hipError_t error = run(order[i]->operation, stream, left); error != hipSuccess) return error;
    if (!left || !left->rest) continue;
    left->path.push_back(i);
    return hipSuccess;
  }
  return hipSuccess;
}

void forget_nodes(const Graph& graph) {
  for (const auto& node : graph.nodes) {
    table<Node>().take(node.get());
    if (const auto* child = std::get_if<GraphOperation>(&node->operation)) {
      table<Graph>().take(child->graph.get());
      forget_nodes(*child->graph);
    }
  }
}

hipGraphNodeType type_of(const Node& node) {
  constexpr hipGraphNodeType kTypes[] = {hipGraphNodeTypeEmpty,     hipGraphNodeTypeKernel, hipGraphNodeTypeMemcpy,
                                         hipGraphNodeTypeMemset,    hipGraphNodeTypeHost,   hipGraphNodeTypeEventRecord,
                                         hipGraphNodeTypeWaitEvent, hipGraphNodeTypeGraph,  hipGraphNodeTypeMemAlloc,
                                         hipGraphNodeTypeMemFree};
  static_assert(std::size(kTypes) == std::variant_size_v<Operation>);
  return kTypes[node.operation.index()];
}

std::shared_ptr<Graph> find_graph(hipGraph_t handle, hipError_t& error) {
  auto graph = table<Graph>().find(handle);
  if (!graph) error = fail(hipErrorInvalidValue, "%p is no graph", static_cast<void*>(handle));
  return graph;
}
std::shared_ptr<Node> find_node(hipGraphNode_t handle, hipError_t& error) {
  auto node = table<Node>().find(handle);
  if (!node) error = fail(hipErrorInvalidValue, "%p is no graph node", static_cast<void*>(handle));
  return node;
}
std::shared_ptr<GraphExec> find_exec(hipGraphExec_t handle, hipError_t& error) {
  auto exec = table<GraphExec>().find(handle);
  if (!exec) error = fail(hipErrorInvalidValue, "%p is no executable graph", static_cast<void*>(handle));
  return exec;
}

bool find_nodes(const std::shared_ptr<Graph>& graph, const hipGraphNode_t* handles, std::size_t count,
                std::vector<std::shared_ptr<Node>>& out, hipError_t& error) {
  out.clear();
  if (!handles && count != 0) error = null_argument("the list of nodes");
  for (std::size_t i = 0; i < count && error == hipSuccess; ++i) {
    auto node = find_node(handles[i], error);
    if (node && node->graph.lock() != graph) error = fail(hipErrorInvalidValue, "node %zu belongs to another graph", i);
    out.push_back(std::move(node));
  }
  return error == hipSuccess;
}

hipGraphNode_t handle_of(const std::shared_ptr<Node>& node) { return reinterpret_cast<hipGraphNode_t>(node.get()); }

}  // namespace apb::emu::hip

using namespace apb::emu::hip;

namespace {

using Nodes = std::vector<std::shared_ptr<Node>>;

hipError_t change_dependencies(hipGraph_t handle, const hipGraphNode_t* from, const hipGraphNode_t* to,
                               std::size_t count, bool add) {
  const std::lock_guard guard(capture_mutex());
  hipError_t error = hipSuccess;
  const auto graph = find_graph(handle, error);
  Nodes first, second;
  if (!graph || !find_nodes(graph, from, count, first, error) || !find_nodes(graph, to, count, second, error))
    return error;
  for (std::size_t i = 0; i < count; ++i) {
    auto& dependencies = second[i]->dependencies;
    const auto it = std::find(dependencies.begin(), dependencies.end(), first[i]);
    const bool there = it != dependencies.end();
    if (add == there || first[i] == second[i])
      return fail(hipErrorInvalidValue, "edge %zu %s", i, there ? "is there already" : "is not there");
    if (add)
      dependencies.push_back(first[i]);
    else
      dependencies.erase(it);
    Nodes order;
    if (add && !sorted(*graph, order)) {
      dependencies.pop_back();  // a circle of nodes would also keep itself alive
      return fail(hipErrorInvalidValue, "edge %zu closes a circle", i);
    }
  }
  return hipSuccess;
}

}  // namespace

APB_HIP hipError_t hipGraphCreate(hipGraph_t* out, unsigned flags) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    if (flags != 0) return fail(hipErrorInvalidValue, "flags 0x%x, must be 0", flags);
    *out = static_cast<hipGraph_t>(table<Graph>().add(std::make_shared<Graph>()));
    return hipSuccess;
  });
}

APB_HIP hipError_t hipGraphDestroy(hipGraph_t handle) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    const auto graph = find_graph(handle, error);
    if (!graph) return error;
    if (graph->child) return fail(hipErrorInvalidValue, "the graph belongs to a child graph node");
    forget_nodes(*graph);
    table<Graph>().take(handle);
    return hipSuccess;
  });
}

APB_HIP hipError_t hipGraphClone(hipGraph_t* out, hipGraph_t original) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    hipError_t error = hipSuccess;
    const auto graph = find_graph(original, error);
    if (graph) *out = static_cast<hipGraph_t>(table<Graph>().add(clone(*graph)));
    return error;
  });
}

APB_HIP hipError_t hipGraphNodeFindInClone(hipGraphNode_t* out, hipGraphNode_t original, hipGraph_t handle) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    hipError_t error = hipSuccess;
    const auto graph = find_graph(handle, error);
    const auto wanted = graph ? find_node(original, error) : nullptr;
    if (!wanted) return error;
    for (const auto& node : graph->nodes)
      if (node->original == wanted.get()) return *out = handle_of(node), hipSuccess;
    return fail(hipErrorInvalidValue, "the graph has no clone of the node");
  });
}

APB_HIP hipError_t hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t* from, const hipGraphNode_t* to,
                                           std::size_t count) {
  return entry(__func__, [&] { return change_dependencies(graph, from, to, count, true); });
}
APB_HIP hipError_t hipGraphRemoveDependencies(hipGraph_t graph, const hipGraphNode_t* from, const hipGraphNode_t* to,
                                              std::size_t count) {
  return entry(__func__, [&] { return change_dependencies(graph, from, to, count, false); });
}
