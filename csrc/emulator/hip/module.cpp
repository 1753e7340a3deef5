// Modules: code objects that a program loads.
#include "module.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "capture.h"
#include "isa/decode.h"
#include "machine/schedule/services.h"

namespace apb::emu::hip {
namespace {

constexpr std::uint16_t kElfMachineAmdgpu = 224;
constexpr std::string_view kBundleMagic = "__CLANG_OFFLOAD_BUNDLE__";

// Does an entry of the bundle fit the processor as these cards are delivered, with SRAM error correction and without
// XNACK?
bool bundle_names(std::span<const std::uint8_t> image, std::string_view wanted) {
  const std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
  for (std::size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, at + 1)) {
    const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz:+-", at + wanted.size());
    const std::string_view features =
        text.substr(at + wanted.size(), end == std::string_view::npos ? end : end - at - wanted.size());
    if (features.find("xnack+") == std::string_view::npos && features.find("sramecc-") == std::string_view::npos)
      return true;
  }
  return false;
}

// Is it a code object of AMD's, or a bundle of them, that just has nothing for this device?
bool for_other_devices(std::span<const std::uint8_t> image, Target target) {
  const auto begins = [&](std::string_view magic) {
    return image.size() >= magic.size() && std::memcmp(image.data(), magic.data(), magic.size()) == 0;
  };
  if (begins(kBundleMagic)) return !bundle_names(image, name(target));
  // ELF64 header: e_machine at 18, e_flags at 48: the processor in the low byte, XNACK in bits 8 and 9, SRAM error
  // correction in 10 and 11 (0 unsupported, 1 any, 2 off, 3 on).
  if (!begins("\177ELF") || image.size() < 64) return false;
  std::uint16_t machine = 0;
  std::uint32_t flags = 0;
  std::memcpy(&machine, image.data() + 18, sizeof machine);
  std::memcpy(&flags, image.data() + 48, sizeof flags);
  constexpr std::uint32_t kOff = 2, kOn = 3;
  const std::uint32_t wanted = target == Target::Gfx950 ? 0x4f : 0x4c;
  return machine == kElfMachineAmdgpu &&
         ((flags & 0xff) != wanted || (flags >> 8 & 3) == kOn || (flags >> 10 & 3) == kOff);
}

hipError_t read_file(const char* path, std::vector<std::uint8_t>& out) {
  std::error_code unknown;
  std::ifstream file(path, std::ios::binary);
  if (file && !std::filesystem::is_regular_file(path, unknown))  // a device may have no end
    return fail(hipErrorInvalidImage, "%s is no regular file", path);
  if (!file) return fail(hipErrorFileNotFound, "cannot open %s", path);
  out.assign(std::istreambuf_iterator<char>(file), {});
  return file.bad() ? fail(hipErrorInvalidImage, "cannot read %s", path) : hipSuccess;
}

hipError_t finish(hipError_t loaded, std::shared_ptr<Module> module, hipModule_t* out) {
  if (loaded == hipSuccess) *out = static_cast<hipModule_t>(table<Module>().add(std::move(module)));
  return loaded;
}

hipError_t load_data(hipModule_t* out, const void* image) {
  if (!out || !image) return null_argument(out ? "the image" : "the result");
  *out = nullptr;
  if (const hipError_t error = refuse_unsafe(); error != hipSuccess) return error;
  std::shared_ptr<Module> module;
  const hipError_t loaded = load_at(image, thread().device, module);
  return finish(loaded, std::move(module), out);
}

hipError_t load_path(hipModule_t* out, const char* path) {
  if (!out || !path) return null_argument(out ? "the path" : "the result");
  *out = nullptr;
  if (const hipError_t error = refuse_unsafe(); error != hipSuccess) return error;
  std::vector<std::uint8_t> image;
  if (const hipError_t error = read_file(path, image); error != hipSuccess) return error;
  std::shared_ptr<Module> module;
  const hipError_t loaded = load(image, thread().device, module);
  return finish(loaded, std::move(module), out);
}

std::shared_ptr<Module> find_module(const void* handle, hipError_t& error) {
  auto module = table<Module>().find(handle);
  if (!module) error = fail(hipErrorInvalidHandle, "%p is no module", handle);
  return module;
}

hipError_t get_function(hipFunction_t* out, const void* handle, const char* name) {
  if (!out || !name) return null_argument(out ? "the name" : "the result");
  *out = nullptr;
  hipError_t error = hipSuccess;
  const auto module = find_module(handle, error);
  if (!module) return error;
  std::shared_ptr<Function> function;
  error = find_kernel(*module, name, function);
  if (error == hipSuccess) *out = reinterpret_cast<hipFunction_t>(function.get());
  return error;
}

hipError_t unload(const void* handle) {
  const auto module = table<Module>().take(handle);
  return module ? hipSuccess : fail(hipErrorInvalidHandle, "%p is no module", handle);
}

template <class Count>
hipError_t count_functions(Count* out, const void* handle) {
  if (!out) return null_argument("the result");
  hipError_t error = hipSuccess;
  const auto module = find_module(handle, error);
  if (module) *out = static_cast<Count>(module->code->kernels.size());
  return error;
}

}  // namespace

Module::~Module() {
  for (const auto& [name, function] : functions) table<Function>().take(function.get());
}

hipError_t load(std::span<const std::uint8_t> image, int device, std::shared_ptr<Module>& out) {
  const Target target = find_device(device)->configuration.target;
  std::string problem;
  bool no_memory = false;
  std::unique_ptr<CodeObject> code = load_code_object(image, target, device, problem, no_memory);
  if (!code && no_memory) return fail(hipErrorOutOfMemory, "%s", problem.c_str());
  if (!code)
    return fail(for_other_devices(image, target) ? hipErrorNoBinaryForGpu : hipErrorInvalidImage, "%s",
                problem.c_str());
  out = std::make_shared<Module>();
  out->code = std::move(code);
  return hipSuccess;
}

hipError_t load_at(const void* image, int device, std::shared_ptr<Module>& out) {
  std::string problem;
  const std::span<const std::uint8_t> bytes = image_at(image, problem);
  return bytes.empty() ? fail(hipErrorInvalidImage, "%s", problem.c_str()) : load(bytes, device, out);
}

hipError_t find_kernel(Module& module, const char* name, std::shared_ptr<Function>& out) {
  const std::lock_guard guard(module.mutex);
  auto& slot = module.functions[name];
  if (!slot) {
    const auto it = module.code->kernels.find(std::string_view(name));
    if (it == module.code->kernels.end()) {
      module.functions.erase(name);
      return fail(hipErrorNotFound, "the module has no kernel '%s'", name);
    }
    if (const char* missing = missing_service(it->second)) {
      module.functions.erase(name);
      return fail(hipErrorNotSupported, "kernel %s needs %s, which the embedded device has not: compile it without",
                  name, missing);
    }
    slot = std::make_shared<Function>();
    slot->code = module.code;
    slot->kernel = &it->second;
    slot->name = name;
    for (const KernelArgument& argument : it->second.arguments)
      if (argument.kind != ArgumentKind::Hidden)
        slot->argument_bytes = std::max(slot->argument_bytes, argument.offset + argument.size);
    table<Function>().add(slot);
  }
  out = slot;
  return hipSuccess;
}

std::shared_ptr<Function> find_function(const void* handle, hipError_t& error) {
  if (auto function = table<Function>().find(handle)) return function;
  if (auto function = registered_function(handle, error); function || error != hipSuccess) return function;
  error = handle ? fail(hipErrorInvalidDeviceFunction, "%p is no function", handle)
                 : fail(hipErrorInvalidDeviceFunction, "the function is null");
  return nullptr;
}

}  // namespace apb::emu::hip

using namespace apb::emu::hip;

APB_HIP hipError_t hipModuleLoad(hipModule_t* out, const char* path) {
  return entry(__func__, [&] { return load_path(out, path); });
}
APB_HIP hipError_t hipModuleLoadData(hipModule_t* out, const void* image) {
  return entry(__func__, [&] { return load_data(out, image); });
}
APB_HIP hipError_t hipModuleLoadFatBinary(hipModule_t* out, const void* image) {
  return entry(__func__, [&] { return load_data(out, image); });
}
// The options steer a compiler, and a code object needs none: they are ignored, as by AMD's driver.
APB_HIP hipError_t hipModuleLoadDataEx(hipModule_t* out, const void* image, unsigned, int*, void**) {
  return entry(__func__, [&] { return load_data(out, image); });
}
APB_HIP hipError_t hipModuleUnload(hipModule_t module) {
  return entry(__func__, [&] { return unload(module); });
}
APB_HIP hipError_t hipModuleGetFunction(hipFunction_t* out, hipModule_t module, const char* name) {
  return entry(__func__, [&] { return get_function(out, module, name); });
}
APB_HIP hipError_t hipModuleGetFunctionCount(unsigned* out, hipModule_t module) {
  return entry(__func__, [&] { return count_functions(out, module); });
}

APB_HIP hipError_t hipModuleGetGlobal(hipDeviceptr_t* address, std::size_t* bytes, hipModule_t handle,
                                      const char* name) {
  return entry(__func__, [&] {
    if (!name || (!address && !bytes)) return null_argument(name ? "every result" : "the name");
    hipError_t error = hipSuccess;
    const auto module = find_module(handle, error);
    if (!module) return error;
    const auto it = module->code->globals.find(std::string_view(name));
    if (it == module->code->globals.end()) return fail(hipErrorNotFound, "the module has no variable '%s'", name);
    if (address) *address = reinterpret_cast<void*>(it->second.address);
    if (bytes) *bytes = it->second.bytes;
    return hipSuccess;
  });
}

// Libraries of HIP 7 are modules that need no context: here they are modules of the current device.
APB_HIP hipError_t hipLibraryLoadData(hipLibrary_t* out, const void* image, int**, void**, unsigned, int**, void**,
                                      unsigned) {
  return entry(__func__, [&] { return load_data(reinterpret_cast<hipModule_t*>(out), image); });
}
APB_HIP hipError_t hipLibraryLoadFromFile(hipLibrary_t* out, const char* path, int**, void**, unsigned, int**, void**,
                                          unsigned) {
  return entry(__func__, [&] { return load_path(reinterpret_cast<hipModule_t*>(out), path); });
}
APB_HIP hipError_t hipLibraryUnload(hipLibrary_t library) {
  return entry(__func__, [&] { return unload(library); });
}
APB_HIP hipError_t hipLibraryGetKernel(hipKernel_t* out, hipLibrary_t library, const char* name) {
  return entry(__func__, [&] { return get_function(reinterpret_cast<hipFunction_t*>(out), library, name); });
}
APB_HIP hipError_t hipLibraryGetKernelCount(unsigned* out, hipLibrary_t library) {
  return entry(__func__, [&] { return count_functions(out, library); });
}
APB_HIP hipError_t hipLibraryEnumerateKernels(hipKernel_t* out, unsigned count, hipLibrary_t library) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    hipError_t error = hipSuccess;
    const auto module = find_module(library, error);
    if (!module) return error;
    unsigned done = 0;
    for (const auto& [name, kernel] : module->code->kernels) {
      if (done == count) break;
      std::shared_ptr<Function> function;
      if (const hipError_t missing = find_kernel(*module, name.c_str(), function); missing != hipSuccess)
        return missing;
      out[done++] = reinterpret_cast<hipKernel_t>(function.get());
    }
    return hipSuccess;
  });
}
APB_HIP hipError_t hipKernelGetFunction(hipFunction_t* out, hipKernel_t kernel) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    hipError_t error = hipSuccess;
    if (find_function(kernel, error)) *out = reinterpret_cast<hipFunction_t>(kernel);
    return error;
  });
}
