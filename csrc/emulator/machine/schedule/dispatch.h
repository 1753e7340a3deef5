// One launch as its waves see it: arguments, packet, memory, and the numbers that registers start with.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "execute/wave.h"
#include "machine/observe/observers.h"
#include "machine/schedule/launch.h"

namespace apb::emu {

// hsa_kernel_dispatch_packet_t, HSA Runtime Specification 1.2, 2.9.6.
struct DispatchPacket {
  std::uint16_t header = 0, setup = 0;
  std::uint16_t workgroup_size[3] = {};
  std::uint16_t reserved0 = 0;
  std::uint32_t grid_size[3] = {};  // in work items
  std::uint32_t private_segment_size = 0, group_segment_size = 0;
  std::uint64_t kernel_object = 0, kernarg_address = 0, reserved1 = 0, completion_signal = 0;
};
static_assert(sizeof(DispatchPacket) == 64);

// The memory that waves may touch: the device's allocations and the launch's own segments.
class DispatchMemory : public Memory {
 public:
  // Bytes behind each segment that nothing else may occupy: an access there is explained by the segment.
  static constexpr std::uint64_t kReservedBehind = 256;
  void add(const char* name, std::uint64_t begin, std::uint64_t bytes) {
    own_.push_back({name, {begin, begin + bytes}});
  }
  bool find(std::uint64_t address, std::uint64_t bytes, Range& out) const override;
  void describe(std::uint64_t address, std::uint64_t bytes, char* text, std::size_t size) const override;

  std::shared_ptr<const Memory> device;
  int ordinal = 0;
  bool asks_host = false;  // the kernel names services of the host, and has null pointers for them

 private:
  struct Own {
    const char* name;
    Range range;
  };
  std::vector<Own> own_;
};

struct Dispatch {
  Dispatch() = default;
  Dispatch(const Dispatch&) = delete;  // kernarg_address points into it
  Dispatch& operator=(const Dispatch&) = delete;
  ~Dispatch() = default;

  const Kernel* kernel = nullptr;
  Dim3 grid, block, tail;
  std::uint32_t lds_bytes = 0, scratch_bytes = 0;  // of a workgroup; of a lane
  std::uint32_t lds_end = 0;  // what may be touched: all of it, or of the pieces that a card gives out
  std::uint32_t compute_units = 1, workgroups_per_unit = 1;  // at a time
  std::uint64_t workgroups = 0, waves = 0;                   // of the whole launch
  DispatchMemory memory;
  std::vector<std::uint8_t> kernarg_storage, printf_buffer;
  LaunchObservers observers;            // beside the checks
  std::unique_ptr<GridSync> grid_sync;  // null: no kernel that waits for its whole grid
  std::uint8_t* kernarg = nullptr;      // 64-byte aligned
  std::uint32_t kernarg_bytes = 0;
  alignas(64) DispatchPacket packet;
  std::uint8_t behind_packet[DispatchMemory::kReservedBehind] = {};

  std::uint32_t waves_per_workgroup() const { return (block.x * block.y * block.z + kLanes - 1) / kLanes; }
  // Work items of workgroup `id` per dimension: the block, or the tail for the last one.
  Dim3 block_of(const std::uint32_t (&id)[3]) const;
};

// Argument values and hidden ones in their places; false with `problem` when the explicit arguments are too short.
void fill_kernarg(const LaunchRequest& request, Dispatch& dispatch);

}  // namespace apb::emu
