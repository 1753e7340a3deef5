// Loaded code and its functions.
#pragma once

#include <map>

#include "machine/load/code_object.h"
#include "runtime.h"

namespace apb::emu::hip {

struct Function {
  std::shared_ptr<const CodeObject> code;  // a function in use keeps its code, whatever becomes of the module
  const Kernel* kernel = nullptr;
  std::string name;
  std::atomic<int> max_dynamic_lds{0};  // hipFuncSetAttribute; 0: the device's limit
  std::uint32_t argument_bytes = 0;     // explicit arguments, to the end of the last
};

struct Module {
  std::shared_ptr<const CodeObject> code;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Function>, std::less<>> functions;  // made when asked for

  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module();
};

// hipErrorInvalidImage, or hipErrorNoBinaryForGpu when it is a good image for other devices.
hipError_t load(std::span<const std::uint8_t> image, int device, std::shared_ptr<Module>& out);
hipError_t load_at(const void* image, int device, std::shared_ptr<Module>& out);
// hipErrorNotFound.
hipError_t find_kernel(Module& module, const char* name, std::shared_ptr<Function>& out);

// Workgroups of `block` work items that fit on one compute unit at a time.
int blocks_per_unit(const Function& function, std::size_t block, std::size_t dynamic_lds);

// A handle of hipModuleGetFunction, else the host stub of a registered kernel, which is loaded for the current device.
std::shared_ptr<Function> find_function(const void* handle, hipError_t& error);
// registration.cpp: null and hipSuccess in `error` when `host` is no registered stub.
std::shared_ptr<Function> registered_function(const void* host, hipError_t& error);
// The device's address of a registered variable; null with `error` otherwise.
void* registered_variable(const void* host, std::size_t& bytes, hipError_t& error);

}  // namespace apb::emu::hip
