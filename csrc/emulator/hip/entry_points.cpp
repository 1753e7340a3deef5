// Looking up entry points by name.
#include <dlfcn.h>

#include <string_view>

#include "runtime.h"

namespace apb::emu::hip {
namespace {

constexpr std::uint64_t kFlagLegacy = 1, kFlagPerThread = 2;
constexpr int kFirstR0600 = 60000000;  // HIP 6.0 changed the layout of the properties and kept the name

// This library, whatever else in the process is called libamdhip64.
void* self() {
  static void* const handle = [] {
    Dl_info info{};
    return dladdr(reinterpret_cast<const void*>(&kVersion), &info) != 0
               ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
               : nullptr;
  }();
  return handle;
}

// Null: there is no such name.
void* find(std::string name, int wanted, std::uint64_t flags) {
  if (!name.starts_with("hip")) return nullptr;
  if (name == "hipGetDeviceProperties" || name == "hipChooseDevice") name += wanted >= kFirstR0600 ? "R0600" : "R0000";
  if (flags & kFlagPerThread)
    if (void* address = dlsym(self(), (name + "_spt").c_str())) return address;
  return dlsym(self(), name.c_str());
}

hipError_t get(const char* symbol, void** out, int wanted, std::uint64_t flags, int* status) {
  if (!symbol || !out || *symbol == 0) return fail(hipErrorInvalidValue, "the name or the result is null");
  if ((flags & ~(kFlagLegacy | kFlagPerThread)) != 0)
    return fail(hipErrorInvalidValue, "flags 0x%llx", static_cast<unsigned long long>(flags));
  *out = find(symbol, wanted, flags);
  if (status) *status = *out ? HIP_GET_PROC_ADDRESS_SUCCESS : HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *out ? hipSuccess : quiet(hipErrorNotFound, "there is no %s", symbol);
}

}  // namespace
}  // namespace apb::emu::hip

using namespace apb::emu::hip;

APB_HIP hipError_t hipGetProcAddress(const char* symbol, void** out, int wanted, std::uint64_t flags,
                                     hipDriverProcAddressQueryResult* status) {
  return entry(__func__, [&] { return get(symbol, out, wanted, flags, reinterpret_cast<int*>(status)); });
}
APB_HIP hipError_t hipGetProcAddress_spt(const char* symbol, void** out, int wanted, std::uint64_t flags,
                                         hipDriverProcAddressQueryResult* status) {
  return entry(__func__,
               [&] { return get(symbol, out, wanted, flags | kFlagPerThread, reinterpret_cast<int*>(status)); });
}
APB_HIP hipError_t hipGetDriverEntryPoint(const char* symbol, void** out, unsigned long long flags, int* status) {
  return entry(__func__, [&] { return get(symbol, out, kVersion, flags, status); });
}
APB_HIP hipError_t hipGetDriverEntryPoint_spt(const char* symbol, void** out, unsigned long long flags, int* status) {
  return entry(__func__, [&] { return get(symbol, out, kVersion, flags | kFlagPerThread, status); });
}

// The numbers are those of AMD's profiler, which cannot attach here.
APB_HIP const char* hipApiName(std::uint32_t) { return "unknown"; }
