// A reserved piece of address space that memory is handed out of. Not thread-safe: Allocations locks.
#pragma once

#include <cstdint>
#include <deque>
#include <map>

namespace apb::emu {

class Arena {
 public:
  // `bytes`: what may be alive at once. Nothing is reserved before the first allocation. `whole_pages`: no two allocations share
  // a page, so that each can be given to other processes alone.
  Arena(std::uint64_t bytes, bool whole_pages) : limit_(bytes), whole_pages_(whole_pages) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() = default;

  // 0 when `limit` is used up or the system has no address space or memory for it. The first allocation of a page reads
  // as zeros.
  std::uint64_t allocate(std::uint64_t bytes);
  // The address comes from allocate() with the same size. It rests before it is handed out again, so that a use after
  // free is seen.
  void release(std::uint64_t address, std::uint64_t bytes);
  // Addresses for memory that is another's: they count as nothing used.
  std::uint64_t borrow(std::uint64_t bytes);
  void give_back(std::uint64_t address, std::uint64_t bytes);
  std::uint64_t used() const { return used_; }

 private:
  struct Block {
    std::uint64_t address, span;
  };
  std::uint64_t alignment_of(std::uint64_t bytes) const;
  std::uint64_t span_of(std::uint64_t bytes) const;
  bool reserve();
  bool commit(std::uint64_t end);
  std::uint64_t take_free(std::uint64_t span, std::uint64_t alignment);
  std::uint64_t take_fresh(std::uint64_t span, std::uint64_t alignment);
  void put_back(Block block);
  void flush_resting(std::uint64_t keep);

  std::uint64_t limit_, used_ = 0;
  bool whole_pages_;
  std::uint64_t base_ = 0, reserved_ = 0, top_ = 0,
                committed_ = 0;                  // [base, top) has been handed out, [base, committed) is readable
  std::map<std::uint64_t, std::uint64_t> free_;  // address -> span, neighbours merged
  std::deque<Block> resting_;
  std::uint64_t resting_bytes_ = 0;
};

// Makes [address, address + bytes) read as zeros; whole pages are given back to the system instead of written.
void zero_pages(std::uint64_t address, std::uint64_t bytes);

}  // namespace apb::emu
