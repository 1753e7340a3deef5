#include "tensors/footprint.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tensors/shape.h"

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

// The bytes that a tensor covers of each stretch of `pitch` bytes: its span without the dims that step whole stretches.
std::uint64_t covered(const TensorArg& tensor, std::uint64_t pitch) {
  std::uint64_t bytes = element_bytes(tensor.dtype);
  for (std::size_t d = 0; d < static_cast<std::size_t>(tensor.ndim); ++d) {
    const std::uint64_t step = static_cast<std::uint64_t>(tensor.strides[d]) * element_bytes(tensor.dtype);
    if (tensor.shape[d] > 1 && step % pitch != 0) bytes += step * static_cast<std::uint64_t>(tensor.shape[d] - 1);
  }
  return bytes;
}

// Do they lie side by side in each stretch of `pitch` bytes, as the halves of a row do?
bool side_by_side(const TensorArg& a, const TensorArg& b, std::uint64_t pitch) {
  const std::uint64_t from =
      b.address >= a.address ? (b.address - a.address) % pitch : (pitch - (a.address - b.address) % pitch) % pitch;
  return from >= covered(a, pitch) && from + covered(b, pitch) <= pitch;
}

// The same elements at the same places, leading dims taken as one.
bool same_layout(const layout::Tensor& spec, const TensorArg& a, const layout::Tensor& other, const TensorArg& b) {
  Shaped left;
  Shaped right;
  if (a.dtype != b.dtype || shape_tensor(a, spec.dims.count, spec.star != 0, left) != ShapeProblem::None ||
      shape_tensor(b, other.dims.count, other.star != 0, right) != ShapeProblem::None || left.count != right.count) {
    return false;
  }
  for (std::size_t d = 0; d < left.count; ++d) {
    if (left.size[d] != right.size[d] || (left.size[d] > 1 && left.stride[d] != right.stride[d])) return false;
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

bool overlaps_itself(const TensorArg& tensor) {
  std::array<std::pair<std::int64_t, std::int64_t>, kMaxRank> dims;  // stride, size
  std::size_t count = 0;
  for (std::size_t d = 0; d < static_cast<std::size_t>(tensor.ndim); ++d) {
    if (tensor.shape[d] == 0) return false;
    if (tensor.shape[d] > 1) dims[count++] = {tensor.strides[d], tensor.shape[d]};
  }
  std::sort(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count));
  std::int64_t reach = 0;  // of the dims with smaller strides; the footprint has shown that it fits
  for (std::size_t i = 0; i < count; ++i) {
    if (dims[i].first <= reach) return true;
    reach += dims[i].first * (dims[i].second - 1);
  }
  return false;
}

std::vector<MemoryPair> find_pairs(const OperatorBlock& block, const Call& call) {
  std::vector<MemoryPair> out;
  const auto specs = block.tensors();
  std::vector<std::uint64_t> bytes(specs.size(), 0);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    Footprint footprint;
    if (call.tensors[i].given && find_footprint(call.tensors[i], footprint) == LayoutProblem::None)
      bytes[i] = footprint.bytes;
  }
  const auto written = [&](std::size_t i) { return static_cast<Role>(specs[i].role) != Role::In; };
  for (std::size_t i = 0; i < specs.size(); ++i) {
    for (std::size_t j = 0; j < specs.size(); ++j) {
      if (i == j || !written(i) || (written(j) && j < i) || bytes[i] == 0 || bytes[j] == 0) continue;
      const bool in_place =
          specs[i].in_place == j + 1 && same_layout(specs[i], call.tensors[i], specs[j], call.tensors[j]);
      out.push_back({bytes[i], bytes[j], static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(j), in_place});
    }
  }
  return out;
}

bool pair_overlaps(const MemoryPair& pair, const Call& call) {
  const TensorArg& written = call.tensors[pair.written];
  const TensorArg& other = call.tensors[pair.other];
  if (pair.in_place && written.address == other.address) return false;
  for (const TensorArg* tensor : {&written, &other}) {
    for (std::size_t d = 0; d < static_cast<std::size_t>(tensor->ndim); ++d) {
      const std::uint64_t pitch = static_cast<std::uint64_t>(tensor->strides[d]) * element_bytes(tensor->dtype);
      if (tensor->shape[d] > 1 && pitch != 0 && side_by_side(written, other, pitch)) return false;
    }
  }
  return true;
}

}  // namespace apb
