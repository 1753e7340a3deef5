#include "machine/schedule/spin.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace apb::emu {
namespace {

constexpr std::uint64_t kQuiet = 32;  // rounds; a loop that computes writes sooner, or its registers differ

// Column by column, which the compiler does for many of them at once: these are up to 128 KiB.
void add_rows(std::uint32_t (&columns)[kLanes], const std::uint32_t* rows, std::uint32_t count) {
  for (std::uint32_t row = 0; row < count; ++row)
    for (int l = 0; l < kLanes; ++l) columns[l] = columns[l] * 0x9e3779b1 + rows[row * kLanes + l];
}

}  // namespace

SpinWatch::SpinWatch(const Kernel& kernel)
    : plain_rows_(std::min(kernel.vgprs, 256u)),
      accumulation_rows_(std::min(kernel.vgprs - std::min(kernel.accum_offset, kernel.vgprs), 256u)) {}

std::uint64_t SpinWatch::sum_of(const Wave& wave) const {
  std::uint32_t columns[kLanes] = {};
  add_rows(columns, wave.vector, plain_rows_);
  add_rows(columns, wave.vector + std::size_t{256} * kLanes, accumulation_rows_);
  std::uint64_t sum = 0;
  for (const std::uint32_t column : columns) sum = (sum ^ column) * 0x9e3779b97f4a7c15;
  return sum;
}

void SpinWatch::set(Mark& mark, const Wave& wave) const {
  mark.pc = wave.pc;
  mark.scc = wave.scc;
  std::ranges::copy(wave.scalar, mark.scalar);
  mark.vectors = Mark::Vectors::Unknown;
  mark.repeated = false;
}

// Vector registers are many: they are looked at when everything else has come back once, and not again before the next mark when
// they differ then (a loop over a row, whose counter is a vector).
bool SpinWatch::repeats(Mark& mark, const Wave& wave) const {
  if (mark.repeated) return true;
  if (mark.pc != wave.pc || mark.vectors == Mark::Vectors::Differ || mark.scc != wave.scc ||
      std::memcmp(mark.scalar, wave.scalar, sizeof mark.scalar) != 0)
    return false;
  const std::uint64_t sum = sum_of(wave);
  if (mark.vectors == Mark::Vectors::Unknown) {
    mark.vectors = Mark::Vectors::Known;
    mark.sum = sum;
    return false;
  }
  mark.repeated = mark.sum == sum;
  if (!mark.repeated) mark.vectors = Mark::Vectors::Differ;
  return mark.repeated;
}

bool SpinWatch::waits(std::span<const Wave> waves, std::span<const std::uint8_t> stands, std::uint64_t written) {
  if (written != written_) {
    written_ = written;
    quiet_ = 0;
    return false;
  }
  if (++quiet_ < kQuiet) return false;
  const auto runs = [&](std::size_t i) { return stands[i] == 0 && waves[i].stop != Stop::Ended; };
  if (std::has_single_bit(quiet_)) {
    marks_.resize(waves.size());
    for (std::size_t i = 0; i < waves.size(); ++i)
      if (runs(i)) set(marks_[i], waves[i]);
    return false;
  }
  bool all = true;
  for (std::size_t i = 0; i < waves.size(); ++i)
    if (runs(i) && !repeats(marks_[i], waves[i])) all = false;
  return all;
}

}  // namespace apb::emu
