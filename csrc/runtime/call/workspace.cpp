#include "call/workspace.h"

#include "call/launch.h"
#include "python_glue.h"

namespace apb {
namespace {

constexpr std::uint64_t kAlignment = 256;

std::string asked(const Prepared& prepared) {
  return cat("allocate ", prepared.workspace, " bytes of workspace for ", prepared.block->name());
}

void keep_error(void* context, const char* kind, const char* message) {
  *static_cast<std::string*>(context) =
      cat(kind == nullptr ? "error" : kind, ": ", message == nullptr ? "no text" : message);
}

}  // namespace

bool Workspace::allocate(Device& device, const Prepared& prepared, const Call& call, void* stream, Error& error) {
  const bool framework = call.api != nullptr && call.api->managed_tensor_allocator != nullptr && !call.stream_given;
  if (!(framework ? from_framework(prepared, call, error) : from_driver(device, prepared, stream, error))) return false;
  if (address_ != 0 && address_ % kAlignment == 0) return true;
  const std::uint64_t got = address_;
  release();
  return error.set(
      ErrorKind::Launch, asked(prepared), cat("the allocator returned the address ", hex_text(got)),
      cat("A workspace must be aligned to ", kAlignment, " bytes: pass stream= to use the driver's allocator"));
}

bool Workspace::from_framework(const Prepared& prepared, const Call& call, Error& error) {
  std::int64_t shape = static_cast<std::int64_t>(prepared.workspace);
  std::int64_t stride = 1;
  DLDevice device{kDLCPU, 0};
  for (const TensorArg& tensor : call.given_tensors()) {
    if (tensor.given) {
      device = tensor.device;
      break;
    }
  }
  DLTensor prototype{nullptr, device, 1, {kDLUInt, 8, 1}, &shape, &stride, 0};  // bytes
  std::string problem;
  if (call.api->managed_tensor_allocator(&prototype, &managed_, &problem, keep_error) != 0 || managed_ == nullptr) {
    managed_ = nullptr;
    py::clear_ordinary();
    return error.set(ErrorKind::Launch, asked(prepared),
                     cat("the framework's allocator failed: ", problem.empty() ? "it gave no reason" : problem),
                     "Free GPU memory, or use a smaller problem");
  }
  address_ = reinterpret_cast<std::uint64_t>(managed_->dl_tensor.data) + managed_->dl_tensor.byte_offset;
  return true;
}

bool Workspace::from_driver(Device& device, const Prepared& prepared, void* stream, Error& error) {
  const int code = device.driver().table.malloc_async(&address_, prepared.workspace, stream);
  if (code != 0) {
    address_ = 0;
    return device.driver().fail(ErrorKind::Launch, asked(prepared),
                                device.driver().is_hip() ? "MallocAsync" : "MemAllocAsync", code, error);
  }
  device_ = &device;
  stream_ = stream;
  return true;
}

void Workspace::release() {
  if (managed_ != nullptr && managed_->deleter != nullptr) managed_->deleter(managed_);
  if (device_ != nullptr) device_->driver().table.free_async(address_, stream_);
  managed_ = nullptr;
  device_ = nullptr;
  address_ = 0;
}

}  // namespace apb
