// The ranges that were alive when a launch began: what every access of its waves is checked against.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "execute/wave.h"

namespace apb::emu {

class Snapshot : public Memory {
 public:
  // `ranges`: sorted by begin, disjoint.
  Snapshot(int device, std::vector<Range> ranges) : device_(device), ranges_(std::move(ranges)) {}
  bool find(std::uint64_t address, std::uint64_t bytes, Range& out) const override;
  void describe(std::uint64_t address, std::uint64_t bytes, char* text, std::size_t size) const override;

 private:
  int device_;
  std::vector<Range> ranges_;
};

}  // namespace apb::emu
