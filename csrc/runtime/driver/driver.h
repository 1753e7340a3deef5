// The GPU driver library of one vendor: libamdhip64 or libcuda, opened at first use and kept for the life of the
// process. Both have the same shape here, so that everything above is written once.
#pragma once

#include <cstdint>
#include <string>

#include "bundle_layout.h"
#include "errors.h"

namespace apb {

struct DeviceFacts {
  std::string name;
  std::string arch;  // "gfx942:sramecc+:xnack-" or "sm_90"
  int compute_units = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t lds_bytes = 0;  // per workgroup at most
};

// hipModuleLaunchKernel and cuLaunchKernel: the same arguments, grid in workgroups.
using LaunchFunction = int (*)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                               unsigned block_y, unsigned block_z, unsigned lds_bytes, void* stream, void** params,
                               void** extra);

// Entry points as the libraries export them. HIP and CUDA differ in few; the unused ones of a vendor are null.
struct DriverTable {
  int (*init)(unsigned flags);
  int (*device_count)(int* count);
  int (*version)(int* version);
  int (*module_load_data)(void** module, const void* image);
  int (*module_get_function)(void** function, void* module, const char* name);
  LaunchFunction launch;
  int (*stream_is_capturing)(void* stream, int* status);
  int (*malloc_async)(std::uint64_t* pointer, std::size_t size, void* stream);
  int (*free_async)(std::uint64_t pointer, void* stream);
  // HIP
  int (*get_device)(int* ordinal);
  int (*set_device)(int ordinal);
  int (*device_properties)(void* properties, int ordinal);
  const char* (*error_name)(int code);
  // CUDA
  int (*error_name_into)(int code, const char** name);
  int (*device_get)(int* device, int ordinal);
  int (*device_name)(char* name, int size, int device);
  int (*device_attribute)(int* value, int attribute, int device);
  int (*device_memory)(std::size_t* bytes, int device);
  int (*primary_context_retain)(void** context, int device);
  int (*context_get)(void** context);
  int (*context_set)(void* context);
  int (*context_push)(void* context);
  int (*context_pop)(void** context);
  int (*function_set_attribute)(void* function, int attribute, int value);
};

class Driver {
 public:
  Vendor vendor;
  std::string path;
  int version = 0;
  int devices = 0;
  bool waits = false;  // a launch ends with its kernel, and there are several devices: the table's releases the GIL
  DriverTable table = {};

  explicit Driver(Vendor vendor_of) : vendor(vendor_of) {}

  bool is_hip() const { return vendor == Vendor::Amd; }

  // "hipErrorInvalidImage (200)"
  std::string code_text(int code) const;
  // The command or setting to suggest when the driver has answered `code`.
  std::string advice(int code) const;

  // Sets `error` to "CALL answered NAME (CODE)" and returns false.
  bool fail(ErrorKind kind, std::string asked, const char* call, int code, Error& error) const;

  [[nodiscard]] bool facts(int ordinal, DeviceFacts& out, Error& error) const;

 private:
  bool hip_facts(int ordinal, DeviceFacts& out, Error& error) const;
  bool cuda_facts(int ordinal, DeviceFacts& out, Error& error) const;
};

// The driver of `vendor`, opened if need be: the library that is in the process already, else `path` (empty for
// none), else what AITER_PREBUILT_HIP or AITER_PREBUILT_CUDA names, else the system's. Thread safe; may take long, so
// call it without the GIL. Null with an Error; the next call tries again.
Driver* open_driver(Vendor vendor, const std::string& path, Error& error);

// The path of another HIP runtime in this process whose memory `address` is, as both say; "" otherwise. Costs a walk over the
// loaded libraries after one was added, else a comparison.
std::string runtime_elsewhere(const Driver& driver, std::uint64_t address);

// The driver if it is open and initialised, else null. No lock.
Driver* opened_driver(Vendor vendor);

// True in a child forked after a driver was opened: its handles and threads did not survive the fork.
bool forked_after_open();
bool fork_error(std::string asked, Error& error);

}  // namespace apb
