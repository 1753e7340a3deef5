#include "machine/memory/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "machine/memory/page.h"

namespace apb::emu {
namespace {

constexpr std::uint64_t kSmallAlignment = 256;      // what hipMalloc guarantees at least
constexpr std::uint64_t kCommitStep = 64ull << 20;  // one mprotect per 64 MiB, not one per allocation
constexpr std::uint64_t kMostResting =
    1ull << 30;  // address space, not memory: pages of freed blocks are given back at once
constexpr std::uint64_t kMostRestingBlocks = 8192;

}  // namespace

void zero_pages(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t end = address + bytes;
  const std::uint64_t first = round_up(address, kPage), last = end / kPage * kPage;
  if (last <= first || ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED) != 0) {
    std::memset(reinterpret_cast<void*>(address), 0, bytes);
    return;
  }
  std::memset(reinterpret_cast<void*>(address), 0, first - address);
  std::memset(reinterpret_cast<void*>(last), 0, end - last);
}

std::uint64_t Arena::alignment_of(std::uint64_t bytes) const {
  return whole_pages_ || bytes >= kPage ? kPage : kSmallAlignment;
}

// The span of an allocation: itself and an unused gap, so that running past its end does not run into a neighbour.
std::uint64_t Arena::span_of(std::uint64_t bytes) const {
  return round_up(bytes, alignment_of(bytes)) + alignment_of(bytes);
}

bool Arena::reserve() {
  if (reserved_) return true;
  // Four times the limit: room for gaps, resting blocks and fragments. Less where the process's address space is
  // limited.
  for (std::uint64_t size = round_up(limit_ * 4 + (1ull << 26), kPage); size >= kPage;
       size = size / 2 / kPage * kPage) {
    void* at = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) continue;
    ::madvise(at, size, MADV_DONTDUMP);  // a core file of a Python process need not hold 64 GiB of holes
    base_ = top_ = committed_ = reinterpret_cast<std::uint64_t>(at);
    reserved_ = size;
    return true;
  }
  return false;
}

bool Arena::commit(std::uint64_t end) {
  if (end <= committed_) return true;
  const std::uint64_t target = std::min(round_up(end - base_, kCommitStep), reserved_) + base_;
  if (target < end) return false;
  if (::mprotect(reinterpret_cast<void*>(committed_), target - committed_, PROT_READ | PROT_WRITE) != 0) return false;
  committed_ = target;
  return true;
}

// Best fit: the smallest free block that holds the span after alignment.
std::uint64_t Arena::take_free(std::uint64_t span, std::uint64_t alignment) {
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const std::uint64_t at = round_up(it->first, alignment);
    if (at + span > it->first + it->second) continue;
    if (best == free_.end() || it->second < best->second) best = it;
    if (best->second == span) break;
  }
  if (best == free_.end()) return 0;
  const auto [begin, size] = *best;
  free_.erase(best);
  const std::uint64_t at = round_up(begin, alignment);
  if (at > begin) free_.emplace(begin, at - begin);
  if (begin + size > at + span) free_.emplace(at + span, begin + size - at - span);
  return at;
}

std::uint64_t Arena::take_fresh(std::uint64_t span, std::uint64_t alignment) {
  const std::uint64_t at = round_up(top_, alignment);
  if (at + span > base_ + reserved_ || !commit(at + span)) return 0;
  if (at > top_) put_back({top_, at - top_});
  top_ = at + span;
  return at;
}

std::uint64_t Arena::allocate(std::uint64_t bytes) {
  if (bytes == 0 || bytes > limit_ || used_ + bytes > limit_) return 0;
  const std::uint64_t at = borrow(bytes);
  if (at) used_ += bytes;
  return at;
}

std::uint64_t Arena::borrow(std::uint64_t bytes) {
  if (!reserve()) return 0;
  const std::uint64_t span = span_of(bytes), alignment = alignment_of(bytes);
  std::uint64_t at = take_free(span, alignment);
  if (!at) at = take_fresh(span, alignment);
  if (!at) {
    flush_resting(0);
    at = take_free(span, alignment);
  }
  return at;
}

void Arena::release(std::uint64_t address, std::uint64_t bytes) {
  used_ -= bytes;
  // Page aligned: gives all its pages back.
  if (alignment_of(bytes) == kPage) zero_pages(address, round_up(bytes, kPage));
  give_back(address, bytes);
}

void Arena::give_back(std::uint64_t address, std::uint64_t bytes) {
  const Block block{address, span_of(bytes)};
  resting_.push_back(block);
  resting_bytes_ += block.span;
  flush_resting(std::min(kMostResting, limit_));
}

void Arena::flush_resting(std::uint64_t keep) {
  while (!resting_.empty() && (resting_bytes_ > keep || resting_.size() > (keep ? kMostRestingBlocks : 0))) {
    resting_bytes_ -= resting_.front().span;
    put_back(resting_.front());
    resting_.pop_front();
  }
}

void Arena::put_back(Block block) {
  auto next = free_.lower_bound(block.address);
  if (next != free_.end() && block.address + block.span == next->first) {
    block.span += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == block.address) {
      previous->second += block.span;
      return;
    }
  }
  free_.emplace(block.address, block.span);
}

}  // namespace apb::emu
