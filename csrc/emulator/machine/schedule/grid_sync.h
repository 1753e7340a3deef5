// The barrier of cooperative kernels: the memory behind hidden_multigrid_sync_arg, as __ockl_grid_sync and its kin read it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace apb::emu {

// One barrier: arrivals in the low bits, rounds above them.
struct SyncWords {
  std::uint32_t word[2] = {};
};

inline constexpr std::size_t kBehindSync = 256;  // as behind a dispatch's other segments

// The grids of one launch over several devices, as one of them sees them.
struct MultiGrid {
  SyncWords* words = nullptr;  // the same of all of them
  std::uint32_t number = 0, count = 0;
  std::uint64_t items_before = 0, items = 0;  // work items of the grids before it; of all
};

// struct mg_info of the device libraries, as HIP lays it out (to 7.2; `grids` is null and `count` 0 in a launch on one device).
struct GridSync {
  SyncWords* grids = nullptr;
  std::uint32_t number = 0, count = 0;
  std::uint64_t items_before = 0, items = 0;
  SyncWords own;
  std::uint32_t workgroups = 0;
  std::uint8_t behind[kBehindSync] = {};
};
static_assert(offsetof(GridSync, count) == 12 && offsetof(GridSync, items) == 24 && offsetof(GridSync, own) == 32 &&
              offsetof(GridSync, workgroups) == 40);

}  // namespace apb::emu
