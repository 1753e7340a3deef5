// Copies in the interface's several shapes, as one.
#pragma once

#include "operation.h"

namespace apb::emu::hip {

CopyOperation flat_copy(void* to, const void* from, std::size_t bytes, hipMemcpyKind kind);
// Bytes from one slice of a box to the next, the largest number where that overflows: only a box of one slice takes it.
std::size_t slice_bytes(std::size_t pitch, std::size_t rows);
// `base` moved to a position of a box. Fails on overflow.
hipError_t place_in_box(const void* base, std::size_t pitch, std::size_t slice, const hipPos& at, void*& out);
hipError_t copy_of(const hipMemcpy3DParms& params, CopyOperation& out);
hipError_t copy_of(const HIP_MEMCPY3D& params, CopyOperation& out);
hipMemcpy3DParms params_of(const CopyOperation& c);

}  // namespace apb::emu::hip
