// Registration of hipcc's programs before main(): fat binaries, kernels and variables, by the address of a host stub.
#include <cstring>
#include <map>

#include "copy.h"
#include "module.h"
#include "stream.h"

namespace apb::emu::hip {
namespace {

// The wrapper that the compiler puts around the bundle.
struct FatBinaryWrapper {
  std::uint32_t magic, version;
  const void* binary;
  void* unused;
};
constexpr std::uint32_t kWrapperMagic = 0x48495046;  // 'HIPF'

struct FatBinary {
  const void* image = nullptr;
  std::mutex mutex;
  std::map<int, std::shared_ptr<Module>> modules;  // by device, loaded at first use
};

struct Symbol {
  std::shared_ptr<FatBinary> binary;
  std::string name;
  std::size_t bytes = 0;
};

struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, Symbol> kernels, variables;
};
Registry& registry() {
  static Registry* const only = new Registry;
  return *only;
}

bool look_up(std::unordered_map<const void*, Symbol>& map, const void* host, Symbol& out) {
  const std::lock_guard guard(registry().mutex);
  const auto it = map.find(host);
  if (it == map.end()) return false;
  out = it->second;
  return true;
}

std::shared_ptr<Module> module_on(FatBinary& binary, int device, hipError_t& error) {
  const std::lock_guard guard(binary.mutex);
  auto& slot = binary.modules[device];
  if (!slot) error = load_at(binary.image, device, slot);
  return slot;
}

// Registration answers nothing, so what goes wrong is said when the symbol is used.
void add(std::unordered_map<const void*, Symbol>& map, void* handle, const void* host, const char* name,
         std::size_t bytes) {
  const auto binary = table<FatBinary>().find(handle);
  if (!binary || !host || !name) {
    log(LogLevel::Error, "registration of '%s' with %p, which is no fat binary", name ? name : "(null)", handle);
    return;
  }
  const std::lock_guard guard(registry().mutex);
  map[host] = {binary, name, bytes};
}

hipError_t copy_symbol(const void* symbol, const void* other, std::size_t bytes, std::size_t offset, hipMemcpyKind kind,
                       hipStream_t handle, bool to_symbol, Until until = Until::Enqueued) {
  hipError_t error = hipSuccess;
  std::size_t size = 0;
  char* address = static_cast<char*>(registered_variable(symbol, size, error));
  if (!address) return error;
  if (offset > size || bytes > size - offset)
    return fail(hipErrorInvalidValue, "%zu bytes at offset %zu of a symbol of %zu", bytes, offset, size);
  const CopyOperation copy = to_symbol ? flat_copy(address + offset, other, bytes, kind)
                                       : flat_copy(const_cast<void*>(other), address + offset, bytes, kind);
  return submit(handle, copy, is_pageable(copy) ? Until::Done : until);
}

}  // namespace

std::shared_ptr<Function> registered_function(const void* host, hipError_t& error) {
  Symbol symbol;
  if (!look_up(registry().kernels, host, symbol)) return nullptr;
  const auto module = module_on(*symbol.binary, thread().device, error);
  std::shared_ptr<Function> function;
  if (module) error = find_kernel(*module, symbol.name.c_str(), function);
  return function;
}

void* registered_variable(const void* host, std::size_t& bytes, hipError_t& error) {
  Symbol symbol;
  if (!look_up(registry().variables, host, symbol)) {
    error = fail(hipErrorInvalidSymbol, "%p is no registered variable", host);
    return nullptr;
  }
  const auto module = module_on(*symbol.binary, thread().device, error);
  if (!module) return nullptr;
  const auto it = module->code->globals.find(symbol.name);
  if (it == module->code->globals.end()) {
    error = fail(hipErrorInvalidSymbol, "the code object has no variable '%s'", symbol.name.c_str());
    return nullptr;
  }
  bytes = it->second.bytes;
  return reinterpret_cast<void*>(it->second.address);
}

}  // namespace apb::emu::hip

using namespace apb::emu;
using namespace apb::emu::hip;

APB_HIP void** __hipRegisterFatBinary(const void* data) {
  void** handle = nullptr;
  entry(__func__, [&] {
    const auto* wrapper = static_cast<const FatBinaryWrapper*>(data);
    if (!wrapper || wrapper->magic != kWrapperMagic) return fail(hipErrorInvalidImage, "%p is no fat binary", data);
    auto binary = std::make_shared<FatBinary>();
    binary->image = wrapper->binary;
    handle = static_cast<void**>(table<FatBinary>().add(std::move(binary)));
    return hipSuccess;
  });
  return handle;
}

APB_HIP void __hipUnregisterFatBinary(void** handle) {
  entry(__func__, [&] {
    const auto binary = table<FatBinary>().take(handle);
    if (!binary) return fail(hipErrorInvalidHandle, "%p is no fat binary", static_cast<void*>(handle));
    Registry& all = registry();
    const std::lock_guard guard(all.mutex);
    const auto of_it = [&](const auto& item) { return item.second.binary == binary; };
    std::erase_if(all.kernels, of_it);
    std::erase_if(all.variables, of_it);
    return hipSuccess;
  });
}

APB_HIP void __hipRegisterFunction(void** handle, const void* host, char*, const char* name, unsigned, void*, void*,
                                   void*, void*, int*) {
  entry(__func__, [&] {
    add(registry().kernels, handle, host, name, 0);
    return hipSuccess;
  });
}

APB_HIP void __hipRegisterVar(void** handle, void* host, char*, char* name, int, std::size_t bytes, int, int) {
  entry(__func__, [&] {
    add(registry().variables, handle, host, name, bytes);
    return hipSuccess;
  });
}

APB_HIP hipError_t hipGetSymbolAddress(void** out, const void* symbol) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    hipError_t error = hipSuccess;
    std::size_t bytes = 0;
    *out = registered_variable(symbol, bytes, error);
    return error;
  });
}
APB_HIP hipError_t hipGetSymbolSize(std::size_t* out, const void* symbol) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    hipError_t error = hipSuccess;
    registered_variable(symbol, *out, error);
    return error;
  });
}
APB_HIP hipError_t hipGetFuncBySymbol(hipFunction_t* out, const void* symbol) {
  return entry(__func__, [&] {
    if (!out) return null_argument("the result");
    hipError_t error = hipSuccess;
    const auto function = registered_function(symbol, error);
    if (!function && error == hipSuccess)
      return fail(hipErrorInvalidDeviceFunction, "%p is no registered kernel", symbol);
    *out = reinterpret_cast<hipFunction_t>(function.get());
    return error;
  });
}

APB_HIP hipError_t hipMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                                     hipMemcpyKind kind) {
  return entry(__func__, [&] { return copy_symbol(symbol, from, bytes, offset, kind, nullptr, true, Until::Done); });
}
APB_HIP hipError_t hipMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                                          hipMemcpyKind kind, hipStream_t stream) {
  return entry(__func__, [&] { return copy_symbol(symbol, from, bytes, offset, kind, stream, true); });
}
APB_HIP hipError_t hipMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                                       hipMemcpyKind kind) {
  return entry(__func__, [&] { return copy_symbol(symbol, to, bytes, offset, kind, nullptr, false, Until::Done); });
}
APB_HIP hipError_t hipMemcpyFromSymbolAsync(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                                            hipMemcpyKind kind, hipStream_t stream) {
  return entry(__func__, [&] { return copy_symbol(symbol, to, bytes, offset, kind, stream, false); });
}
