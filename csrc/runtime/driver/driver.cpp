#include "driver/driver.h"

#include <array>
#include <cstring>
#include <vector>

namespace apb {
namespace {

// hipDeviceProp_t as hipGetDevicePropertiesR0600 fills it. The symbol's name carries the layout's version (HIP 6.0),
// so these offsets do not move; hipDeviceGetAttribute's numbers did, between HIP 5 and 6.
constexpr std::size_t kPropertiesSize = 1472;
constexpr std::size_t kPropertiesName = 0;            // char[256]
constexpr std::size_t kPropertiesMemory = 288;        // size_t totalGlobalMem
constexpr std::size_t kPropertiesLds = 296;           // size_t sharedMemPerBlock
constexpr std::size_t kPropertiesComputeUnits = 388;  // int multiProcessorCount
constexpr std::size_t kPropertiesArch = 1160;         // char gcnArchName[256]
constexpr std::size_t kPropertiesText = 256;

// CUdevice_attribute
constexpr int kCudaMultiprocessors = 16;
constexpr int kCudaMajor = 75;
constexpr int kCudaMinor = 76;
constexpr int kCudaLdsOptIn = 97;

template <class Value>
Value read(const std::uint8_t* at) {
  Value value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::string bounded_text(const std::uint8_t* at, std::size_t size) {
  const char* text = reinterpret_cast<const char*>(at);
  return std::string(text, ::strnlen(text, size));
}

}  // namespace

std::string Driver::code_text(int code) const {
  const char* name = nullptr;
  if (table.error_name != nullptr) name = table.error_name(code);
  if (table.error_name_into != nullptr && table.error_name_into(code, &name) != 0) name = nullptr;
  return cat(name == nullptr ? "error" : name, " (", code, ")");
}

// The codes that users meet; hipError_t and CUresult mean the same by these numbers.
std::string Driver::advice(int code) const {
  switch (code) {
    case 2:  // hipErrorOutOfMemory
      return cat("Free memory of the device, or use smaller sizes; who holds it shows: ",
                 is_hip() ? "rocm-smi --showpids --showmeminfo vram" : "nvidia-smi");
    case 100:  // hipErrorNoDevice
      return cat("Check that this user may open the GPU's device files: ",
                 is_hip() ? "ls -l /dev/kfd /dev/dri; id" : "ls -l /dev/nvidia*; id");
    case 209:  // hipErrorNoBinaryForGpu
      return "Compare the device's target with the installed bundles: aiter-prebuilt doctor";
    case 700:  // hipErrorIllegalAddress
    case 702:  // hipErrorLaunchTimeOut
    case 710:  // hipErrorAssert
    case 719:  // hipErrorLaunchFailure
      return cat(
          "A kernel of this process failed, this one or an earlier one, and the process can no longer use the device. "
          "Restart it. To find the kernel, run with ",
          is_hip() ? "AMD_SERIALIZE_KERNEL=3" : "CUDA_LAUNCH_BLOCKING=1");
    default:
      return cat("The driver library is ", path,
                 ". Look the code up in its documentation, and run: aiter-prebuilt doctor");
  }
}

bool Driver::fail(ErrorKind kind, std::string asked, const char* call, int code, Error& error) const {
  const char* prefix = is_hip() ? "hip" : "cu";
  return error.set(kind, std::move(asked), cat(prefix, call, " answered ", code_text(code)), advice(code));
}

bool Driver::facts(int ordinal, DeviceFacts& out, Error& error) const {
  const std::string asked = cat("use ", kVendors[static_cast<std::size_t>(vendor)], " device ", ordinal);
  if (devices == 0) {
    return error.set(ErrorKind::NoDevice, asked, cat("the driver ", path, " reports no GPU"), advice(100));
  }
  if (ordinal < 0 || ordinal >= devices) {
    return error.set(ErrorKind::NoDevice, asked,
                     cat("the driver reports ", devices, devices == 1 ? " device" : " devices"),
                     cat("Use an ordinal from 0 to ", devices - 1));
  }
  return is_hip() ? hip_facts(ordinal, out, error) : cuda_facts(ordinal, out, error);
}

bool Driver::hip_facts(int ordinal, DeviceFacts& out, Error& error) const {
  // Larger than the struct is today: a later minor release may append fields behind the known ones.
  std::vector<std::uint8_t> properties(4 * kPropertiesSize, 0);  // not on the stack, which may be small
  const int code = table.device_properties(properties.data(), ordinal);
  if (code != 0)
    return fail(ErrorKind::Driver, cat("read the properties of device ", ordinal), "GetDeviceProperties", code, error);
  out.name = bounded_text(properties.data() + kPropertiesName, kPropertiesText);
  out.arch = bounded_text(properties.data() + kPropertiesArch, kPropertiesText);
  out.compute_units = read<int>(properties.data() + kPropertiesComputeUnits);
  out.memory_bytes = read<std::uint64_t>(properties.data() + kPropertiesMemory);
  out.lds_bytes = read<std::uint64_t>(properties.data() + kPropertiesLds);
  return true;
}

bool Driver::cuda_facts(int ordinal, DeviceFacts& out, Error& error) const {
  const std::string asked = cat("read the attributes of device ", ordinal);
  int device = 0;
  if (const int code = table.device_get(&device, ordinal); code != 0) {
    return fail(ErrorKind::Driver, asked, "DeviceGet", code, error);
  }
  std::array<char, 256> name{};
  if (const int code = table.device_name(name.data(), static_cast<int>(name.size()) - 1, device); code != 0) {
    return fail(ErrorKind::Driver, asked, "DeviceGetName", code, error);
  }
  std::size_t memory = 0;
  if (const int code = table.device_memory(&memory, device); code != 0) {
    return fail(ErrorKind::Driver, asked, "DeviceTotalMem", code, error);
  }
  std::array<int, 4> values{};
  const std::array<int, 4> attributes{kCudaMultiprocessors, kCudaMajor, kCudaMinor, kCudaLdsOptIn};
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    if (const int code = table.device_attribute(&values[i], attributes[i], device); code != 0) {
      return fail(ErrorKind::Driver, asked, "DeviceGetAttribute", code, error);
    }
  }
  out = {name.data(), cat("sm_", values[1], values[2]), values[0], memory, static_cast<std::uint64_t>(values[3])};
  return true;
}

}  // namespace apb
