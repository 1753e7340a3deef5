// The copy entry points.
#include "capture.h"
#include "copy.h"
#include "stream.h"

namespace apb::emu::hip {
namespace {

// On the legacy stream.
hipError_t copy_now(const CopyOperation& operation) {
  return submit(current_device().null_stream, operation, Until::Done);
}

hipError_t copy_on(hipStream_t handle, const CopyOperation& operation, Until until = Until::Enqueued) {
  hipError_t error = hipSuccess;
  const auto stream = find_stream(handle, error);
  if (!stream) return error;
  if (const hipError_t wrong = check_copy(operation); wrong != hipSuccess) return wrong;
  return submit(stream, operation, is_pageable(operation) ? Until::Done : until);
}

CopyOperation rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                   std::size_t height, hipMemcpyKind kind) {
  CopyOperation out = flat_copy(to, from, width, kind);
  out.to_pitch = to_pitch;
  out.from_pitch = from_pitch;
  out.height = height;
  return out;
}

hipMemcpyKind kind_of(hipMemoryType from, hipMemoryType to) {
  const bool host_from = from == hipMemoryTypeHost, host_to = to == hipMemoryTypeHost;
  if (from == hipMemoryTypeUnified || to == hipMemoryTypeUnified) return hipMemcpyDefault;
  if (host_from) return host_to ? hipMemcpyHostToHost : hipMemcpyHostToDevice;
  return host_to ? hipMemcpyDeviceToHost : hipMemcpyDeviceToDevice;
}

hipError_t copy_of(const hip_Memcpy2D& p, CopyOperation& out) {
  HIP_MEMCPY3D wide{};
  wide.srcXInBytes = p.srcXInBytes, wide.srcY = p.srcY, wide.srcMemoryType = p.srcMemoryType, wide.srcHost = p.srcHost;
  wide.srcDevice = p.srcDevice, wide.srcArray = p.srcArray, wide.srcPitch = p.srcPitch;
  wide.dstXInBytes = p.dstXInBytes, wide.dstY = p.dstY, wide.dstMemoryType = p.dstMemoryType, wide.dstHost = p.dstHost;
  wide.dstDevice = p.dstDevice, wide.dstArray = p.dstArray, wide.dstPitch = p.dstPitch;
  wide.WidthInBytes = p.WidthInBytes, wide.Height = p.Height, wide.Depth = 1;
  return copy_of(wide, out);
}

template <class Params>
hipError_t copy_params(const Params* params, bool asynchronous, hipStream_t stream) {
  if (!params) return null_argument("the parameters");
  CopyOperation operation;
  if (const hipError_t error = copy_of(*params, operation); error != hipSuccess) return error;
  return asynchronous ? copy_on(stream, operation) : copy_now(operation);
}

}  // namespace

hipError_t copy_of(const HIP_MEMCPY3D& p, CopyOperation& out) {
  if (p.srcMemoryType == hipMemoryTypeArray || p.dstMemoryType == hipMemoryTypeArray)
    return fail(hipErrorNotSupported, "arrays");
  const void* from = p.srcMemoryType == hipMemoryTypeHost ? p.srcHost : p.srcDevice;
  const void* to = p.dstMemoryType == hipMemoryTypeHost ? p.dstHost : p.dstDevice;
  if (!from || !to) return null_argument(to ? "the source" : "the destination");
  out.from_pitch = p.srcPitch ? p.srcPitch : p.WidthInBytes;
  out.to_pitch = p.dstPitch ? p.dstPitch : p.WidthInBytes;
  out.from_slice = slice_bytes(out.from_pitch, p.srcHeight ? p.srcHeight : p.Height);
  out.to_slice = slice_bytes(out.to_pitch, p.dstHeight ? p.dstHeight : p.Height);
  void* source = nullptr;
  hipError_t error = place_in_box(from, out.from_pitch, out.from_slice, {p.srcXInBytes, p.srcY, p.srcZ}, source);
  if (error == hipSuccess)
    error = place_in_box(to, out.to_pitch, out.to_slice, {p.dstXInBytes, p.dstY, p.dstZ}, out.to);
  if (error != hipSuccess) return error;
  out.from = source;
  out.width = p.WidthInBytes;
  out.height = p.Height;
  out.depth = p.Depth;
  out.kind = kind_of(p.srcMemoryType, p.dstMemoryType);
  return hipSuccess;
}

}  // namespace apb::emu::hip

using namespace apb::emu::hip;

APB_HIP hipError_t hipMemcpy(void* to, const void* from, std::size_t bytes, hipMemcpyKind kind) {
  return entry(__func__, [&] { return copy_now(flat_copy(to, from, bytes, kind)); });
}
APB_HIP hipError_t hipMemcpyAsync(void* to, const void* from, std::size_t bytes, hipMemcpyKind kind,
                                  hipStream_t stream) {
  return entry(__func__, [&] { return copy_on(stream, flat_copy(to, from, bytes, kind)); });
}
APB_HIP hipError_t hipMemcpyWithStream(void* to, const void* from, std::size_t bytes, hipMemcpyKind kind,
                                       hipStream_t stream) {
  return entry(__func__, [&] { return copy_on(stream, flat_copy(to, from, bytes, kind), Until::Done); });
}
APB_HIP hipError_t hipMemcpyHtoD(hipDeviceptr_t to, const void* from, std::size_t bytes) {
  return entry(__func__, [&] { return copy_now(flat_copy(to, from, bytes, hipMemcpyHostToDevice)); });
}
APB_HIP hipError_t hipMemcpyDtoH(void* to, hipDeviceptr_t from, std::size_t bytes) {
  return entry(__func__, [&] { return copy_now(flat_copy(to, from, bytes, hipMemcpyDeviceToHost)); });
}
APB_HIP hipError_t hipMemcpyDtoD(hipDeviceptr_t to, hipDeviceptr_t from, std::size_t bytes) {
  return entry(__func__, [&] { return copy_now(flat_copy(to, from, bytes, hipMemcpyDeviceToDevice)); });
}
APB_HIP hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t to, const void* from, std::size_t bytes, hipStream_t stream) {
  return entry(__func__, [&] { return copy_on(stream, flat_copy(to, from, bytes, hipMemcpyHostToDevice)); });
}
APB_HIP hipError_t hipMemcpyDtoHAsync(void* to, hipDeviceptr_t from, std::size_t bytes, hipStream_t stream) {
  return entry(__func__, [&] { return copy_on(stream, flat_copy(to, from, bytes, hipMemcpyDeviceToHost)); });
}
APB_HIP hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t to, hipDeviceptr_t from, std::size_t bytes, hipStream_t stream) {
  return entry(__func__, [&] { return copy_on(stream, flat_copy(to, from, bytes, hipMemcpyDeviceToDevice)); });
}

APB_HIP hipError_t hipMemcpyPeer(void* to, int to_device, const void* from, int from_device, std::size_t bytes) {
  return entry(__func__, [&] {
    if (!find_device(to_device)) return no_such_device(to_device);
    if (!find_device(from_device)) return no_such_device(from_device);
    return copy_now(flat_copy(to, from, bytes, hipMemcpyDeviceToDevice));
  });
}
APB_HIP hipError_t hipMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                      hipStream_t stream) {
  return entry(__func__, [&] {
    if (!find_device(to_device)) return no_such_device(to_device);
    if (!find_device(from_device)) return no_such_device(from_device);
    return copy_on(stream, flat_copy(to, from, bytes, hipMemcpyDeviceToDevice));
  });
}

APB_HIP hipError_t hipMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                               std::size_t width, std::size_t height, hipMemcpyKind kind) {
  return entry(__func__, [&] { return copy_now(rows(to, to_pitch, from, from_pitch, width, height, kind)); });
}
APB_HIP hipError_t hipMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                    std::size_t width, std::size_t height, hipMemcpyKind kind, hipStream_t stream) {
  return entry(__func__, [&] { return copy_on(stream, rows(to, to_pitch, from, from_pitch, width, height, kind)); });
}
APB_HIP hipError_t hipMemcpyParam2D(const hip_Memcpy2D* params) {
  return entry(__func__, [&] { return copy_params(params, false, nullptr); });
}
APB_HIP hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D* params) {
  return entry(__func__, [&] { return copy_params(params, false, nullptr); });
}
APB_HIP hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D* params, hipStream_t stream) {
  return entry(__func__, [&] { return copy_params(params, true, stream); });
}
APB_HIP hipError_t hipMemcpy3D(const hipMemcpy3DParms* params) {
  return entry(__func__, [&] { return copy_params(params, false, nullptr); });
}
APB_HIP hipError_t hipMemcpy3DAsync(const hipMemcpy3DParms* params, hipStream_t stream) {
  return entry(__func__, [&] { return copy_params(params, true, stream); });
}
APB_HIP hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D* params) {
  return entry(__func__, [&] { return copy_params(params, false, nullptr); });
}
APB_HIP hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D* params, hipStream_t stream) {
  return entry(__func__, [&] { return copy_params(params, true, stream); });
}

namespace {

hipError_t peer_params(const hipMemcpy3DPeerParms* p, hipMemcpy3DParms& out) {
  if (!p) return null_argument("the parameters");
  if (!find_device(p->srcDevice)) return no_such_device(p->srcDevice);
  if (!find_device(p->dstDevice)) return no_such_device(p->dstDevice);
  out = {p->srcArray, p->srcPos, p->srcPtr, p->dstArray, p->dstPos, p->dstPtr, p->extent, hipMemcpyDeviceToDevice};
  return hipSuccess;
}

}  // namespace

APB_HIP hipError_t hipMemcpy3DPeer(const hipMemcpy3DPeerParms* params) {
  return entry(__func__, [&] {
    hipMemcpy3DParms one{};
    const hipError_t error = peer_params(params, one);
    return error == hipSuccess ? copy_params(&one, false, nullptr) : error;
  });
}
APB_HIP hipError_t hipMemcpy3DPeerAsync(const hipMemcpy3DPeerParms* params, hipStream_t stream) {
  return entry(__func__, [&] {
    hipMemcpy3DParms one{};
    const hipError_t error = peer_params(params, one);
    return error == hipSuccess ? copy_params(&one, true, stream) : error;
  });
}
