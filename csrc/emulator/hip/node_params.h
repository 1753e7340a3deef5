// The interface's parameter structs as operations, checked.
#pragma once

#include "graph.h"

namespace apb::emu::hip {

hipError_t operation_of(const hipKernelNodeParams* params, Operation& out);
hipError_t operation_of(const CopyOperation& copy, Operation& out);
hipError_t operation_of(const hipMemcpy3DParms* params, Operation& out);
hipError_t operation_of(const HIP_MEMCPY3D* params, Operation& out);
hipError_t operation_of(const hipMemsetParams* params, Operation& out);
hipError_t operation_of(const hipHostNodeParams* params, Operation& out);
hipError_t operation_of(hipGraphNodeParams* params, Operation& out);
hipError_t record_of(hipEvent_t event, Operation& out);
hipError_t wait_of(hipEvent_t event, Operation& out);
hipError_t child_of(hipGraph_t handle, Operation& out);
// Gives the node what was made, when it was made and is of the node's type.
hipError_t replace(Node& node, hipError_t made, Operation&& operation);

}  // namespace apb::emu::hip
