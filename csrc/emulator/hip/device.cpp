// Initialisation, versions, which devices there are and which one a thread uses.
#include <climits>
#include <cstdio>
#include <cstring>

#include "capture.h"
#include "properties.h"
#include "stream.h"
#include "task.h"

using namespace apb::emu;
using namespace apb::emu::hip;

APB_HIP hipError_t hipInit(unsigned flags) {
  return entry(__func__,
               [&] { return flags == 0 ? hipSuccess : fail(hipErrorInvalidValue, "flags 0x%x, must be 0", flags); });
}

APB_HIP hipError_t hipDriverGetVersion(int* out) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    *out = kVersion;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipRuntimeGetVersion(int* out) { return hipDriverGetVersion(out); }

APB_HIP hipError_t hipGetDeviceCount(int* out) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    *out = static_cast<int>(devices().size());
    return hipSuccess;
  });
}

APB_HIP hipError_t hipDeviceGet(hipDevice_t* out, int ordinal) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    if (!find_device(ordinal)) return no_such_device(ordinal);
    *out = ordinal;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipSetDevice(int ordinal) {
  return entry(__func__, [&] {
    Device* device = find_device(ordinal);
    if (!device) return no_such_device(ordinal);
    thread().device = ordinal;
    const std::lock_guard guard(device->mutex);
    device->active = true;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipGetDevice(int* out) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    *out = thread().device;
    return hipSuccess;
  });
}

// The order of a list of devices to try; devices are not exclusive here, so any valid list is accepted.
APB_HIP hipError_t hipSetValidDevices(int* list, int count) {
  return entry(__func__, [&] {
    if (!list || count < 0) return fail(hipErrorInvalidValue, "%d devices at %p", count, static_cast<void*>(list));
    for (int i = 0; i < count; ++i)
      if (!find_device(list[i])) return no_such_device(list[i]);
    return hipSuccess;
  });
}

APB_HIP hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* out, int ordinal) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the properties");
    const Device* device = find_device(ordinal);
    if (!device) return no_such_device(ordinal);
    *out = properties(*device);
    return hipSuccess;
  });
}

// The symbol without a version has the layout of HIP 5.
APB_HIP hipError_t hipGetDeviceProperties(hipDeviceProp_tR0000* out, int ordinal) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the properties");
    const Device* device = find_device(ordinal);
    if (!device) return no_such_device(ordinal);
    *out = old_properties(*device);
    return hipSuccess;
  });
}
APB_HIP hipError_t hipGetDevicePropertiesR0000(hipDeviceProp_tR0000* out, int ordinal) {
  return hipGetDeviceProperties(out, ordinal);
}

// The first device that has what is asked for: the members that programs fill in.
APB_HIP hipError_t hipChooseDeviceR0600(int* out, const hipDeviceProp_tR0600* wanted) {
  return entry(__func__, [&] {
    if (!out || !wanted) return null_argument("an argument");
    for (const auto& device : devices()) {
      const hipDeviceProp_tR0600 has = properties(*device);
      const bool fits = has.major >= wanted->major && has.totalGlobalMem >= wanted->totalGlobalMem &&
                        has.sharedMemPerBlock >= wanted->sharedMemPerBlock &&
                        has.multiProcessorCount >= wanted->multiProcessorCount;
      if (!fits) continue;
      *out = device->ordinal;
      return hipSuccess;
    }
    *out = 0;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipDeviceComputeCapability(int* major, int* minor, hipDevice_t ordinal) {
  return entry(__func__, [&] {
    if (!major || !minor) return null_argument("a result");
    const Device* device = find_device(ordinal);
    if (!device) return no_such_device(ordinal);
    *major = card(*device).major;
    *minor = card(*device).minor;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipDeviceGetName(char* out, int length, hipDevice_t ordinal) {
  return entry(__func__, [&] {
    if (!out || length <= 0) return fail(hipErrorInvalidValue, "%d bytes at %p", length, static_cast<void*>(out));
    const Device* device = find_device(ordinal);
    if (!device) return no_such_device(ordinal);
    std::snprintf(out, static_cast<std::size_t>(length), "%s", card(*device).name);
    return hipSuccess;
  });
}

APB_HIP hipError_t hipDeviceGetUuid(hipUUID* out, hipDevice_t ordinal) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    const Device* device = find_device(ordinal);
    if (!device) return no_such_device(ordinal);
    *out = uuid(*device);
    return hipSuccess;
  });
}

APB_HIP hipError_t hipDeviceGetPCIBusId(char* out, int length, int ordinal) {
  return entry(__func__, [&] {
    if (!out || length < 13)
      return fail(hipErrorInvalidValue, "%d bytes at %p, 13 are needed", length, static_cast<void*>(out));
    const Device* device = find_device(ordinal);
    if (!device) return no_such_device(ordinal);
    std::snprintf(out, static_cast<std::size_t>(length), "%s", pci_bus_id(*device).c_str());
    return hipSuccess;
  });
}

APB_HIP hipError_t hipDeviceGetByPCIBusId(int* out, const char* id) {
  return entry(__func__, [&] {
    if (!out || !id) return null_argument("an argument");
    for (const auto& device : devices()) {
      if (strcasecmp(pci_bus_id(*device).c_str(), id) != 0) continue;
      *out = device->ordinal;
      return hipSuccess;
    }
    return fail(hipErrorInvalidValue, "no device at %s", id);
  });
}

APB_HIP hipError_t hipDeviceTotalMem(std::size_t* out, hipDevice_t ordinal) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    const Device* device = find_device(ordinal);
    if (!device) return no_such_device(ordinal);
    *out = device->configuration.memory;
    return hipSuccess;
  });
}

APB_HIP hipError_t hipDeviceSynchronize(void) {
  return entry(__func__, [&] {
    if (const hipError_t error = refuse_in_any_capture(hipErrorStreamCaptureUnsupported); error != hipSuccess)
      return error;
    Device& device = current_device();
    return synchronize(device, tasks_of_device(device.ordinal));
  });
}

APB_HIP hipError_t hipProfilerStart(void) {
  return entry(__func__, [] { return hipSuccess; });
}
APB_HIP hipError_t hipProfilerStop(void) {
  return entry(__func__, [] { return hipSuccess; });
}
