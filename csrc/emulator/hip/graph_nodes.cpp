// Adding nodes of each kind to a graph, reading and changing what they do.
#include <cstring>

#include "copy.h"
#include "graph.h"
#include "launch_api.h"
#include "memory.h"
#include "module.h"
#include "node_params.h"
#include "pool.h"

namespace apb::emu::hip {

hipError_t operation_of(const hipKernelNodeParams* p, Operation& out) {
  if (!p) return null_argument("the parameters");
  LaunchShape shape;
  shape.grid = {p->gridDim.x, p->gridDim.y, p->gridDim.z};
  shape.block = {p->blockDim.x, p->blockDim.y, p->blockDim.z};
  shape.lds = p->sharedMemBytes;
  KernelOperation kernel;
  const hipError_t error = make_launch(p->func, shape, p->kernelParams, p->extra, kernel);
  if (error == hipSuccess) out = std::move(kernel);
  return error;
}

hipError_t operation_of(const CopyOperation& copy, Operation& out) {
  const hipError_t error = check_copy(copy);
  if (error == hipSuccess) out = copy;
  return error;
}
hipError_t operation_of(const hipMemcpy3DParms* p, Operation& out) {
  if (!p) return null_argument("the parameters");
  CopyOperation copy;
  const hipError_t error = copy_of(*p, copy);
  return error == hipSuccess ? operation_of(copy, out) : error;
}
hipError_t operation_of(const HIP_MEMCPY3D* p, Operation& out) {
  if (!p) return null_argument("the parameters");
  CopyOperation copy;
  const hipError_t error = copy_of(*p, copy);
  return error == hipSuccess ? operation_of(copy, out) : error;
}

hipError_t operation_of(const hipMemsetParams* p, Operation& out) {
  if (!p) return null_argument("the parameters");
  SetOperation set;
  set.params = *p;
  const hipError_t error = check_set(set);
  if (error == hipSuccess) out = set;
  return error;
}

hipError_t operation_of(const hipHostNodeParams* p, Operation& out) {
  if (!p || !p->fn) return null_argument(p ? "the function" : "the parameters");
  HostOperation host;
  host.function = p->fn;
  host.data = p->userData;
  out = host;
  return hipSuccess;
}

hipError_t record_of(hipEvent_t event, Operation& out) {
  hipError_t error = hipSuccess;
  if (auto found = find_event(event, error)) out = RecordOperation{std::move(found)};
  return error;
}
hipError_t wait_of(hipEvent_t event, Operation& out) {
  hipError_t error = hipSuccess;
  if (auto found = find_event(event, error)) out = WaitOperation{std::move(found)};
  return error;
}

hipError_t child_of(hipGraph_t handle, Operation& out) {
  hipError_t error = hipSuccess;
  const auto graph = find_graph(handle, error);
  if (!graph) return error;
  auto copy = clone(*graph);
  copy->child = true;
  table<Graph>().add(copy);
  out = GraphOperation{std::move(copy)};
  return hipSuccess;
}

hipError_t allocation_of(hipMemAllocNodeParams* p, Operation& out) {
  if (!p) return null_argument("the parameters");
  const Device* device = find_device(p->poolProps.location.id);
  if (p->poolProps.allocType != hipMemAllocationTypePinned || p->poolProps.location.type != hipMemLocationTypeDevice ||
      !device || p->bytesize == 0)
    return fail(hipErrorInvalidValue, "%zu bytes on device %d", p->bytesize, p->poolProps.location.id);
  AllocateOperation allocation;
  allocation.memory = std::make_shared<GraphMemory>();
  if (const hipError_t error = pool_allocate(device->default_pool, p->bytesize, &p->dptr); error != hipSuccess)
    return error;
  Allocation found;
  live(p->dptr, found);
  allocation.memory->address = p->dptr;
  allocation.memory->number = found.number;
  allocation.params = *p;
  allocation.params.accessDescs = nullptr;  // the caller's list
  allocation.params.accessDescCount = 0;
  out = std::move(allocation);
  return hipSuccess;
}

hipError_t operation_of(hipGraphNodeParams* p, Operation& out) {
  if (!p) return null_argument("the parameters");
  switch (p->type) {
    case hipGraphNodeTypeKernel: return operation_of(&p->kernel, out);
    case hipGraphNodeTypeMemcpy: return operation_of(&p->memcpy.copyParams, out);
    case hipGraphNodeTypeMemset: return operation_of(&p->memset, out);
    case hipGraphNodeTypeHost: return operation_of(&p->host, out);
    case hipGraphNodeTypeGraph: return child_of(p->graph, out);
    case hipGraphNodeTypeEmpty: out = EmptyOperation{}; return hipSuccess;
    case hipGraphNodeTypeWaitEvent: return wait_of(p->event, out);
    case hipGraphNodeTypeEventRecord: return record_of(p->event, out);
    case hipGraphNodeTypeMemAlloc: return allocation_of(&p->alloc, out);
    case hipGraphNodeTypeMemFree:
      out = FreeOperation{p->free};
      return p->free ? hipSuccess : null_argument("the address");
    default: return fail(hipErrorNotSupported, "nodes of type %d", static_cast<int>(p->type));
  }
}

hipError_t replace(Node& node, hipError_t made, Operation&& operation) {
  if (made != hipSuccess) return made;
  if (operation.index() != node.operation.index()) return fail(hipErrorInvalidValue, "the node is of another type");
  const std::lock_guard guard(capture_mutex());
  node.operation = std::move(operation);
  return hipSuccess;
}

namespace {

struct Place {
  hipGraphNode_t* out;
  hipGraph_t graph;
  const hipGraphNode_t* dependencies;
  std::size_t count;
};

hipError_t add(const Place& place, hipError_t made, Operation&& operation) {
  if (made != hipSuccess) return made;
  if (!place.out) return null_argument("the result");
  hipError_t error = hipSuccess;
  const auto graph = find_graph(place.graph, error);
  std::vector<std::shared_ptr<Node>> dependencies;
  if (!graph || !find_nodes(graph, place.dependencies, place.count, dependencies, error)) return error;
  *place.out = handle_of(add_node(graph, std::move(operation), std::move(dependencies)));
  return hipSuccess;
}

template <class Wanted, class Read>
hipError_t get(hipGraphNode_t handle, const void* out, Read&& read) {
  if (!out) return null_argument("the result");
  hipError_t error = hipSuccess;
  const auto node = find_node(handle, error);
  if (!node) return error;
  const std::lock_guard guard(capture_mutex());
  auto* operation = std::get_if<Wanted>(&node->operation);
  if (!operation) return fail(hipErrorInvalidValue, "the node is of another type");
  read(*operation, *node);
  return hipSuccess;
}

template <class Make>
hipError_t set(hipGraphNode_t handle, Make&& make) {
  hipError_t error = hipSuccess;
  const auto node = find_node(handle, error);
  if (!node) return error;
  Operation operation;
  const hipError_t made = make(operation);
  return replace(*node, made, std::move(operation));
}

// The pointers lead into the node's own copy of the arguments and live as long as it.
void kernel_params(const KernelOperation& kernel, Node& node, hipKernelNodeParams& out) {
  node.pointers.clear();
  for (const KernelArgument& argument : kernel.function->kernel->arguments)
    if (argument.kind != ArgumentKind::Hidden)
      node.pointers.push_back(const_cast<std::uint8_t*>(kernel.arguments.data()) + argument.offset);
  out = {};
  out.blockDim = {kernel.block.x, kernel.block.y, kernel.block.z};
  out.gridDim = {kernel.grid.x, kernel.grid.y, kernel.grid.z};
  out.func = kernel.function.get();
  out.kernelParams = node.pointers.data();
  out.sharedMemBytes = kernel.lds;
}

}  // namespace
}  // namespace apb::emu::hip

using namespace apb::emu::hip;

#define APB_PLACE hipGraphNode_t *out, hipGraph_t graph, const hipGraphNode_t *dependencies, std::size_t count
#define APB_ADD(NAME, ARGUMENTS, MAKE)                                           \
  APB_HIP hipError_t NAME ARGUMENTS {                                            \
    return entry(__func__, [&] {                                                 \
      Operation operation;                                                       \
      const hipError_t made = MAKE;                                              \
      return add({out, graph, dependencies, count}, made, std::move(operation)); \
    });                                                                          \
  }
APB_ADD(hipGraphAddNode, (APB_PLACE, hipGraphNodeParams* params), operation_of(params, operation))
APB_ADD(hipGraphAddKernelNode, (APB_PLACE, const hipKernelNodeParams* params), operation_of(params, operation))
APB_ADD(hipGraphAddMemcpyNode, (APB_PLACE, const hipMemcpy3DParms* params), operation_of(params, operation))
APB_ADD(hipGraphAddMemcpyNode1D, (APB_PLACE, void* to, const void* from, std::size_t bytes, hipMemcpyKind kind),
        operation_of(flat_copy(to, from, bytes, kind), operation))
APB_ADD(hipDrvGraphAddMemcpyNode, (APB_PLACE, const HIP_MEMCPY3D* params, hipCtx_t), operation_of(params, operation))
APB_ADD(hipGraphAddMemsetNode, (APB_PLACE, const hipMemsetParams* params), operation_of(params, operation))
APB_ADD(hipDrvGraphAddMemsetNode, (APB_PLACE, const hipMemsetParams* params, hipCtx_t), operation_of(params, operation))
APB_ADD(hipGraphAddHostNode, (APB_PLACE, const hipHostNodeParams* params), operation_of(params, operation))
APB_ADD(hipGraphAddChildGraphNode, (APB_PLACE, hipGraph_t child), child_of(child, operation))
APB_ADD(hipGraphAddEmptyNode, (APB_PLACE), (operation = EmptyOperation{}, hipSuccess))
APB_ADD(hipGraphAddEventRecordNode, (APB_PLACE, hipEvent_t event), record_of(event, operation))
APB_ADD(hipGraphAddEventWaitNode, (APB_PLACE, hipEvent_t event), wait_of(event, operation))
APB_ADD(hipGraphAddMemAllocNode, (APB_PLACE, hipMemAllocNodeParams* params), allocation_of(params, operation))
APB_ADD(hipGraphAddMemFreeNode, (APB_PLACE, void* address),
        (operation = FreeOperation{address}, address ? hipSuccess : null_argument("the address")))
APB_ADD(hipDrvGraphAddMemFreeNode, (APB_PLACE, hipDeviceptr_t address),
        (operation = FreeOperation{address}, address ? hipSuccess : null_argument("the address")))

#define APB_GET(NAME, TYPE, OPERATION, ...)                                                                            \
  APB_HIP hipError_t NAME(hipGraphNode_t node, TYPE* out) {                                                            \
    return entry(__func__, [&] {                                                                                       \
      return get<OPERATION>(node, out, [&]([[maybe_unused]] OPERATION& o, [[maybe_unused]] Node& n) { __VA_ARGS__; }); \
    });                                                                                                                \
  }
APB_GET(hipGraphKernelNodeGetParams, hipKernelNodeParams, KernelOperation, kernel_params(o, n, *out))
APB_GET(hipGraphMemcpyNodeGetParams, hipMemcpy3DParms, CopyOperation, *out = params_of(o))
APB_GET(hipGraphMemsetNodeGetParams, hipMemsetParams, SetOperation, *out = o.params)
APB_GET(hipGraphHostNodeGetParams, hipHostNodeParams, HostOperation, *out = {o.function, o.data})
APB_GET(hipGraphChildGraphNodeGetGraph, hipGraph_t, GraphOperation, *out = reinterpret_cast<hipGraph_t>(o.graph.get()))
APB_GET(hipGraphEventRecordNodeGetEvent, hipEvent_t, RecordOperation,
        *out = reinterpret_cast<hipEvent_t>(o.event.get()))
APB_GET(hipGraphEventWaitNodeGetEvent, hipEvent_t, WaitOperation, *out = reinterpret_cast<hipEvent_t>(o.event.get()))
APB_GET(hipGraphMemAllocNodeGetParams, hipMemAllocNodeParams, AllocateOperation, *out = o.params)
APB_GET(hipGraphMemFreeNodeGetParams, void, FreeOperation, std::memcpy(out, &o.address, sizeof o.address))

#define APB_SET(NAME, ARGUMENTS, MAKE)                                                             \
  APB_HIP hipError_t NAME ARGUMENTS {                                                              \
    return entry(__func__, [&] { return set(node, [&](Operation& operation) { return MAKE; }); }); \
  }
APB_SET(hipGraphNodeSetParams, (hipGraphNode_t node, hipGraphNodeParams* params), operation_of(params, operation))
APB_SET(hipGraphKernelNodeSetParams, (hipGraphNode_t node, const hipKernelNodeParams* params),
        operation_of(params, operation))
APB_SET(hipGraphMemcpyNodeSetParams, (hipGraphNode_t node, const hipMemcpy3DParms* params),
        operation_of(params, operation))
APB_SET(hipDrvGraphMemcpyNodeSetParams, (hipGraphNode_t node, const HIP_MEMCPY3D* params),
        operation_of(params, operation))
APB_SET(hipGraphMemcpyNodeSetParams1D,
        (hipGraphNode_t node, void* to, const void* from, std::size_t bytes, hipMemcpyKind kind),
        operation_of(flat_copy(to, from, bytes, kind), operation))
APB_SET(hipGraphMemsetNodeSetParams, (hipGraphNode_t node, const hipMemsetParams* params),
        operation_of(params, operation))
APB_SET(hipGraphHostNodeSetParams, (hipGraphNode_t node, const hipHostNodeParams* params),
        operation_of(params, operation))
APB_SET(hipGraphEventRecordNodeSetEvent, (hipGraphNode_t node, hipEvent_t event), record_of(event, operation))
APB_SET(hipGraphEventWaitNodeSetEvent, (hipGraphNode_t node, hipEvent_t event), wait_of(event, operation))
