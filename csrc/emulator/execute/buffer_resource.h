// The 128-bit buffer resource ("V#") of gfx9, and the addresses and range checks of the instructions that use one.
// Source: CDNA3 and CDNA4 ISA, 9.1.5 "Buffer Addressing" and 9.1.8 "Buffer Resource".
#pragma once

#include <array>

#include "memory_lanes.h"
#include "memory_operands.h"

namespace apb::emu {

struct BufferResource {
  std::uint64_t base;                  // 48 bits
  std::uint32_t stride;                // bytes of a record: 14 bits, or 18 where the lane number is added
  std::uint32_t records;               // bytes, or records when the access has an index
  bool swizzle, add_thread;            // add_thread: the lane number is part of the index; then swizzle counts
  std::uint32_t index_stride;          // 8, 16, 32, 64: so many records lie interleaved
  std::array<std::uint8_t, 4> select;  // of x, y, z, w: 0 zero, 1 one, 4..7 component x..w of the format
  std::uint8_t number_format, data_format;
  bool bound;  // false: reads are 0, writes are dropped

  // `words`: four SGPRs. `typed`: the instruction converts formats.
  static BufferResource decode(const std::uint32_t* words, bool typed);
};

// One access of all lanes: where each lane's first byte is, and whether a part of it is in range.
class BufferAccess {
 public:
  BufferAccess(const Wave& wave, const Instruction& instruction, const BufferOperands& operands, bool typed);

  const BufferResource& resource() const { return resource_; }
  // Is byte range [piece, piece + bytes) of the lane's access in range? Multi-dword accesses ask for every dword by
  // itself.
  bool in_range(int lane, std::uint32_t piece, std::uint32_t bytes) const {
    if (!resource_.bound) return false;
    if (check_ == Check::Index)  // the index of the VGPR alone
      return index_[lane] - (adds_lane_ ? static_cast<std::uint32_t>(lane) : 0) < resource_.records;
    return check_ == Check::None || offset_[lane] + scalar_offset_ + piece + bytes <= resource_.records;
  }
  std::uint64_t address(int lane, std::uint32_t piece) const {
    if (!resource_.swizzle) return linear_[lane] + piece;
    return swizzled(lane, piece);
  }
  // Lanes of `active` whose `bytes` are all in range and lie together from linear(): all of them, usually.
  std::uint64_t whole(std::uint64_t active, std::uint32_t bytes) const;
  const std::uint64_t* linear() const { return linear_; }

 private:
  enum class Check : std::uint8_t { Offset, Index, None };
  std::uint64_t swizzled(int lane, std::uint32_t piece) const;

  BufferResource resource_;
  Check check_;
  bool adds_lane_;
  std::uint64_t scalar_offset_;
  std::uint64_t start_;                       // base + SGPR offset
  alignas(64) std::uint64_t offset_[kLanes];  // VGPR offset + instruction offset, in 32 bits
  alignas(64) std::uint64_t linear_[kLanes];
  alignas(64) std::uint32_t index_[kLanes];
};

}  // namespace apb::emu
