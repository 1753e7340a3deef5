#include "footprint.h"

namespace apb {
namespace {

// Sizes that can be: none is negative, and their product fits. `empty` tensors have no elements.
bool possible_shape(const TensorArg& tensor, std::size_t rank, bool& empty) {
  empty = false;
  for (std::size_t d = 0; d < rank; ++d) {
    if (tensor.shape[d] < 0) return false;
    empty = empty || tensor.shape[d] == 0;
  }
  std::int64_t elements = 1;
  for (std::size_t d = 0; !empty && d < rank; ++d) {
    if (__builtin_mul_overflow(elements, tensor.shape[d], &elements)) return false;
  }
  return true;
}

}  // namespace

LayoutProblem find_footprint(const TensorArg& tensor, Footprint& out) {
  const auto rank = static_cast<std::size_t>(tensor.ndim);
  out = {};
  bool empty = false;
  if (!possible_shape(tensor, rank, empty)) return LayoutProblem::Shape;
  if (empty) return LayoutProblem::None;
  // Signed: programs and kernels compute offsets as signed numbers.
  std::int64_t last = 0;
  for (out.dim = 0; out.dim < rank; ++out.dim) {
    const std::int64_t size = tensor.shape[out.dim];
    const std::int64_t stride = tensor.strides[out.dim];
    if (size == 1) continue;  // its stride says nothing
    if (stride < 0) return LayoutProblem::NegativeStride;
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(stride, size - 1, &reach) || __builtin_add_overflow(last, reach, &last))
      return LayoutProblem::TooFar;
  }
  std::int64_t bytes = 0;
  const auto element = static_cast<std::int64_t>(element_bytes(tensor.dtype));
  if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, element, &bytes))
    return LayoutProblem::TooFar;
  out.bytes = static_cast<std::uint64_t>(bytes);
  return LayoutProblem::None;
}

}  // namespace apb
