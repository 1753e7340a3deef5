#include "machine/profile/sectors.h"

#include <bit>

namespace apb::emu {
namespace {

constexpr std::uint64_t kEvery2 = 0x5555'5555'5555'5555, kEvery4 = 0x1111'1111'1111'1111;

std::uint64_t ones(std::uint64_t word) { return static_cast<std::uint64_t>(std::popcount(word)); }

}  // namespace

void SectorSet::find(std::uint64_t page) {
  std::unique_ptr<Page>& at = pages_[page];
  if (!at) at = std::make_unique<Page>();
  last_ = at.get();
  last_page_ = page;
}

bool SectorSet::has_line(std::uint64_t sector) {
  const std::uint64_t page = sector >> kPageShift;
  if (last_ == nullptr || page != last_page_) {
    const auto at = pages_.find(page);
    if (at == pages_.end()) return false;
    last_ = at->second.get();
    last_page_ = page;
  }
  return ((*last_)[sector / 64 % kWords] >> (sector % 64 & ~3u) & 15) != 0;
}

void SectorSet::merge(const SectorSet& more) {
  for (const auto& [page, from] : more.pages_) {
    find(page);
    for (std::size_t i = 0; i < kWords; ++i) (*last_)[i] |= (*from)[i];
  }
}

SectorCount SectorSet::count() const {
  SectorCount sum;
  for (const auto& [page, words] : pages_) {
    for (const std::uint64_t word : *words) {
      if (word == 0) continue;
      const std::uint64_t halves = (word | word >> 1) & kEvery2;
      sum.sectors += ones(word);
      sum.halves += ones(halves);
      sum.whole += ones(word & word >> 1 & kEvery2);
      sum.lines += ones((halves | halves >> 2) & kEvery4);
    }
  }
  return sum;
}

void SectorSet::clear() {
  pages_.clear();
  last_ = nullptr;
}

}  // namespace apb::emu
