// Finds, opens and initialises the driver library; probing lives here, deciding in driver.cpp's users.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "driver/driver.h"
#include "python_glue.h"

namespace apb {
namespace {

struct VendorNames {
  const char* stem;         // base names of loaded libraries start with it
  const char* environment;  // a path in here goes before the system's library
  std::array<const char*, 3> system;
  const char* fix;
  const char* user;  // a library of torch's that calls it; null: one driver is all that there can be
};

constexpr std::array<VendorNames, 2> kNames{{
    {"libamdhip64",
     "AITER_PREBUILT_HIP",
     {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"},
     "Install ROCm's HIP runtime or a ROCm build of torch, or set AITER_PREBUILT_HIP to the path of libamdhip64.so",
     "libc10_hip"},
    {"libcuda.",
     "AITER_PREBUILT_CUDA",
     {"libcuda.so.1", "libcuda.so", nullptr},
     "Install the NVIDIA driver, or set AITER_PREBUILT_CUDA to the path of libcuda.so.1",
     nullptr},
}};

std::mutex open_mutex;
std::array<std::atomic<Driver*>, 2> ready_drivers{};
std::array<void*, 2> handles{};           // under open_mutex
std::array<std::string, 2> handle_paths;  // under open_mutex
std::atomic<bool> any_opened{false};
std::atomic<bool> fork_watched{false};
std::atomic<int> threads_opening{0};
std::atomic<bool> is_forked_child{false};

struct LoadedSearch {
  std::string_view stem;
  std::vector<std::string> paths;
};

int look_at_library(dl_phdr_info* info, std::size_t, void* context) {
  auto& search = *static_cast<LoadedSearch*>(context);
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  const std::size_t slash = path.rfind('/');
  const std::string_view base = slash == std::string_view::npos ? path : path.substr(slash + 1);
  if (base.starts_with(search.stem) && base.find(".so") != std::string_view::npos) {
    search.paths.emplace_back(path);
  }
  return 0;
}

std::vector<std::string> loaded_libraries(const char* stem) {
  LoadedSearch search{stem, {}};
  ::dl_iterate_phdr(look_at_library, &search);
  return std::move(search.paths);
}

// The file that a library's own calls of `symbol` go to; "" when it is not loaded, or has no such call.
std::string used_by(const char* stem, const char* symbol) {
  for (const std::string& path : loaded_libraries(stem)) {
    void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    void* address = ::dlsym(handle, symbol);  // in the library and what it is linked with, in that order
    Dl_info facts = {};
    const bool known = address != nullptr && ::dladdr(address, &facts) != 0 && facts.dli_fname != nullptr;
    ::dlclose(handle);
    if (known) return facts.dli_fname;
  }
  return {};
}

// The driver library in this process. Of several HIP runtimes the one that torch is linked with, whose memory its tensors have.
std::string loaded_library(const VendorNames& names) {
  const std::vector<std::string> paths = loaded_libraries(names.stem);
  if (paths.size() > 1 && names.user != nullptr) {
    std::string used = used_by(names.user, "hipInit");
    if (!used.empty()) return used;
  }
  return paths.empty() ? std::string() : paths.front();
}

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
  return real == nullptr ? path : std::string(real.get());
}

const char* last_dl_error() {
  const char* text = ::dlerror();
  return text == nullptr ? "no reason given" : text;
}

// dlopen would wait for the writer of a named pipe. A bare name, which the loader searches for, is not looked at.
bool is_other_than_a_file(const std::string& path) {
  struct stat facts = {};
  return path.find('/') != std::string::npos && ::stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode);
}

// Opens the library into handles[]; false with an Error.
bool open_library(std::size_t vendor, const std::string& path, Error& error) {
  const VendorNames& names = kNames[vendor];
  const std::string asked = cat("open the ", kVendors[vendor], " driver");
  const std::string loaded = loaded_library(names);
  if (!loaded.empty() && !path.empty() && real_path(loaded) != real_path(path)) {
    return error.set(ErrorKind::Driver, asked,
                     cat("this process already uses ", loaded, ", and ", path, " is another file"),
                     "Two runtimes in one process corrupt each other: name no path");
  }
  const char* environment = std::getenv(names.environment);
  std::vector<std::string> candidates;
  if (!loaded.empty()) {
    candidates.push_back(loaded);
  } else if (!path.empty()) {
    candidates.push_back(path);
  } else if (environment != nullptr && environment[0] != '\0') {
    candidates.emplace_back(environment);
  } else {
    for (const char* name : names.system) {
      if (name != nullptr) candidates.emplace_back(name);
    }
  }
  std::string reasons;
  std::string absent;
  for (const std::string& candidate : candidates) {
    if (is_other_than_a_file(candidate)) {
      reasons += cat(reasons.empty() ? "" : "; ", candidate, ": it is not a regular file");
      continue;
    }
    handles[vendor] = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handles[vendor] != nullptr) {
      handle_paths[vendor] = candidate;
      return true;
    }
    const std::string reason = last_dl_error();
    if (reason.starts_with(cat(candidate, ": cannot open shared object file: No such file")))
      absent += cat(absent.empty() ? "" : ", ", candidate);
    else
      reasons += cat(reasons.empty() ? "" : "; ", reason);
  }
  if (!absent.empty()) reasons += cat(reasons.empty() ? "" : "; ", "not found: ", absent);
  return error.set(ErrorKind::Driver, asked, reasons, names.fix);
}

// Fills one entry of the table; remembers the first symbol that is missing.
struct Resolver {
  void* handle;
  const char* missing = nullptr;

  template <class Function>
  void operator()(Function& entry, const char* symbol) {
    entry = reinterpret_cast<Function>(::dlsym(handle, symbol));
    if (entry == nullptr && missing == nullptr) missing = symbol;
  }
};

const char* fill_hip(void* handle, DriverTable& table) {
  Resolver get{handle};
  get(table.init, "hipInit");
  get(table.device_count, "hipGetDeviceCount");
  get(table.version, "hipRuntimeGetVersion");
  get(table.device_properties, "hipGetDevicePropertiesR0600");
  get(table.get_device, "hipGetDevice");
  get(table.set_device, "hipSetDevice");
  get(table.error_name, "hipGetErrorName");
  get(table.module_load_data, "hipModuleLoadData");
  get(table.module_get_function, "hipModuleGetFunction");
  get(table.launch, "hipModuleLaunchKernel");
  get(table.stream_is_capturing, "hipStreamIsCapturing");
  get(table.malloc_async, "hipMallocAsync");
  get(table.free_async, "hipFreeAsync");
  return get.missing;
}

const char* fill_cuda(void* handle, DriverTable& table) {
  Resolver get{handle};
  get(table.init, "cuInit");
  get(table.device_count, "cuDeviceGetCount");
  get(table.version, "cuDriverGetVersion");
  get(table.error_name_into, "cuGetErrorName");
  get(table.device_get, "cuDeviceGet");
  get(table.device_name, "cuDeviceGetName");
  get(table.device_attribute, "cuDeviceGetAttribute");
  get(table.device_memory, "cuDeviceTotalMem_v2");
  get(table.primary_context_retain, "cuDevicePrimaryCtxRetain");
  get(table.context_get, "cuCtxGetCurrent");
  get(table.context_set, "cuCtxSetCurrent");
  get(table.context_push, "cuCtxPushCurrent_v2");
  get(table.context_pop, "cuCtxPopCurrent_v2");
  get(table.module_load_data, "cuModuleLoadData");
  get(table.module_get_function, "cuModuleGetFunction");
  get(table.launch, "cuLaunchKernel");
  get(table.function_set_attribute, "cuFuncSetAttribute");
  get(table.stream_is_capturing, "cuStreamIsCapturing");
  get(table.malloc_async, "cuMemAllocAsync");
  get(table.free_async, "cuMemFreeAsync");
  return get.missing;
}

// "No GPU" has the number 100 in both APIs.
constexpr int kNoDevice = 100;

bool initialise(Driver& driver, std::size_t vendor, Error& error) {
  const std::string asked = cat("start the ", kVendors[vendor], " driver");
  const char* missing =
      driver.is_hip() ? fill_hip(handles[vendor], driver.table) : fill_cuda(handles[vendor], driver.table);
  if (missing != nullptr) {
    return error.set(
        ErrorKind::Driver, asked, cat(driver.path, " has no ", missing),
        driver.is_hip() ? "It is older than HIP 6.0: update ROCm" : "It is older than CUDA 11.2: update the driver");
  }
  if (const int code = driver.table.init(0); code != 0 && code != kNoDevice) {
    return driver.fail(ErrorKind::Driver, asked, "Init", code, error);
  }
  if (const int code = driver.table.device_count(&driver.devices); code != 0) {
    if (code != kNoDevice) return driver.fail(ErrorKind::Driver, asked, "GetDeviceCount", code, error);
    driver.devices = 0;
  }
  if (const int code = driver.table.version(&driver.version); code != 0) {
    return driver.fail(ErrorKind::Driver, asked, "GetVersion", code, error);
  }
  return true;
}

// A thread that is opening holds open_mutex, and nobody in the child would ever give it back.
void after_fork_in_child() {
  if (any_opened.load(std::memory_order_relaxed) || threads_opening.load(std::memory_order_relaxed) != 0)
    is_forked_child.store(true, std::memory_order_relaxed);
}

LaunchFunction launch_that_waits = nullptr;

// Kernels of several devices wait for each other, and here each launch lasts until its kernel ends: another Python thread
// must be able to launch meanwhile. The arguments are copied first, since they are written in place under the GIL.
int launch_unlocked(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                    unsigned block_y, unsigned block_z, unsigned lds_bytes, void* stream, void** params, void** extra) {
  const auto* bytes = static_cast<const std::uint8_t*>(extra[1]);
  std::vector<std::uint8_t> arguments;
  arguments.reserve(64);  // never null, even for kernels without arguments
  arguments.assign(bytes, bytes + *static_cast<const std::size_t*>(extra[3]));
  void* copied[] = {extra[0], arguments.data(), extra[2], extra[3], extra[4]};
  const py::GilRelease released;
  return launch_that_waits(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, lds_bytes, stream, params,
                           copied);
}

// The embedded device (`csrc/emulator`) is the one driver whose launches wait.
void note_waiting(Driver& driver, void* handle) {
  if (driver.devices < 2 || ::dlsym(handle, "apb_emulator_version") == nullptr) return;
  driver.waits = true;
  launch_that_waits = driver.table.launch;
  driver.table.launch = launch_unlocked;
}

struct Opening {
  Opening() {
    if (!fork_watched.exchange(true)) ::pthread_atfork(nullptr, nullptr, after_fork_in_child);
    threads_opening.fetch_add(1, std::memory_order_relaxed);
  }
  ~Opening() { threads_opening.fetch_sub(1, std::memory_order_relaxed); }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;
};

// Does this HIP runtime know the memory? Since HIP 6 the answer about other memory is a success without a device pointer.
bool knows_memory(const std::string& path, std::uint64_t address) {
  constexpr std::size_t kFactsBytes = 256;   // more than hipPointerAttribute_t has
  constexpr std::size_t kDevicePointer = 8;  // behind the type and the device, since HIP 1
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  using Ask = int (*)(void*, const void*);
  const auto ask = reinterpret_cast<Ask>(::dlsym(handle, "hipPointerGetAttributes"));
  alignas(16) std::array<unsigned char, kFactsBytes> facts{};
  bool known = ask != nullptr && ask(facts.data(), reinterpret_cast<const void*>(address)) == 0;
  void* pointer = nullptr;
  std::memcpy(&pointer, facts.data() + kDevicePointer, sizeof(pointer));
  known = known && pointer != nullptr;
  ::dlclose(handle);
  return known;
}

int count_loads(dl_phdr_info* info, std::size_t, void* context) {
  *static_cast<std::uint64_t*>(context) = info->dlpi_adds + info->dlpi_subs;
  return 1;  // every entry has the same counts
}

// Is there more than one HIP runtime in this process?
bool several_runtimes() {
  static std::atomic<std::uint64_t> asked_at{0};
  static std::atomic<bool> several{false};
  std::uint64_t loads = 0;
  ::dl_iterate_phdr(count_loads, &loads);
  if (loads != asked_at.load(std::memory_order_acquire)) {
    several.store(loaded_libraries(kNames[0].stem).size() > 1, std::memory_order_relaxed);
    asked_at.store(loads, std::memory_order_release);
  }
  return several.load(std::memory_order_relaxed);
}

}  // namespace

std::string runtime_elsewhere(const Driver& driver, std::uint64_t address) {
  if (!driver.is_hip() || !several_runtimes() || knows_memory(driver.path, address)) return {};
  const std::string mine = real_path(driver.path);
  for (const std::string& path : loaded_libraries(kNames[0].stem)) {
    if (real_path(path) != mine && knows_memory(path, address)) return path;
  }
  return {};
}

Driver* opened_driver(Vendor vendor) {
  return ready_drivers[static_cast<std::size_t>(vendor)].load(std::memory_order_acquire);
}

bool forked_after_open() { return is_forked_child.load(std::memory_order_relaxed); }

bool fork_error(std::string asked, Error& error) {
  return error.set(ErrorKind::Fork, std::move(asked), "this process is a fork of one that had opened the GPU driver",
                   "Start workers with the 'spawn' method, or fork before the first GPU call");
}

Driver* open_driver(Vendor vendor, const std::string& path, Error& error) {
  const auto index = static_cast<std::size_t>(vendor);
  if (forked_after_open()) {
    fork_error(cat("open the ", kVendors[index], " driver"), error);
    return nullptr;
  }
  const Opening opening;
  const std::lock_guard lock(open_mutex);
  if (Driver* ready = opened_driver(vendor)) {
    if (path.empty() || real_path(path) == real_path(ready->path)) return ready;
    error.set(ErrorKind::Driver, cat("open ", path), cat("this process already uses ", ready->path),
              "Two runtimes in one process corrupt each other: name no path");
    return nullptr;
  }
  if (handles[index] == nullptr && !open_library(index, path, error)) return nullptr;
  any_opened.store(true, std::memory_order_relaxed);
  auto* driver = new Driver(vendor);
  driver->path = handle_paths[index];
  if (!initialise(*driver, index, error)) {
    delete driver;
    return nullptr;
  }
  note_waiting(*driver, handles[index]);
  ready_drivers[index].store(driver, std::memory_order_release);  // never freed: launches may come from any thread
  return driver;
}

}  // namespace apb
