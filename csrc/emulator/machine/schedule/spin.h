// Does a workgroup wait for somebody else? A wave that comes back to the same instruction with the same registers, while no wave of
// its workgroup has written anything, can only be let out by a store from outside: of another workgroup, another device, another
// process or the host. It is asked for when to run whom, never for what a kernel computes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "machine/load/code_object.h"

namespace apb::emu {

class SpinWatch {
 public:
  explicit SpinWatch(const Kernel& kernel);
  // Some wave has got further: ended, come to a barrier, been let in again.
  void moved() { quiet_ = 0; }
  // After a round of the waves. `stands`: per wave, at a barrier; `written`: bytes that the workgroup has written so far.
  bool waits(std::span<const Wave> waves, std::span<const std::uint8_t> stands, std::uint64_t written);

 private:
  // A wave as it was when the last mark was set.
  struct Mark {
    std::uint32_t pc = 0, scalar[sreg::kCount] = {};
    bool scc = false;
    enum class Vectors : std::uint8_t { Unknown, Known, Differ } vectors = Vectors::Unknown;
    bool repeated = false;
    std::uint64_t sum = 0;  // of the vector registers
  };
  void set(Mark& mark, const Wave& wave) const;
  bool repeats(Mark& mark, const Wave& wave) const;
  std::uint64_t sum_of(const Wave& wave) const;

  std::uint32_t plain_rows_, accumulation_rows_;
  std::vector<Mark> marks_;
  std::uint64_t quiet_ = 0, written_ = 0;  // rounds in which nothing was written
};

}  // namespace apb::emu
