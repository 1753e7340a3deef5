// The _spt forms: programs compiled with -fgpu-default-stream=per-thread call them; a null stream is the thread's own.
#include "runtime.h"

namespace {
ihipStream_t* const kPerThreadHandle = reinterpret_cast<hipStream_t>(hipStreamPerThreadNumber);
hipStream_t own(hipStream_t stream) { return stream ? stream : kPerThreadHandle; }
}  // namespace

#define APB_DECLARE(NAME, ARGUMENTS) APB_HIP hipError_t NAME ARGUMENTS
APB_DECLARE(hipStreamSynchronize, (hipStream_t));
#define APB_SPT(NAME, ARGUMENTS, CALL) \
  APB_DECLARE(NAME, ARGUMENTS);        \
  APB_HIP hipError_t NAME##_spt ARGUMENTS { return CALL; }
// Forms without a stream are their own stream's asynchronous form, and finished when that returns.
#define APB_SPT_SYNC(NAME, ARGUMENTS, ASYNC_ARGUMENTS, CALL)                           \
  APB_DECLARE(NAME##Async, ASYNC_ARGUMENTS);                                           \
  APB_HIP hipError_t NAME##_spt ARGUMENTS {                                            \
    const hipError_t enqueued = CALL;                                                  \
    return enqueued == hipSuccess ? hipStreamSynchronize(kPerThreadHandle) : enqueued; \
  }

APB_SPT(hipMemcpyAsync, (void* to, const void* from, std::size_t bytes, hipMemcpyKind kind, hipStream_t s),
        hipMemcpyAsync(to, from, bytes, kind, own(s)))
APB_SPT(hipMemcpy2DAsync,
        (void* to, std::size_t tp, const void* from, std::size_t fp, std::size_t w, std::size_t h, hipMemcpyKind kind,
         hipStream_t s),
        hipMemcpy2DAsync(to, tp, from, fp, w, h, kind, own(s)))
APB_SPT(hipMemcpy3DAsync, (const hipMemcpy3DParms* p, hipStream_t s), hipMemcpy3DAsync(p, own(s)))
APB_SPT(hipMemcpyToSymbolAsync,
        (const void* symbol, const void* from, std::size_t bytes, std::size_t offset, hipMemcpyKind kind,
         hipStream_t s),
        hipMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, own(s)))
APB_SPT(hipMemcpyFromSymbolAsync,
        (void* to, const void* symbol, std::size_t bytes, std::size_t offset, hipMemcpyKind kind, hipStream_t s),
        hipMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, own(s)))
APB_SPT(hipMemsetAsync, (void* to, int value, std::size_t bytes, hipStream_t s),
        hipMemsetAsync(to, value, bytes, own(s)))
APB_SPT(hipMemset2DAsync, (void* to, std::size_t pitch, int value, std::size_t w, std::size_t h, hipStream_t s),
        hipMemset2DAsync(to, pitch, value, w, h, own(s)))
APB_SPT(hipMemset3DAsync, (hipPitchedPtr to, int value, hipExtent extent, hipStream_t s),
        hipMemset3DAsync(to, value, extent, own(s)))

APB_SPT_SYNC(hipMemcpy, (void* to, const void* from, std::size_t bytes, hipMemcpyKind kind),
             (void* to, const void* from, std::size_t bytes, hipMemcpyKind kind, hipStream_t s),
             hipMemcpyAsync(to, from, bytes, kind, kPerThreadHandle))
APB_SPT_SYNC(hipMemcpy2D,
             (void* to, std::size_t tp, const void* from, std::size_t fp, std::size_t w, std::size_t h,
              hipMemcpyKind kind),
             (void* to, std::size_t tp, const void* from, std::size_t fp, std::size_t w, std::size_t h,
              hipMemcpyKind kind, hipStream_t s),
             hipMemcpy2DAsync(to, tp, from, fp, w, h, kind, kPerThreadHandle))
APB_SPT_SYNC(hipMemcpy3D, (const hipMemcpy3DParms* p), (const hipMemcpy3DParms* p, hipStream_t s),
             hipMemcpy3DAsync(p, kPerThreadHandle))
APB_SPT_SYNC(hipMemcpyToSymbol,
             (const void* symbol, const void* from, std::size_t bytes, std::size_t offset, hipMemcpyKind kind),
             (const void* symbol, const void* from, std::size_t bytes, std::size_t offset, hipMemcpyKind kind,
              hipStream_t s),
             hipMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, kPerThreadHandle))
APB_SPT_SYNC(hipMemcpyFromSymbol,
             (void* to, const void* symbol, std::size_t bytes, std::size_t offset, hipMemcpyKind kind),
             (void* to, const void* symbol, std::size_t bytes, std::size_t offset, hipMemcpyKind kind, hipStream_t s),
             hipMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, kPerThreadHandle))
APB_SPT_SYNC(hipMemset, (void* to, int value, std::size_t bytes),
             (void* to, int value, std::size_t bytes, hipStream_t s),
             hipMemsetAsync(to, value, bytes, kPerThreadHandle))
APB_SPT_SYNC(hipMemset2D, (void* to, std::size_t pitch, int value, std::size_t w, std::size_t h),
             (void* to, std::size_t pitch, int value, std::size_t w, std::size_t h, hipStream_t s),
             hipMemset2DAsync(to, pitch, value, w, h, kPerThreadHandle))
APB_SPT_SYNC(hipMemset3D, (hipPitchedPtr to, int value, hipExtent extent),
             (hipPitchedPtr to, int value, hipExtent extent, hipStream_t s),
             hipMemset3DAsync(to, value, extent, kPerThreadHandle))

APB_SPT(hipStreamQuery, (hipStream_t s), hipStreamQuery(own(s)))
APB_SPT(hipStreamSynchronize, (hipStream_t s), hipStreamSynchronize(own(s)))
APB_SPT(hipStreamGetPriority, (hipStream_t s, int* out), hipStreamGetPriority(own(s), out))
APB_SPT(hipStreamGetFlags, (hipStream_t s, unsigned* out), hipStreamGetFlags(own(s), out))
APB_SPT(hipStreamWaitEvent, (hipStream_t s, hipEvent_t event, unsigned flags), hipStreamWaitEvent(own(s), event, flags))
APB_SPT(hipStreamAddCallback, (hipStream_t s, hipStreamCallback_t callback, void* data, unsigned flags),
        hipStreamAddCallback(own(s), callback, data, flags))
APB_SPT(hipEventRecord, (hipEvent_t event, hipStream_t s), hipEventRecord(event, own(s)))
APB_SPT(hipLaunchHostFunc, (hipStream_t s, hipHostFn_t function, void* data), hipLaunchHostFunc(own(s), function, data))
APB_SPT(hipLaunchKernel, (const void* function, dim3 grid, dim3 block, void** params, std::size_t lds, hipStream_t s),
        hipLaunchKernel(function, grid, block, params, lds, own(s)))
APB_SPT(hipLaunchCooperativeKernel,
        (const void* function, dim3 grid, dim3 block, void** params, unsigned lds, hipStream_t s),
        hipLaunchCooperativeKernel(function, grid, block, params, lds, own(s)))
APB_SPT(hipGraphLaunch, (hipGraphExec_t exec, hipStream_t s), hipGraphLaunch(exec, own(s)))
APB_SPT(hipStreamBeginCapture, (hipStream_t s, hipStreamCaptureMode mode), hipStreamBeginCapture(own(s), mode))
APB_SPT(hipStreamEndCapture, (hipStream_t s, hipGraph_t* out), hipStreamEndCapture(own(s), out))
APB_SPT(hipStreamIsCapturing, (hipStream_t s, hipStreamCaptureStatus* status), hipStreamIsCapturing(own(s), status))
APB_SPT(hipStreamGetCaptureInfo, (hipStream_t s, hipStreamCaptureStatus* status, unsigned long long* id),
        hipStreamGetCaptureInfo(own(s), status, id))
APB_SPT(hipStreamGetCaptureInfo_v2,
        (hipStream_t s, hipStreamCaptureStatus* status, unsigned long long* id, hipGraph_t* graph,
         const hipGraphNode_t** dependencies, std::size_t* count),
        hipStreamGetCaptureInfo_v2(own(s), status, id, graph, dependencies, count))
