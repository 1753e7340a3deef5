// The state of Allocations, behind one lock: for the files that implement it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <shared_mutex>
#include <utility>

#include "machine/memory/allocations.h"
#include "machine/memory/arena.h"
#include "machine/memory/snapshot.h"

namespace apb::emu {

inline constexpr std::size_t kRememberedFrees = 4096;

// The file behind live device memory: of our own that other processes may map, or of theirs.
struct Shared {
  SharedFile file;
  unsigned opened = 0;  // by import()
};

struct AllocationsState {
  mutable std::shared_mutex mutex;
  std::map<std::uint64_t, Allocation> live;  // by begin; disjoint
  std::deque<Allocation> freed;              // youngest last
  std::map<int, std::unique_ptr<Arena>> arenas;
  std::set<std::pair<int, int>> peers;
  std::map<std::uint64_t, Shared> shared;  // by begin
  std::uint64_t next_number = 1;
  std::map<int, std::shared_ptr<const Snapshot>> snapshots;  // dropped when the list changes

  Arena* arena(int device);  // null: no such device

  const Allocation* around(std::uint64_t address) const {
    auto next = live.upper_bound(address);
    if (next == live.begin()) return nullptr;
    const Allocation& before = std::prev(next)->second;
    return address < before.end() || address == before.begin ? &before : nullptr;
  }

  bool overlaps(std::uint64_t begin, std::uint64_t end) const {
    auto next = live.lower_bound(begin);
    if (next != live.end() && next->first < end) return true;
    return next != live.begin() && std::prev(next)->second.end() > begin;
  }

  // The memory of an allocation is its arena's again.
  void release(const Allocation& gone);
  std::uint64_t imported(const SharedFile& file, int device) const;  // where it is open already; 0: nowhere

  void forget(std::map<std::uint64_t, Allocation>::iterator it) {
    freed.push_back(it->second);
    if (freed.size() > kRememberedFrees) freed.pop_front();
    live.erase(it);
    snapshots.clear();
  }
};

AllocationsState& allocations_state();

}  // namespace apb::emu
