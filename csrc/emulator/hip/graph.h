// Graphs: nodes with dependencies, and their executable form.
#pragma once

#include "capture.h"
#include "operation.h"
#include "runtime.h"

namespace apb::emu::hip {

struct Node {
  Operation operation;
  std::vector<std::shared_ptr<Node>>
      dependencies;  // earlier nodes of the same graph: no cycles of ownership, hipGraphAddDependencies checks
  std::weak_ptr<Graph> graph;
  const Node* original = nullptr;  // the node that this is a clone of
  bool enabled = true;
  std::vector<void*> pointers;  // what hipGraphKernelNodeGetParams hands out
};

struct Graph : std::enable_shared_from_this<Graph> {
  std::vector<std::shared_ptr<Node>> nodes;  // in the order of their making
  const Graph* original = nullptr;
  bool child = false;  // of a child graph node: not the caller's to destroy
};

struct GraphExec {
  std::shared_ptr<Graph> graph;              // a clone, which the caller cannot reach
  std::vector<std::shared_ptr<Node>> order;  // every node after what it depends on
  unsigned long long flags = 0;
  int device = 0;
  // The copy of a node of the graph that was instantiated; null when it is not one.
  std::shared_ptr<Node> copy_of(const Node* node) const;
};

std::shared_ptr<Node> add_node(const std::shared_ptr<Graph>& graph, Operation operation,
                               std::vector<std::shared_ptr<Node>> dependencies);
std::shared_ptr<Graph> clone(const Graph& graph);
// Every node after its dependencies; false when they go round in a circle.
bool sorted(const Graph& graph, std::vector<std::shared_ptr<Node>>& out);
hipError_t run_nodes(const std::vector<std::shared_ptr<Node>>& order, Stream& stream, Left* left);
void forget_nodes(const Graph& graph);  // takes their handles out of the table
hipGraphNodeType type_of(const Node& node);

std::shared_ptr<Graph> find_graph(hipGraph_t handle, hipError_t& error);
std::shared_ptr<Node> find_node(hipGraphNode_t handle, hipError_t& error);
std::shared_ptr<GraphExec> find_exec(hipGraphExec_t handle, hipError_t& error);
// The nodes behind handles, all of `graph`; false with `error`.
bool find_nodes(const std::shared_ptr<Graph>& graph, const hipGraphNode_t* handles, std::size_t count,
                std::vector<std::shared_ptr<Node>>& out, hipError_t& error);
hipGraphNode_t handle_of(const std::shared_ptr<Node>& node);

}  // namespace apb::emu::hip
