#include "machine/schedule/services.h"

#include <algorithm>
#include <string_view>

namespace apb::emu {
namespace {

bool lists(const Kernel& kernel, std::string_view kind) {
  return std::ranges::any_of(kernel.arguments, [&](const KernelArgument& a) { return a.value_kind == kind; });
}

}  // namespace

bool names_service(const Kernel& kernel) {
  return lists(kernel, "hidden_hostcall_buffer") || lists(kernel, "hidden_heap_v1");
}

const char* missing_service(const Kernel& kernel) {
  if (lists(kernel, "hidden_queue_ptr")) return nullptr;
  if (lists(kernel, "hidden_heap_v1")) return "a heap of the device (hidden_heap_v1: malloc or new in a kernel)";
  if (lists(kernel, "hidden_hostcall_buffer"))
    return "calls of the host (hidden_hostcall_buffer: printf or assert in a kernel)";
  return nullptr;
}

}  // namespace apb::emu
