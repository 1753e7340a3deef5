#include "machine/schedule/watch.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "execute/memory_lanes.h"

namespace apb::emu {
namespace {

constexpr std::uint64_t kFirstWindow = 128;  // rounds without a store, of 16 instructions for each wave
constexpr std::uint64_t kLastWindow = 1u << 13;
constexpr std::uint32_t kShortest = 8, kLongest = 64;  // half a window, in rounds
constexpr std::size_t kMostRanges = 128, kMostBytes = 8192;
constexpr std::uint64_t kMostSpan = 1024;         // of the lanes of one load that are looked at as one range
constexpr std::uint64_t kNoAddress = 1ull << 20;  // below lie offsets in scratch, which is the wave's own

// A load that asks for more than the nearest cache has, or an atomic: what a loop that waits for somebody else must use.
bool is_poll(const Instruction& i) {
  if (i.category == Category::Atomic) return true;
  return (i.category == Category::VmemLoad || i.category == Category::Smem) && (i.sc0 || i.sc1 || i.glc);
}

// Device memory, as waves read it: others may store there meanwhile.
bool same(std::uint64_t address, const std::uint8_t* before, std::uint32_t bytes) {
  std::uint32_t i = 0;
  for (; i + 4 <= bytes; i += 4) {
    std::uint32_t was = 0;
    std::memcpy(&was, before + i, sizeof was);
    if (read_host<std::uint32_t>(address + i) != was) return false;
  }
  for (; i < bytes; ++i)
    if (read_host<std::uint8_t>(address + i) != before[i]) return false;
  return true;
}

}  // namespace

void Watch::open() {
  bytes_.clear();
  copy_.clear();
  length_ = std::clamp(length_ * 2, kShortest, kLongest);
  left_ = length_;
  reads_ = 0;
  second_ = fresh_ = full_ = polls_ = false;
}

void Watch::close(std::uint64_t next) {
  left_ = 0;
  next_ = next;
}

void Watch::forget(bool in_vain) {
  first_ = in_vain ? std::min(first_ * 4, kLastWindow) : kFirstWindow;
  close(first_);
  length_ = 0;
  still_ = 0;
}

Watch::Finding Watch::round(std::uint64_t stored, bool seems) {
  if (stored != stored_) {
    stored_ = stored;
    still_ = 0;
    length_ = 0;
    close(first_);
    return Finding::Nothing;
  }
  ++still_;
  if (!records()) {
    if (seems || still_ >= next_) open();
    return Finding::Nothing;
  }
  const bool failed = full_ || (second_ && fresh_);
  if (!failed && --left_ != 0) return Finding::Nothing;
  if (!failed && !second_) {
    second_ = true;
    fresh_ = false;
    reads_ = 0;
    left_ = length_;
    return Finding::Nothing;
  }
  close(still_ * 4);
  if (!failed && reads_ != 0 && (seems || polls_)) return Finding::Waits;
  return Finding::Fails;
}

bool Watch::changed() const {
  return std::ranges::any_of(bytes_,
                             [this](const Bytes& one) { return !same(one.address, copy_.data() + one.at, one.count); });
}

void Watch::note(std::uint64_t address, std::uint32_t bytes) {
  if (address < kNoAddress || full_) return;
  ++reads_;
  for (const Bytes& one : bytes_) {
    if (address < one.address || address + bytes > one.end()) continue;
    if (!same(address, copy_.data() + one.at + (address - one.address), bytes)) full_ = true;  // it moves: no waiting
    return;
  }
  fresh_ = true;
  if (bytes_.size() == kMostRanges || copy_.size() + bytes > kMostBytes) {
    full_ = true;
    return;
  }
  const auto at = static_cast<std::uint32_t>(copy_.size());
  for (std::uint32_t i = 0; i < bytes; ++i) copy_.push_back(read_host<std::uint8_t>(address + i));
  if (!bytes_.empty() && bytes_.back().end() == address)
    bytes_.back().count += bytes;
  else
    bytes_.push_back({address, bytes, at});
}

void Watch::before(Wave& wave, const Instruction& instruction) {
  if (is_poll(instruction)) polls_ = true;
  if (Observer* other = under(wave)) other->before(wave, instruction);
}

void Watch::after(Wave& wave, const Instruction& instruction) {
  if (Observer* other = under(wave)) other->after(wave, instruction);
}

void Watch::lds_read(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) {
  if (Observer* other = under(wave)) other->lds_read(wave, lane, address, bytes);
}
void Watch::lds_write(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) {
  if (Observer* other = under(wave)) other->lds_write(wave, lane, address, bytes);
}
void Watch::lds_atomic(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) {
  if (Observer* other = under(wave)) other->lds_atomic(wave, lane, address, bytes);
}
void Watch::lds_lanes(Wave& wave, LdsAccess access, const std::uint32_t* address, std::uint64_t active,
                      std::uint32_t bytes) {
  if (Observer* other = under(wave)) other->lds_lanes(wave, access, address, active, bytes);
}

void Watch::global(Wave& wave, int lane, std::uint64_t address, std::uint32_t bytes) {
  note(address, bytes);
  if (Observer* other = under(wave)) other->global(wave, lane, address, bytes);
}

void Watch::global_lanes(Wave& wave, const std::uint64_t* address, std::uint64_t active, std::uint32_t bytes) {
  std::uint64_t low = UINT64_MAX, high = 0;
  for (std::uint64_t rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    low = std::min(low, address[lane]);
    high = std::max(high, address[lane]);
  }
  const std::uint64_t span = high - low + bytes;
  if (active != 0 && span <= kMostSpan && wave.recent.holds(low, span)) {
    note(low, static_cast<std::uint32_t>(span));
  } else {
    for (std::uint64_t rest = active; rest != 0 && !full_; rest &= rest - 1)
      note(address[std::countr_zero(rest)], bytes);
  }
  if (Observer* other = under(wave)) other->global_lanes(wave, address, active, bytes);
}

}  // namespace apb::emu
