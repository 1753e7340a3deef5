// Copies in the interface's several shapes, as one.
#pragma once

#include "operation.h"

namespace apb::emu::hip {

CopyOperation flat_copy(void* to, const void* from, std::size_t bytes, hipMemcpyKind kind);
hipError_t copy_of(const hipMemcpy3DParms& params, CopyOperation& out);
hipError_t copy_of(const HIP_MEMCPY3D& params, CopyOperation& out);
hipMemcpy3DParms params_of(const CopyOperation& c);

}  // namespace apb::emu::hip
