#include "tensors/shape.h"

namespace apb {
namespace {

ShapeProblem take_leading(const TensorArg& tensor, std::size_t leading, Shaped& out) {
  std::int64_t size = 1;
  std::int64_t stride = 0;
  std::int64_t expected = 0;  // stride that the next dim to the left must have
  bool seen = false;          // a dim whose stride counts
  for (std::size_t d = leading; d-- > 0;) {
    if (__builtin_mul_overflow(size, tensor.shape[d], &size)) return ShapeProblem::Impossible;
    if (tensor.shape[d] <= 1 || out.empty) continue;
    if (seen && tensor.strides[d] != expected) return ShapeProblem::NotCollapsible;
    if (!seen) stride = tensor.strides[d];
    seen = true;
    if (__builtin_mul_overflow(tensor.strides[d], tensor.shape[d], &expected)) return ShapeProblem::Impossible;
  }
  out.size[0] = size;
  out.stride[0] = seen ? stride : dense_stride(out, 0);
  return ShapeProblem::None;
}

}  // namespace

std::int64_t dense_stride(const Shaped& shaped, std::size_t dim) {
  if (dim + 1 >= shaped.count) return 1;
  const std::int64_t size = shaped.size[dim + 1] > 1 ? shaped.size[dim + 1] : 1;
  std::int64_t product = 0;
  return __builtin_mul_overflow(shaped.stride[dim + 1], size, &product) ? 0 : product;
}

bool is_dense(const Shaped& shaped) {
  if (shaped.empty) return true;
  for (std::size_t d = 0; d < shaped.count; ++d) {
    if (shaped.size[d] > 1 && shaped.stride[d] != dense_stride(shaped, d)) return false;
  }
  return true;
}

ShapeProblem shape_tensor(const TensorArg& tensor, std::size_t dims, bool star, Shaped& out) {
  const auto rank = static_cast<std::size_t>(tensor.ndim);
  if (tensor.ndim < 0 || rank > kMaxRank || (star ? rank + 1 < dims : rank != dims)) return ShapeProblem::Rank;
  out.count = dims;
  out.empty = false;
  for (std::size_t d = 0; d < rank; ++d) {
    if (tensor.shape[d] < 0) return ShapeProblem::Impossible;
    out.empty = out.empty || tensor.shape[d] == 0;
  }
  const std::size_t leading = star ? rank + 1 - dims : 0;
  for (std::size_t d = dims; d-- > (star ? 1u : 0u);) {
    const std::size_t from = star ? d - 1 + leading : d;
    out.size[d] = tensor.shape[from];
    out.stride[d] = out.size[d] > 1 ? tensor.strides[from] : dense_stride(out, d);
  }
  return star ? take_leading(tensor, leading, out) : ShapeProblem::None;
}

}  // namespace apb
