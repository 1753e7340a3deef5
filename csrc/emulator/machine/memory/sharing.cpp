// Device memory that several processes have: given to others, taken from them, and what becomes of it when it is freed.
#include <utility>

#include "machine/memory/allocations_state.h"
#include "machine/memory/page.h"

namespace apb::emu {

// Shared pages become private zeros first: other processes keep the file, and whoever gets the address next must not meet
// them. Where the system has no mapping left, nobody gets it.
void AllocationsState::release(const Allocation& gone) {
  Arena* const from = arena(gone.device);
  if (const auto it = shared.find(gone.begin); it != shared.end()) {
    shared.erase(it);
    if (!map_private(gone.begin, round_up(gone.bytes, kPage))) return;
  }
  if (gone.kind == AllocationKind::Imported)
    from->give_back(gone.begin, gone.bytes);
  else
    from->release(gone.begin, gone.bytes);
}

std::uint64_t AllocationsState::imported(const SharedFile& file, int device) const {
  for (const auto& [begin, one] : shared) {
    const Allocation& at = live.at(begin);
    if (one.opened != 0 && at.device == device && one.file.same_as(file)) return begin;
  }
  return 0;
}

bool Allocations::share(std::uint64_t begin, FilePlace& out, std::string& problem) {
  AllocationsState& all = allocations_state();
  const std::lock_guard guard(all.mutex);
  const auto it = all.live.find(begin);
  if (it == all.live.end() || it->second.kind != AllocationKind::Device) {
    problem = "it is gone";
    return false;
  }
  auto known = all.shared.find(begin);
  if (known == all.shared.end()) {
    const std::uint64_t bytes = round_up(it->second.bytes, kPage);
    SharedFile file = SharedFile::create(kMemoryKind, bytes, problem);
    if (!file.valid()) return false;
    if (!move_into(file, begin, bytes)) {
      problem = "the system has no memory or no mapping left for a copy of it";
      return false;
    }
    known = all.shared.emplace(begin, Shared{std::move(file)}).first;
  }
  if (known->second.file.place(out)) return true;
  problem = "its descriptor was closed by the program";
  return false;
}

void* Allocations::import(SharedFile file, int device, std::uint64_t bytes) {
  AllocationsState& all = allocations_state();
  const std::lock_guard guard(all.mutex);
  if (const std::uint64_t known = all.imported(file, device)) {
    ++all.shared.at(known).opened;
    return reinterpret_cast<void*>(known);
  }
  Arena* const arena = all.arena(device);
  const std::uint64_t at = arena ? arena->borrow(bytes) : 0;
  if (!at) return nullptr;
  const std::uint64_t span = round_up(bytes, kPage);
  if (!map_shared(file, at, span)) {
    if (map_private(at, span)) arena->give_back(at, bytes);
    return nullptr;
  }
  all.live.emplace(at, Allocation{at, bytes, all.next_number++, AllocationKind::Imported, device, 0});
  all.shared.emplace(at, Shared{std::move(file), 1});
  all.snapshots.clear();
  return reinterpret_cast<void*>(at);
}

bool Allocations::close(std::uint64_t address) {
  AllocationsState& all = allocations_state();
  const std::lock_guard guard(all.mutex);
  const Allocation* around = all.around(address);
  if (!around || around->kind != AllocationKind::Imported) return false;
  const Allocation gone = *around;
  if (--all.shared.at(gone.begin).opened != 0) return true;
  all.release(gone);
  all.forget(all.live.find(gone.begin));
  return true;
}

}  // namespace apb::emu
