// Devices and threads: made once, at the first call.
#include "runtime.h"

#include "machine/profile/counters.h"
#include "machine/schedule/occupancy.h"
#include "machine/timing/timing.h"
#include "pool.h"
#include "stream.h"

namespace apb::emu::hip {
namespace {

std::vector<std::unique_ptr<Device>>* make_devices() {
  auto* made = new std::vector<std::unique_ptr<Device>>;
  for (const DeviceConfiguration& one : configuration().devices) {
    auto device = std::make_unique<Device>();
    device->ordinal = static_cast<int>(made->size());
    device->configuration = one;
    device->primary = std::make_shared<Context>(Context{device->ordinal, 0});
    table<Context>().add(device->primary);
    device->null_stream = std::make_shared<Stream>();
    device->null_stream->device = device->ordinal;
    device->null_stream->null = true;
    device->null_stream->id = next_stream_id();
    device->default_pool = std::make_shared<Pool>();
    device->default_pool->device = device->ordinal;
    table<Pool>().add(device->default_pool);
    device->pool = device->default_pool;
    made->push_back(std::move(device));
  }
  return made;
}

}  // namespace

std::uint32_t Device::lds_bytes() const { return lds_of_unit(configuration.target); }

const std::vector<std::unique_ptr<Device>>& devices() {
  static const std::vector<std::unique_ptr<Device>>* const only = make_devices();
  return *only;
}

Device* find_device(int ordinal) {
  const auto& all = devices();
  return ordinal >= 0 && static_cast<std::size_t>(ordinal) < all.size() ? all[static_cast<std::size_t>(ordinal)].get()
                                                                        : nullptr;
}

Device& current_device() { return *devices()[static_cast<std::size_t>(thread().device)]; }

hipError_t no_such_device(int ordinal) {
  return fail(hipErrorInvalidDevice, "device %d of %zu", ordinal, devices().size());
}

hipError_t start() {
  static const hipError_t result = [] {
    if (!configuration().problem.empty()) return fail(hipErrorInvalidValue, "%s", configuration().problem.c_str());
    write_counters_at_exit();
    write_timing_at_exit();
    return devices().empty() ? hipErrorNoDevice : hipSuccess;
  }();
  return result;
}

Thread& thread() {
  static thread_local Thread state;
  return state;
}

}  // namespace apb::emu::hip
