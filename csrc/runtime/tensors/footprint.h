// The byte range of a tensor, whatever the signature says. It finds layouts that no kernel here supports, and written tensors
// that share memory with themselves or with another tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bundle/operator_block.h"
#include "tensors/call.h"

namespace apb {

enum class LayoutProblem : std::uint8_t { None, Shape, NegativeStride, TooFar };

struct Footprint {
  std::uint64_t bytes = 0;  // from the first element's first byte to behind the last one's; 0 without elements
  std::size_t dim = 0;      // whose stride is the problem
};

// Bytes of one element of a type that a bundle knows.
constexpr std::uint64_t element_bytes(std::uint32_t dtype) { return ((dtype >> 8) & 0xff) * (dtype >> 16) / 8; }

// `tensor` has 0 to kMaxRank dims. Shape: a size below 0, or more elements than 64 bits count.
[[nodiscard]] LayoutProblem find_footprint(const TensorArg& tensor, Footprint& out);

// May two elements of a tensor with a footprint lie in the same place? Rows that are woven into each other count as that.
bool overlaps_itself(const TensorArg& tensor);

// A written tensor and another one of the call, whose bytes must not meet. Types, shapes and strides alone decide what stands
// here, so that it is found once for all calls with one memo key; at each call only the addresses are compared.
struct MemoryPair {
  std::uint64_t written_bytes;
  std::uint64_t other_bytes;
  std::uint16_t written;
  std::uint16_t other;
  bool in_place;  // the signature allows the other's memory, and the layouts are the same
};

// All pairs of a call that is bound. Any block of the operator will do: merging refuses those that differ in place.
std::vector<MemoryPair> find_pairs(const OperatorBlock& block, const Call& call);

// Do the two share a byte? For pairs whose spans meet: columns of one buffer may lie between each other's rows.
bool pair_overlaps(const MemoryPair& pair, const Call& call);

// The first pair that shares memory, or null.
inline const MemoryPair* find_overlap(std::span<const MemoryPair> pairs, const Call& call) {
  for (const MemoryPair& pair : pairs) {
    const std::uint64_t distance = call.tensors[pair.other].address - call.tensors[pair.written].address;
    const bool meet = (distance < pair.written_bytes) | (0 - distance < pair.other_bytes);
    if (meet && pair_overlaps(pair, call)) [[unlikely]]
      return &pair;
  }
  return nullptr;
}

}  // namespace apb
