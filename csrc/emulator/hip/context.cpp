// Contexts. A context is a name for a device: memory, modules and streams belong to the device, as in HIP on AMD.
#include "capture.h"
#include "machine/memory/allocations.h"
#include "task.h"

namespace apb::emu::hip {
namespace {

std::shared_ptr<Context> find_context(hipCtx_t handle, hipError_t& error) {
  std::shared_ptr<Context> context = table<Context>().find(handle);
  if (!context) error = fail(hipErrorInvalidContext, "%p is no context", static_cast<void*>(handle));
  return context;
}

std::shared_ptr<Context> current_context() {
  const Thread& state = thread();
  if (!state.contexts.empty() && state.contexts.back()->device == state.device) return state.contexts.back();
  return current_device().primary;
}

void push(std::shared_ptr<Context> context) {
  thread().device = context->device;
  thread().contexts.push_back(std::move(context));
}

hipCtx_t handle_of(const std::shared_ptr<Context>& context) { return reinterpret_cast<hipCtx_t>(context.get()); }

hipError_t set_peer(int peer, bool enabled) {
  Device& device = current_device();
  if (!find_device(peer)) return no_such_device(peer);
  if (peer == device.ordinal) return fail(hipErrorInvalidDevice, "a device is not its own peer");
  if (!Allocations::instance().set_peer(device.ordinal, peer, enabled))
    return enabled ? hipErrorPeerAccessAlreadyEnabled : hipErrorPeerAccessNotEnabled;
  const std::lock_guard guard(device.mutex);
  enabled ? (void)device.peers.insert(peer) : (void)device.peers.erase(peer);
  return hipSuccess;
}

}  // namespace
}  // namespace apb::emu::hip

using namespace apb::emu::hip;

APB_HIP hipError_t hipCtxCreate(hipCtx_t* out, unsigned flags, hipDevice_t ordinal) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    if (!find_device(ordinal)) return no_such_device(ordinal);
    auto context = std::make_shared<Context>(Context{ordinal, flags});
    *out = static_cast<hipCtx_t>(table<Context>().add(context));
    push(std::move(context));
    return hipSuccess;
  });
}

APB_HIP hipError_t hipCtxDestroy(hipCtx_t handle) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    const auto context = find_context(handle, error);
    if (!context) return error;
    if (context == find_device(context->device)->primary)
      return fail(hipErrorInvalidValue, "the primary context is released, not destroyed");
    table<Context>().take(handle);
    std::erase(thread().contexts, context);
    return hipSuccess;
  });
}

APB_HIP hipError_t hipCtxPushCurrent(hipCtx_t handle) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    auto context = find_context(handle, error);
    if (context) push(std::move(context));
    return error;
  });
}

APB_HIP hipError_t hipCtxPopCurrent(hipCtx_t* out) {
  return entry(__func__, [&] {
    Thread& state = thread();
    if (state.contexts.empty()) return fail(hipErrorInvalidContext, "no context was pushed");
    if (out) *out = handle_of(state.contexts.back());
    state.contexts.pop_back();
    if (!state.contexts.empty()) state.device = state.contexts.back()->device;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipCtxSetCurrent(hipCtx_t handle) {
  return entry(__func__, [&] {
    Thread& state = thread();
    if (!handle) {
      if (!state.contexts.empty()) state.contexts.pop_back();
      return hipSuccess;
    }
    hipError_t error = hipSuccess;
    auto context = find_context(handle, error);
    if (!context) return error;
    if (!state.contexts.empty()) state.contexts.pop_back();
    push(std::move(context));
    return hipSuccess;
  });
}

APB_HIP hipError_t hipCtxGetCurrent(hipCtx_t* out) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    *out = handle_of(current_context());
    return hipSuccess;
  });
}

APB_HIP hipError_t hipCtxGetDevice(hipDevice_t* out) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    *out = thread().device;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipCtxGetApiVersion(hipCtx_t, unsigned* out) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    *out = kVersion / 10000000;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipCtxGetFlags(unsigned* out) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    *out = current_context()->flags;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipCtxSynchronize(void) {
  return entry(__func__, [&] {
    if (const hipError_t error = refuse_in_any_capture(hipErrorStreamCaptureUnsupported); error != hipSuccess)
      return error;
    Device& device = current_device();
    return synchronize(device, tasks_of_device(device.ordinal));
  });
}

APB_HIP hipError_t hipDevicePrimaryCtxRetain(hipCtx_t* out, hipDevice_t ordinal) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    Device* device = find_device(ordinal);
    if (!device) return no_such_device(ordinal);
    const std::lock_guard guard(device->mutex);
    ++device->primary_users;
    *out = handle_of(device->primary);
    return hipSuccess;
  });
}

APB_HIP hipError_t hipDevicePrimaryCtxRelease(hipDevice_t ordinal) {
  return entry(__func__, [&] {
    Device* device = find_device(ordinal);
    if (!device) return no_such_device(ordinal);
    const std::lock_guard guard(device->mutex);
    if (device->primary_users == 0) return fail(hipErrorInvalidContext, "the primary context was not retained");
    --device->primary_users;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipDevicePrimaryCtxGetState(hipDevice_t ordinal, unsigned* flags, int* active) {
  return entry(__func__, [&] {
    Device* device = find_device(ordinal);
    if (!device) return no_such_device(ordinal);
    const std::lock_guard guard(device->mutex);
    if (flags) *flags = device->flags;
    if (active) *active = device->active || device->primary_users > 0;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t ordinal, unsigned flags) {
  return entry(__func__, [&] {
    Device* device = find_device(ordinal);
    if (!device) return no_such_device(ordinal);
    const std::lock_guard guard(device->mutex);
    if (device->active || device->primary_users > 0) return hipErrorContextAlreadyInUse;
    device->flags = flags;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipDeviceCanAccessPeer(int* out, int device, int peer) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    if (!find_device(device)) return no_such_device(device);
    if (!find_device(peer)) return no_such_device(peer);
    *out = device != peer;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  return entry(__func__, [&] {
    return flags == 0 ? set_peer(peer, true) : fail(hipErrorInvalidValue, "flags 0x%x, must be 0", flags);
  });
}
APB_HIP hipError_t hipDeviceDisablePeerAccess(int peer) {
  return entry(__func__, [&] { return set_peer(peer, false); });
}

APB_HIP hipError_t hipCtxEnablePeerAccess(hipCtx_t peer, unsigned flags) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    const auto context = find_context(peer, error);
    if (!context) return error;
    return flags == 0 ? set_peer(context->device, true) : fail(hipErrorInvalidValue, "flags 0x%x, must be 0", flags);
  });
}
APB_HIP hipError_t hipCtxDisablePeerAccess(hipCtx_t peer) {
  return entry(__func__, [&] {
    hipError_t error = hipSuccess;
    const auto context = find_context(peer, error);
    return context ? set_peer(context->device, false) : error;
  });
}

APB_HIP hipError_t hipDeviceGetP2PAttribute(int* out, hipDeviceP2PAttr attribute, int from, int to) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    if (!find_device(from)) return no_such_device(from);
    if (!find_device(to) || from == to) return no_such_device(to);
    switch (attribute) {
      case hipDevP2PAttrPerformanceRank: *out = 0; return hipSuccess;
      case hipDevP2PAttrAccessSupported:
      case hipDevP2PAttrNativeAtomicSupported: *out = 1; return hipSuccess;
      case hipDevP2PAttrHipArrayAccessSupported: *out = 0; return hipSuccess;
    }
    return fail(hipErrorInvalidValue, "there is no attribute %d", static_cast<int>(attribute));
  });
}
