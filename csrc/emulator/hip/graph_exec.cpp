// Executable graphs: instantiation, launch, changes without a new instantiation.
#include <algorithm>

#include "copy.h"
#include "node_params.h"

namespace apb::emu::hip {

std::shared_ptr<Node> GraphExec::copy_of(const Node* node) const {
  const auto it = std::find_if(order.begin(), order.end(), [&](const auto& mine) { return mine->original == node; });
  return it == order.end() ? nullptr : *it;
}

namespace {

constexpr unsigned long long kInstantiateFlags = 15;  // auto free, upload, device launch, node priorities
constexpr unsigned long long kFlagDeviceLaunch = 4;

hipError_t instantiate(hipGraphExec_t* out, hipGraph_t handle, unsigned long long flags) {
  if (!out) return null_argument("the result");
  *out = nullptr;
  if ((flags & ~kInstantiateFlags) != 0) return fail(hipErrorInvalidValue, "flags 0x%llx", flags);
  if (flags & kFlagDeviceLaunch) return fail(hipErrorNotSupported, "graphs that kernels launch");
  hipError_t error = hipSuccess;
  const auto graph = find_graph(handle, error);
  if (!graph) return error;
  auto exec = std::make_shared<GraphExec>();
  exec->graph = clone(*graph);
  exec->flags = flags;
  exec->device = thread().device;
  if (!sorted(*exec->graph, exec->order))
    return fail(hipErrorInvalidValue, "the graph's dependencies go round in a circle");
  *out = static_cast<hipGraphExec_t>(table<GraphExec>().add(std::move(exec)));
  return hipSuccess;
}

hipError_t launch_graph(hipGraphExec_t handle, hipStream_t stream) {
  hipError_t error = hipSuccess;
  const auto exec = find_exec(handle, error);
  if (!exec) return error;
  // Captured, it becomes a child graph; otherwise it runs at once.
  return submit(stream, GraphOperation{exec->graph});
}

// The executable copy of the caller's node.
std::shared_ptr<Node> find_copy(hipGraphExec_t handle, hipGraphNode_t node_handle, hipError_t& error) {
  const auto exec = find_exec(handle, error);
  const auto node = exec ? find_node(node_handle, error) : nullptr;
  if (!node) return nullptr;
  auto copy = exec->copy_of(node.get());
  if (!copy) error = fail(hipErrorInvalidValue, "the node is not of the graph that was instantiated");
  return copy;
}

template <class Make>
hipError_t set(hipGraphExec_t exec, hipGraphNode_t node, Make&& make) {
  hipError_t error = hipSuccess;
  const auto copy = find_copy(exec, node, error);
  if (!copy) return error;
  Operation operation;
  const hipError_t made = make(operation);
  return replace(*copy, made, std::move(operation));
}

// Same nodes in the same order with the same dependencies?
hipGraphExecUpdateResult compare(const GraphExec& exec, const Graph& graph, hipGraphNode_t& culprit) {
  const auto& old = exec.graph->nodes;
  if (old.size() != graph.nodes.size()) return hipGraphExecUpdateErrorTopologyChanged;
  const auto index = [](const std::vector<std::shared_ptr<Node>>& nodes, const std::shared_ptr<Node>& node) {
    return std::find(nodes.begin(), nodes.end(), node) - nodes.begin();
  };
  for (std::size_t i = 0; i < old.size(); ++i) {
    culprit = handle_of(graph.nodes[i]);
    if (type_of(*old[i]) != type_of(*graph.nodes[i])) return hipGraphExecUpdateErrorNodeTypeChanged;
    const auto &before = old[i]->dependencies, &after = graph.nodes[i]->dependencies;
    if (before.size() != after.size()) return hipGraphExecUpdateErrorTopologyChanged;
    for (std::size_t d = 0; d < before.size(); ++d)
      if (index(old, before[d]) != index(graph.nodes, after[d])) return hipGraphExecUpdateErrorTopologyChanged;
  }
  culprit = nullptr;
  return hipGraphExecUpdateSuccess;
}

}  // namespace
}  // namespace apb::emu::hip

using namespace apb::emu::hip;

APB_HIP hipError_t hipGraphInstantiate(hipGraphExec_t* out, hipGraph_t graph, hipGraphNode_t* error_node, char* text,
                                       std::size_t bytes) {
  return entry(__func__, [&] {
    if (error_node) *error_node = nullptr;
    if (text && bytes != 0) *text = 0;
    return instantiate(out, graph, 0);
  });
}
APB_HIP hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* out, hipGraph_t graph, unsigned long long flags) {
  return entry(__func__, [&] { return instantiate(out, graph, flags); });
}
APB_HIP hipError_t hipGraphInstantiateWithParams(hipGraphExec_t* out, hipGraph_t graph,
                                                 hipGraphInstantiateParams* params) {
  return entry(__func__, [&] {
    if (!params) return null_argument("the parameters");
    params->errNode_out = nullptr;
    const hipError_t error = instantiate(out, graph, params->flags);
    params->result_out = error == hipSuccess ? hipGraphInstantiateSuccess : hipGraphInstantiateError;
    return error;
  });
}

APB_HIP hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) {
  return entry(__func__, [&] { return launch_graph(exec, stream); });
}
APB_HIP hipError_t hipGraphUpload(hipGraphExec_t exec, hipStream_t stream) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    if (find_exec(exec, error)) find_stream(stream, error);
    return error;
  });
}
APB_HIP hipError_t hipGraphExecDestroy(hipGraphExec_t handle) {
  return entry(__func__, [&] {
    const auto exec = table<GraphExec>().take(handle);
    if (!exec) return fail(hipErrorInvalidValue, "%p is no executable graph", static_cast<void*>(handle));
    forget_nodes(*exec->graph);
    return hipSuccess;
  });
}
APB_HIP hipError_t hipGraphExecGetFlags(hipGraphExec_t handle, unsigned long long* out) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    hipError_t error = hipSuccess;
    if (const auto exec = find_exec(handle, error)) *out = exec->flags;
    return error;
  });
}

APB_HIP hipError_t hipGraphExecUpdate(hipGraphExec_t handle, hipGraph_t graph_handle, hipGraphNode_t* culprit,
                                      hipGraphExecUpdateResult* result) {
  return entry(__func__, [&] {
    if (!culprit || !result) return null_argument("a result");
    hipError_t error = hipSuccess;
    const auto exec = find_exec(handle, error);
    const auto graph = exec ? find_graph(graph_handle, error) : nullptr;
    if (!graph) return error;
    const std::lock_guard guard(capture_mutex());
    *result = compare(*exec, *graph, *culprit);
    if (*result != hipGraphExecUpdateSuccess)
      return fail(hipErrorGraphExecUpdateFailure, "nodes or dependencies differ");
    for (std::size_t i = 0; i < graph->nodes.size(); ++i) {
      if (type_of(*graph->nodes[i]) != hipGraphNodeTypeGraph)
        exec->graph->nodes[i]->operation = graph->nodes[i]->operation;
      exec->graph->nodes[i]->original = graph->nodes[i].get();
    }
    return hipSuccess;
  });
}

APB_HIP hipError_t hipGraphNodeSetEnabled(hipGraphExec_t exec, hipGraphNode_t node, unsigned enabled) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    const auto copy = find_copy(exec, node, error);
    if (!copy) return error;
    const hipGraphNodeType type = type_of(*copy);
    if (type != hipGraphNodeTypeKernel && type != hipGraphNodeTypeMemcpy && type != hipGraphNodeTypeMemset)
      return fail(hipErrorInvalidValue, "only kernels, copies and fills can be switched off");
    copy->enabled = enabled != 0;
    return hipSuccess;
  });
}
APB_HIP hipError_t hipGraphNodeGetEnabled(hipGraphExec_t exec, hipGraphNode_t node, unsigned* out) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    hipError_t error = hipSuccess;
    if (const auto copy = find_copy(exec, node, error)) *out = copy->enabled;
    return error;
  });
}

#define APB_EXEC_SET(NAME, ARGUMENTS, MAKE)                                                              \
  APB_HIP hipError_t NAME ARGUMENTS {                                                                    \
    return entry(__func__, [&] { return set(exec, node, [&](Operation& operation) { return MAKE; }); }); \
  }
#define APB_EXEC hipGraphExec_t exec, hipGraphNode_t node
APB_EXEC_SET(hipGraphExecNodeSetParams, (APB_EXEC, hipGraphNodeParams* params), operation_of(params, operation))
APB_EXEC_SET(hipGraphExecKernelNodeSetParams, (APB_EXEC, const hipKernelNodeParams* params),
             operation_of(params, operation))
APB_EXEC_SET(hipGraphExecMemcpyNodeSetParams, (APB_EXEC, const hipMemcpy3DParms* params),
             operation_of(params, operation))
APB_EXEC_SET(hipDrvGraphExecMemcpyNodeSetParams, (APB_EXEC, const HIP_MEMCPY3D* params, hipCtx_t),
             operation_of(params, operation))
APB_EXEC_SET(hipGraphExecMemcpyNodeSetParams1D,
             (APB_EXEC, void* to, const void* from, std::size_t bytes, hipMemcpyKind kind),
             operation_of(flat_copy(to, from, bytes, kind), operation))
APB_EXEC_SET(hipGraphExecMemsetNodeSetParams, (APB_EXEC, const hipMemsetParams* params),
             operation_of(params, operation))
APB_EXEC_SET(hipDrvGraphExecMemsetNodeSetParams, (APB_EXEC, const hipMemsetParams* params, hipCtx_t),
             operation_of(params, operation))
APB_EXEC_SET(hipGraphExecHostNodeSetParams, (APB_EXEC, const hipHostNodeParams* params),
             operation_of(params, operation))
APB_EXEC_SET(hipGraphExecChildGraphNodeSetParams, (APB_EXEC, hipGraph_t child), child_of(child, operation))
APB_EXEC_SET(hipGraphExecEventRecordNodeSetEvent, (APB_EXEC, hipEvent_t event), record_of(event, operation))
APB_EXEC_SET(hipGraphExecEventWaitNodeSetEvent, (APB_EXEC, hipEvent_t event), wait_of(event, operation))
