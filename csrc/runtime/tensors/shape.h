// Shapes as a signature sees them: the leading dims of a starred tensor taken as one.
#pragma once

#include <array>
#include <cstdint>

#include "tensors/call.h"

namespace apb {

struct Shaped {
  std::array<std::int64_t, kMaxRank> size;
  std::array<std::int64_t, kMaxRank> stride;
  std::size_t count;
  bool empty;
};

enum class ShapeProblem : std::uint8_t { None, Rank, Impossible, NotCollapsible };

// `tensor` with `dims` dims; with `star` the first of them stands for all leading dims (none of them: size 1).
// A dim of size 0 or 1 gets the stride that dense memory would have, whatever the tensor says.
[[nodiscard]] ShapeProblem shape_tensor(const TensorArg& tensor, std::size_t dims, bool star, Shaped& out);

// The stride of `dim` in dense memory, given the dims to its right.
std::int64_t dense_stride(const Shaped& shaped, std::size_t dim);

// Dense in C order? Empty tensors are.
bool is_dense(const Shaped& shaped);

}  // namespace apb
