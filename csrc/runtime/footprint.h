// Where the bytes of a tensor lie, whatever the signature says of it: layouts that no kernel here takes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call.h"

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

}  // namespace apb
