#include "machine/timing/timing_trace.h"

#include <algorithm>
#include <bit>

namespace apb::emu {
namespace {

constexpr std::uint32_t kBank = 4;  // bytes

std::uint16_t narrow(std::size_t value) { return static_cast<std::uint16_t>(std::min<std::size_t>(value, UINT16_MAX)); }

// Lanes of a 16 byte read go in this order (H in timing_numbers.cpp); other accesses in the order of lanes.
constexpr int kReadOrder[32] = {0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15, 24, 25, 26, 27,
                                4, 5, 6, 7, 16, 17, 18, 19, 8,  9,  10, 11, 28, 29, 30, 31};

struct Phases {
  std::uint32_t lanes, banks;
};

Phases phases_of(const TimingNumbers& numbers, LdsAccess access, std::uint32_t bytes) {
  const bool wide = access == LdsAccess::Read && bytes > 8 && numbers.read_lanes_16 > 8;
  if (wide) return {bytes > 12 ? numbers.read_lanes_16 : 8, numbers.banks};
  return {bytes <= 4 ? 32u : bytes <= 8 ? 16u : 8u, 32};
}

}  // namespace

// The lanes of a phase are served at once when no bank has to give two different dwords; each dword more takes a cycle more.
LdsCost lds_cost(const TimingNumbers& numbers, LdsAccess access, const std::uint32_t* address, std::uint64_t active,
                 std::uint32_t bytes) {
  LdsCost cost;
  const Phases phases = phases_of(numbers, access, bytes);
  const bool reordered = access == LdsAccess::Read && bytes > 12;
  std::vector<std::uint32_t> dwords;
  std::array<std::uint32_t, 64> asked{};
  for (std::uint32_t first = 0; first < kLanes; first += phases.lanes) {
    dwords.clear();
    for (std::uint32_t k = first; k < first + phases.lanes; ++k) {
      const std::uint32_t lane = reordered ? static_cast<std::uint32_t>(kReadOrder[k % 32]) + k / 32 * 32 : k;
      if ((active >> lane & 1) == 0) continue;
      for (std::uint32_t b = 0; b < bytes; b += kBank) dwords.push_back((address[lane] + b) / kBank);
    }
    if (dwords.empty()) continue;
    std::sort(dwords.begin(), dwords.end());
    // Reads of the same dword are one; atomics on it are done one after the other.
    if (access != LdsAccess::Atomic) dwords.erase(std::unique(dwords.begin(), dwords.end()), dwords.end());
    asked.fill(0);
    for (const std::uint32_t dword : dwords) ++asked[dword % phases.banks];
    const std::uint32_t cycles = *std::max_element(asked.begin(), asked.end());
    cost.cycles += cycles;
    cost.conflicts += cycles - 1;
  }
  return cost;
}

VectorCache::VectorCache(const TimingNumbers& numbers)
    : sets_(numbers.cache_bytes / numbers.cache_line / kWays), ways_(std::size_t{sets_} * kWays) {}

void VectorCache::clear() { std::fill(ways_.begin(), ways_.end(), Way{}); }

bool VectorCache::hit(std::uint64_t line) {
  Way* const set = &ways_[line % sets_ * kWays];
  ++now_;
  Way* oldest = set;
  for (Way* way = set; way != set + kWays; ++way) {
    if (way->line == line) {
      way->used = now_;
      return true;
    }
    if (way->used < oldest->used) oldest = way;
  }
  *oldest = {line, now_};
  return false;
}

void StepRecorder::start(const Instruction& instruction) {
  step_ = {};
  step_.index = instruction.address / 4;
  round_ = {};
  sectors_.clear();
}

void StepRecorder::lds(LdsAccess access, const std::uint32_t* address, std::uint64_t active, std::uint32_t bytes) {
  const LdsCost cost = lds_cost(*numbers_, access, address, active, bytes);
  step_.lds = narrow(step_.lds + cost.cycles);
  step_.conflicts = narrow(step_.conflicts + cost.conflicts);
}

void StepRecorder::flush() {
  if (round_.active != 0) lds(round_.access, round_.address.data(), round_.active, round_.bytes);
  round_ = {};
}

void StepRecorder::lds(int lane, LdsAccess access, std::uint32_t address, std::uint32_t bytes) {
  const bool next = (round_.active >> lane & 1) != 0 || round_.bytes != bytes || round_.access != access;
  if (next) flush();
  round_.access = access;
  round_.bytes = bytes;
  round_.address[static_cast<std::size_t>(lane)] = address;
  round_.active |= std::uint64_t{1} << lane;
}

void StepRecorder::global(int lane, std::uint64_t address, std::uint32_t bytes) {
  if (lane < 0 || bytes == 0) return;  // scalar loads have a cache of their own
  step_.bytes += bytes;
  const std::uint64_t last = (address + bytes - 1) / numbers_->memory_line;
  for (std::uint64_t sector = address / numbers_->memory_line; sector <= last; ++sector)
    if (sectors_.empty() || sectors_.back() != sector) sectors_.push_back(sector);
}

void StepRecorder::global(const std::uint64_t* address, std::uint64_t active, std::uint32_t bytes) {
  for (std::uint64_t rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    global(lane, address[lane], bytes);
  }
}

TimingStep StepRecorder::finish(const Instruction& instruction, bool taken) {
  flush();
  step_.taken = taken;
  if (sectors_.empty()) return step_;
  std::sort(sectors_.begin(), sectors_.end());
  sectors_.erase(std::unique(sectors_.begin(), sectors_.end()), sectors_.end());
  // 16 lanes' addresses are taken a cycle, so that no access is shorter than that.
  step_.memory = narrow(std::max<std::size_t>(sectors_.size(), kLanes / 16));
  const std::uint32_t per_line = numbers_->cache_line / numbers_->memory_line;
  const bool load = instruction.category == Category::VmemLoad;
  std::uint64_t before = UINT64_MAX;
  for (const std::uint64_t sector : sectors_) {
    const std::uint64_t line = sector / per_line;
    if (line != before && (!load || !cache_->hit(line))) ++step_.missed;
    before = line;
  }
  return step_;
}

}  // namespace apb::emu
