// The list of what is alive, and the last that was freed.
#include "machine/memory/allocations.h"

#include <pthread.h>

#include <cstdio>
#include <ranges>
#include <utility>

#include "machine/memory/allocations_state.h"
#include "machine/settings/configuration.h"

namespace apb::emu {
namespace {

constexpr std::uint64_t kHostArena = 64ull << 30;

const char* kind_name(AllocationKind kind) {
  switch (kind) {
    case AllocationKind::Device: return "device memory";
    case AllocationKind::Host: return "host memory";
    case AllocationKind::Registered: return "registered host memory";
    case AllocationKind::Managed: return "managed memory";
    case AllocationKind::Code: return "code object";
    case AllocationKind::Pool: return "pool memory";
    case AllocationKind::Imported: return "another process's memory";
  }
  return "memory";
}

const char* ended(AllocationKind kind) {
  switch (kind) {
    case AllocationKind::Registered: return ", unregistered";
    case AllocationKind::Imported: return ", closed";
    default: return ", freed";
  }
}

// torch and HIP give memory out in pieces of 512 bytes; behind an allocation of an arena there is at least that much.
std::uint64_t last_reached(const Allocation& one) {
  constexpr std::uint64_t kPiece = 512;
  const bool ours = one.kind == AllocationKind::Device || one.kind == AllocationKind::Host ||
                    one.kind == AllocationKind::Managed || one.kind == AllocationKind::Pool;
  if (!ours || configuration().checks.level < CheckLevel::Permissive) return one.end();
  return one.begin + (one.bytes + kPiece - 1) / kPiece * kPiece;
}

}  // namespace

AllocationsState& allocations_state() {
  static AllocationsState* const only = [] {
    auto* made = new AllocationsState;  // never destroyed: worker threads use it until the process is gone
    // A child of fork() must find the lock open.
    pthread_atfork([] { allocations_state().mutex.lock(); }, [] { allocations_state().mutex.unlock(); },
                   [] { allocations_state().mutex.unlock(); });
    return made;
  }();
  return *only;
}

Arena* AllocationsState::arena(int device) {
  auto& slot = arenas[device];
  if (!slot) {
    const auto& devices = configuration().devices;
    if (device >= 0 && static_cast<std::size_t>(device) >= devices.size()) return nullptr;
    const bool host = device < 0;
    slot = std::make_unique<Arena>(host ? kHostArena : devices[static_cast<std::size_t>(device)].memory, !host);
  }
  return slot.get();
}

Allocations& Allocations::instance() {
  static Allocations only;
  return only;
}

void* Allocations::allocate(int device, std::uint64_t bytes, AllocationKind kind, unsigned flags) {
  AllocationsState& all = allocations_state();
  const std::lock_guard guard(all.mutex);
  Arena* arena = all.arena(device);
  const std::uint64_t at = arena ? arena->allocate(bytes) : 0;
  if (!at) return nullptr;
  all.live.emplace(at, Allocation{at, bytes, all.next_number++, kind, device, flags});
  all.snapshots.clear();
  return reinterpret_cast<void*>(at);
}

bool Allocations::free(void* address, AllocationKind kind_hint) {
  AllocationsState& all = allocations_state();
  const std::lock_guard guard(all.mutex);
  const auto it = all.live.find(reinterpret_cast<std::uint64_t>(address));
  if (it == all.live.end()) return false;
  const Allocation& found = it->second;
  // hipFree takes device, managed and pool memory alike; a code object or a registered range is never freed by address.
  const auto exact = [](AllocationKind kind) {
    return kind == AllocationKind::Code || kind == AllocationKind::Registered || kind == AllocationKind::Host ||
           kind == AllocationKind::Imported;
  };
  if ((exact(found.kind) || exact(kind_hint)) && found.kind != kind_hint) return false;
  if (found.kind == AllocationKind::Registered) return false;
  all.release(found);
  all.forget(it);
  return true;
}

bool Allocations::adopt(void* address, std::uint64_t bytes, unsigned flags) {
  AllocationsState& all = allocations_state();
  const std::lock_guard guard(all.mutex);
  const std::uint64_t begin = reinterpret_cast<std::uint64_t>(address);
  if (!address || bytes == 0 || begin + bytes < begin || all.overlaps(begin, begin + bytes)) return false;
  all.live.emplace(begin, Allocation{begin, bytes, all.next_number++, AllocationKind::Registered, -1, flags});
  all.snapshots.clear();
  return true;
}

bool Allocations::abandon(void* address) {
  AllocationsState& all = allocations_state();
  const std::lock_guard guard(all.mutex);
  const auto it = all.live.find(reinterpret_cast<std::uint64_t>(address));
  if (it == all.live.end() || it->second.kind != AllocationKind::Registered) return false;
  all.forget(it);
  return true;
}

bool Allocations::find(std::uint64_t address, Allocation& out) const {
  const AllocationsState& all = allocations_state();
  const std::shared_lock guard(all.mutex);
  const Allocation* found = all.around(address);
  if (found) out = *found;
  return found != nullptr;
}

std::uint64_t Allocations::used(int device) const {
  const AllocationsState& all = allocations_state();
  const std::shared_lock guard(all.mutex);
  const auto it = all.arenas.find(device);
  return it == all.arenas.end() || !it->second ? 0 : it->second->used();
}

bool Allocations::set_peer(int device, int peer, bool enabled) {
  AllocationsState& all = allocations_state();
  const std::lock_guard guard(all.mutex);
  all.snapshots.clear();
  return enabled ? all.peers.insert({device, peer}).second : all.peers.erase({device, peer}) != 0;
}

std::shared_ptr<const Memory> Allocations::snapshot(int device) const {
  AllocationsState& all = allocations_state();
  {
    const std::shared_lock guard(all.mutex);
    if (const auto it = all.snapshots.find(device); it != all.snapshots.end()) return it->second;
  }
  const std::lock_guard guard(all.mutex);
  auto& slot = all.snapshots[device];
  if (!slot) {
    std::vector<Range> ranges;
    ranges.reserve(all.live.size());
    for (const auto& [begin, allocation] : all.live) {
      const bool own =
          allocation.device < 0 || allocation.device == device || allocation.kind == AllocationKind::Managed;
      if (own || all.peers.contains({device, allocation.device})) ranges.push_back({begin, last_reached(allocation)});
    }
    slot = std::make_shared<const Snapshot>(device, std::move(ranges));
  }
  return slot;
}

void Allocations::describe(int device, std::uint64_t address, std::uint64_t bytes, char* text, std::size_t size) const {
  const AllocationsState& all = allocations_state();
  const std::shared_lock guard(all.mutex);
  const auto unsigned_long = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  const auto say = [&](const char* where, std::uint64_t distance, const Allocation& a, const char* suffix) {
    std::snprintf(text, size, "%llu bytes %s allocation %llu (%llu bytes of %s at 0x%llx)%s", unsigned_long(distance),
                  where, unsigned_long(a.number), unsigned_long(a.bytes), kind_name(a.kind), unsigned_long(a.begin),
                  suffix);
  };
  if (address < 65536) {  // nothing is ever mapped there (vm.mmap_min_addr)
    std::snprintf(text, size, "a null pointer%s", address ? " with an offset" : "");
    return;
  }
  if (const Allocation* around = all.around(address)) {
    const bool other = around->device >= 0 && around->device != device && around->kind != AllocationKind::Managed &&
                       !all.peers.contains({device, around->device});
    if (other) {
      say("inside", address - around->begin, *around, "");
      const std::size_t length = std::char_traits<char>::length(text);
      std::snprintf(text + length, size - length, ", which belongs to device %d: peer access is not enabled",
                    around->device);
    } else if (address + bytes > around->end()) {
      say("past the end of", address + bytes - around->end(), *around, "");
    } else {
      say("inside", address - around->begin, *around, ", allocated or enabled after the launch began");
    }
    return;
  }
  for (const auto& it : std::views::reverse(all.freed)) {
    if (address >= it.begin && address < it.end()) {
      say("inside", address - it.begin, it, ended(it.kind));
      return;
    }
  }
  const auto next = all.live.upper_bound(address);
  const Allocation* before = next == all.live.begin() ? nullptr : &std::prev(next)->second;
  const Allocation* after = next == all.live.end() ? nullptr : &next->second;
  constexpr std::uint64_t kNear = 1ull << 30;  // further away the neighbour explains nothing
  const std::uint64_t past = before ? address - before->end() : UINT64_MAX,
                      ahead = after ? after->begin - address : UINT64_MAX;
  if (before && past < kNear && past <= ahead)
    say("past the end of", past + bytes, *before, "");
  else if (after && ahead < kNear)
    say("before the start of", ahead, *after, "");
  else
    std::snprintf(text, size, "no allocation is near it");
}

}  // namespace apb::emu
