#include "driver/module_cache.h"

#include <memory>
#include <utility>

namespace apb {
namespace {

std::atomic<std::uint64_t> loaded_count{0};

// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES; above 48 KiB a CUDA function has to be allowed what it asks for.
// HIP needs nothing of the kind: hipModuleLaunchKernel takes any size up to the device's.
constexpr int kMaxDynamicLds = 8;
constexpr std::uint32_t kCudaPlainLds = 48 * 1024;

// hipErrorStreamCapture* and CUDA_ERROR_STREAM_CAPTURE_*: some other stream captures. The code object is not at fault.
constexpr int kFirstCaptureError = 900;
constexpr int kLastCaptureError = 908;

// Not the code object's fault, and may be over at the next call: OUT_OF_MEMORY and NOT_READY, which HIP and CUDA number alike,
// and what HIP answers when its loader has no memory for an image.
constexpr int kOutOfMemory = 2;
constexpr int kNotReady = 600;
constexpr int kHipSharedObjectInitFailed = 303;

bool is_transient(const Driver& driver, int code) {
  return code == kOutOfMemory || code == kNotReady || (driver.is_hip() && code == kHipSharedObjectInitFailed);
}

// hipStreamCaptureStatusNone and CU_STREAM_CAPTURE_STATUS_NONE.
constexpr int kNotCapturing = 0;

std::string loading(const OperatorBlock& block, const layout::Entry& entry) {
  return cat("load kernel ", block.text(entry.name), " of ", block.name());
}

bool capture_error(const OperatorBlock& block, const layout::Entry& entry, std::string found, Error& error) {
  return error.set(ErrorKind::Capture, loading(block, entry), std::move(found),
                   cat("Call aiter_prebuilt.preload('", block.name(), "'), or run it once, before the capture begins"));
}

}  // namespace

std::uint64_t Device::modules_loaded() { return loaded_count.load(std::memory_order_relaxed); }

void* Device::function(const OperatorBlock& block, const layout::Entry& entry, std::uint32_t dynamic_lds,
                       bool check_capture, void* stream, Error& error) {
  if (forked_after_open()) {
    fork_error(loading(block, entry), error);
    return nullptr;
  }
  DeviceScope scope(*this);
  if (!scope.enter(error)) return nullptr;
  const std::lock_guard lock(mutex_);
  Module& module = modules_[entry.sha256];
  if (module.failed) {
    error = module.error;
    return nullptr;
  }
  const bool known = module.handle != nullptr && module.functions.contains(block.text(entry.symbol));
  if (!known && check_capture && !refuse_in_capture(block, entry, stream, error)) return nullptr;
  if (module.handle == nullptr && !load(block, entry, module, error)) return nullptr;
  void* function = symbol(block, entry, module, error);
  if (function != nullptr && !allow_lds(block, entry, module, function, dynamic_lds, error)) return nullptr;
  return function;
}

bool Device::refuse_in_capture(const OperatorBlock& block, const layout::Entry& entry, void* stream,
                               Error& error) const {
  int status = kNotCapturing;
  // Asking about the default stream while another stream captures is an error of its own: it means "capturing".
  const int code = driver_.table.stream_is_capturing(stream, &status);
  if (code == 0 && status == kNotCapturing) return true;
  return capture_error(
      block, entry,
      code == 0 ? "the stream is capturing a graph, and loading a code object would spoil the capture"
                : cat("a graph capture may be running: asking the stream answered ", driver_.code_text(code)),
      error);
}

bool Device::load(const OperatorBlock& block, const layout::Entry& entry, Module& module, Error& error) const {
  Bytes image;
  // Read again at the next call: there may have been no memory, and a file that stays damaged says so again.
  if (!block.bundle().read_code_object(block, entry, image, error)) return false;
  const int code = driver_.table.module_load_data(&module.handle, image.data());
  if (code == 0) {
    loaded_count.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  module.handle = nullptr;
  if (code >= kFirstCaptureError && code <= kLastCaptureError) {
    return capture_error(block, entry, cat("another stream is capturing a graph: ", driver_.code_text(code)), error);
  }
  driver_.fail(ErrorKind::Load, loading(block, entry), "ModuleLoadData", code, error);
  const Bundle& bundle = block.bundle();
  error.found += cat(" for a code object of ", image.size(), " bytes for ", bundle.text(bundle.root().target));
  if (is_transient(driver_, code)) return false;
  module.failed = true;
  module.error = error;
  return false;
}

void* Device::symbol(const OperatorBlock& block, const layout::Entry& entry, Module& module, Error& error) const {
  const std::string_view name = block.text(entry.symbol);
  if (const auto found = module.functions.find(name); found != module.functions.end()) return found->second;
  void* function = nullptr;
  const std::string text(name);
  const int code = driver_.table.module_get_function(&function, module.handle, text.c_str());
  if (code != 0 || function == nullptr) {
    driver_.fail(ErrorKind::Load, loading(block, entry), "ModuleGetFunction", code, error);
    error.found += cat(" for the symbol ", name);
    return nullptr;
  }
  module.functions.emplace(text, function);
  return function;
}

bool Device::allow_lds(const OperatorBlock& block, const layout::Entry& entry, Module& module, void* function,
                       std::uint32_t bytes, Error& error) const {
  if (driver_.is_hip() || bytes <= kCudaPlainLds) return true;
  std::uint32_t& allowed = module.lds_allowed[function];
  if (bytes <= allowed) return true;
  const int code = driver_.table.function_set_attribute(function, kMaxDynamicLds, static_cast<int>(bytes));
  if (code != 0) {
    driver_.fail(ErrorKind::Load, loading(block, entry), "FuncSetAttribute", code, error);
    error.found += cat(" for ", bytes, " bytes of dynamic shared memory");
    return false;
  }
  allowed = bytes;
  return true;
}

void* Device::context(Error& error) {
  if (void* ready = context_.load(std::memory_order_acquire)) return ready;
  const std::lock_guard lock(context_mutex_);
  if (void* ready = context_.load(std::memory_order_relaxed)) return ready;
  int device = 0;
  void* retained = nullptr;
  int code = driver_.table.device_get(&device, ordinal_);
  if (code == 0) code = driver_.table.primary_context_retain(&retained, device);
  if (code != 0) {
    driver_.fail(ErrorKind::Driver, cat("use device ", ordinal_), "DevicePrimaryCtxRetain", code, error);
    return nullptr;
  }
  context_.store(retained, std::memory_order_release);
  return retained;
}

Device* device_of(Driver& driver, int ordinal, Error& error) {
  static std::mutex mutex;
  // Never destroyed: a daemon thread may launch while the process exits.
  static auto& devices = *new std::map<std::pair<Vendor, int>, std::unique_ptr<Device>>;
  const std::lock_guard lock(mutex);
  auto& device = devices[{driver.vendor, ordinal}];
  if (device == nullptr) {
    if (ordinal < 0 || ordinal >= driver.devices) {
      error.set(ErrorKind::NoDevice,
                cat("use ", kVendors[static_cast<std::size_t>(driver.vendor)], " device ", ordinal),
                cat("the driver reports ", driver.devices, driver.devices == 1 ? " device" : " devices"),
                "Use the ordinal of a visible device");
      return nullptr;
    }
    device = std::make_unique<Device>(driver, ordinal);
  }
  return device.get();
}

bool DeviceScope::enter(Error& error) { return device_.driver().is_hip() ? enter_hip(error) : enter_cuda(error); }

bool DeviceScope::enter_hip(Error& error) {
  if (device_.is_current()) return true;
  Driver& driver = device_.driver();
  int current = -1;
  if (const int code = driver.table.get_device(&current); code != 0) {
    return driver.fail(ErrorKind::Driver, cat("use device ", device_.ordinal()), "GetDevice", code, error);
  }
  if (current == device_.ordinal()) return true;
  if (const int code = driver.table.set_device(device_.ordinal()); code != 0) {
    return driver.fail(ErrorKind::Driver, cat("use device ", device_.ordinal()), "SetDevice", code, error);
  }
  previous_ = current;
  return true;
}

bool DeviceScope::enter_cuda(Error& error) {
  Driver& driver = device_.driver();
  void* wanted = device_.context(error);
  if (wanted == nullptr) return false;
  void* current = nullptr;
  if (const int code = driver.table.context_get(&current); code != 0) {
    return driver.fail(ErrorKind::Driver, cat("use device ", device_.ordinal()), "CtxGetCurrent", code, error);
  }
  if (current == wanted) return true;
  // A thread without a context keeps this one, as the CUDA runtime would have done at its first call.
  const bool push = current != nullptr;
  const int code = push ? driver.table.context_push(wanted) : driver.table.context_set(wanted);
  if (code != 0) {
    return driver.fail(ErrorKind::Driver, cat("use device ", device_.ordinal()),
                       push ? "CtxPushCurrent" : "CtxSetCurrent", code, error);
  }
  pushed_ = push;
  return true;
}

DeviceScope::~DeviceScope() {
  Driver& driver = device_.driver();
  if (previous_ >= 0) driver.table.set_device(previous_);
  void* popped = nullptr;
  if (pushed_) driver.table.context_pop(&popped);
}

}  // namespace apb
