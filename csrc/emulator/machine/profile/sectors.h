// A set of touched memory sectors of 32 bytes, the smallest unit that L2 asks memory for.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace apb::emu {

inline constexpr unsigned kSectorShift = 5;

// Counts of a set, or of the sectors that were new in it.
struct SectorCount {
  std::uint64_t sectors = 0;  // of 32 bytes
  std::uint64_t halves = 0;   // of 64 bytes, with a sector in them
  std::uint64_t whole = 0;    // of 64 bytes, with both sectors
  std::uint64_t lines = 0;    // of 128 bytes, with a sector in them
  void add(const SectorCount& more) {
    sectors += more.sectors;
    halves += more.halves;
    whole += more.whole;
    lines += more.lines;
  }
};

class SectorSet {
 public:
  void add(std::uint64_t sector) {
    const std::uint64_t page = sector >> kPageShift;
    if (last_ == nullptr || page != last_page_) find(page);
    (*last_)[sector / 64 % kWords] |= std::uint64_t{1} << (sector % 64);
  }
  // Is a sector of its line of 128 bytes in it?
  bool has_line(std::uint64_t sector);
  void merge(const SectorSet& more);
  SectorCount count() const;
  void clear();

 private:
  static constexpr unsigned kPageShift = 12;  // 128 KiB of memory
  static constexpr std::size_t kWords = (std::size_t{1} << kPageShift) / 64;
  using Page = std::array<std::uint64_t, kWords>;

  void find(std::uint64_t page);

  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  Page* last_ = nullptr;
  std::uint64_t last_page_ = 0;
};

}  // namespace apb::emu
