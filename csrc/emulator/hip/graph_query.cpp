// Queries of a graph and its nodes.
#include <algorithm>

#include "graph.h"

using namespace apb::emu::hip;

namespace {

using Nodes = std::vector<std::shared_ptr<Node>>;

// Without `out` only the count; with it at most *count, and the rest of the list is nulled.
hipError_t list(const Nodes& nodes, hipGraphNode_t* out, std::size_t* count) {
  if (!count) return null_argument("the count");
  if (out)
    for (std::size_t i = 0; i < *count; ++i) out[i] = i < nodes.size() ? handle_of(nodes[i]) : nullptr;
  *count = out ? std::min(*count, nodes.size()) : nodes.size();
  return hipSuccess;
}

Nodes followers(const Node& of) {
  Nodes out;
  const auto graph = of.graph.lock();
  if (!graph) return out;
  for (const auto& node : graph->nodes)
    for (const auto& dependency : node->dependencies)
      if (dependency.get() == &of) out.push_back(node);
  return out;
}

}  // namespace

APB_HIP hipError_t hipGraphGetNodes(hipGraph_t handle, hipGraphNode_t* out, std::size_t* count) {
  return entry(__func__, [&] {
    const std::lock_guard guard(capture_mutex());
    hipError_t error = hipSuccess;
    const auto graph = find_graph(handle, error);
    return graph ? list(graph->nodes, out, count) : error;
  });
}
APB_HIP hipError_t hipGraphGetRootNodes(hipGraph_t handle, hipGraphNode_t* out, std::size_t* count) {
  return entry(__func__, [&] {
    const std::lock_guard guard(capture_mutex());
    hipError_t error = hipSuccess;
    const auto graph = find_graph(handle, error);
    if (!graph) return error;
    Nodes roots;
    for (const auto& node : graph->nodes)
      if (node->dependencies.empty()) roots.push_back(node);
    return list(roots, out, count);
  });
}
APB_HIP hipError_t hipGraphGetEdges(hipGraph_t handle, hipGraphNode_t* from, hipGraphNode_t* to, std::size_t* count) {
  return entry(__func__, [&] {
    const std::lock_guard guard(capture_mutex());
    if ((from == nullptr) != (to == nullptr)) return null_argument("one of the lists");
    hipError_t error = hipSuccess;
    const auto graph = find_graph(handle, error);
    if (!graph) return error;
    Nodes first, second;
    for (const auto& node : graph->nodes)
      for (const auto& dependency : node->dependencies) first.push_back(dependency), second.push_back(node);
    if (!count) return null_argument("the count");
    std::size_t same = *count;
    if (from) list(first, from, &same);
    return list(second, to, count);
  });
}
APB_HIP hipError_t hipGraphNodeGetDependencies(hipGraphNode_t handle, hipGraphNode_t* out, std::size_t* count) {
  return entry(__func__, [&] {
    const std::lock_guard guard(capture_mutex());
    hipError_t error = hipSuccess;
    const auto node = find_node(handle, error);
    return node ? list(node->dependencies, out, count) : error;
  });
}
APB_HIP hipError_t hipGraphNodeGetDependentNodes(hipGraphNode_t handle, hipGraphNode_t* out, std::size_t* count) {
  return entry(__func__, [&] {
    const std::lock_guard guard(capture_mutex());
    hipError_t error = hipSuccess;
    const auto node = find_node(handle, error);
    return node ? list(followers(*node), out, count) : error;
  });
}
APB_HIP hipError_t hipGraphNodeGetType(hipGraphNode_t handle, hipGraphNodeType* out) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    hipError_t error = hipSuccess;
    if (const auto node = find_node(handle, error)) *out = type_of(*node);
    return error;
  });
}
APB_HIP hipError_t hipGraphDestroyNode(hipGraphNode_t handle) {
  return entry(__func__, [&] {
    const std::lock_guard guard(capture_mutex());
    hipError_t error = hipSuccess;
    const auto node = find_node(handle, error);
    if (!node) return error;
    for (const auto& next : followers(*node)) std::erase(next->dependencies, node);
    if (const auto graph = node->graph.lock()) std::erase(graph->nodes, node);
    table<Node>().take(handle);
    return hipSuccess;
  });
}
