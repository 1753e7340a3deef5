#include "tensors/views.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "errors.h"
#include "python_glue.h"

namespace apb {
namespace {

PyObject* item(PyObject* tuple, Py_ssize_t i) { return PyTuple_GetItem(tuple, i); }

bool read_order(PyObject* part, View& view) {
  std::int64_t rank = 0;
  if (PyTuple_Size(part) != 4 || !py::read_integer(item(part, 2), rank) || rank < 0 ||
      rank > static_cast<std::int64_t>(kMaxRank) || !py::has_flag(item(part, 3), py::kFlagTuple))
    return false;
  view.rank = static_cast<std::int32_t>(rank);
  const Py_ssize_t count = PyTuple_Size(item(part, 3));
  for (Py_ssize_t d = 0; d < count; ++d) {
    std::int64_t dim = 0;
    if (!py::read_integer(item(item(part, 3), d), dim) || dim < -1 || dim >= rank) return false;
    view.order.push_back(static_cast<int>(dim));
  }
  return static_cast<std::size_t>(count) <= kMaxRank;
}

bool read_bytes_of(PyObject* part, View& view) {
  std::string_view name;
  if (PyTuple_Size(part) != 3 || !py::read_text(item(part, 2), name)) return false;
  for (const DType& type : kDTypes) {
    if (name != type.name) continue;
    view.dtype = pack_dtype(type);
    return type.bits == 8;
  }
  return false;
}

bool read_view(PyObject* part, View& view) {
  std::string_view kind;
  std::int64_t place = 0;
  if (!py::has_flag(part, py::kFlagTuple) || PyTuple_Size(part) < 3 || !py::read_text(item(part, 0), kind) ||
      !py::read_integer(item(part, 1), place) || place < 0 || place >= static_cast<std::int64_t>(kMaxTensors))
    return false;
  view.tensor = static_cast<std::size_t>(place);
  if (kind == "order") return read_order(part, view);
  if (kind == "split") {
    view.kind = View::Kind::Split;
    return PyTuple_Size(part) == 3 && py::read_integer(item(part, 2), view.size) && view.size > 0;
  }
  view.kind = View::Kind::Bytes;
  return kind == "bytes" && read_bytes_of(part, view);
}

std::uint32_t byte_type() {
  for (const DType& type : kDTypes) {
    if (std::string_view(type.name) == "u8") return pack_dtype(type);
  }
  return 0;
}

}  // namespace

bool read_views(PyObject* tuple, std::vector<View>& out, std::string& problem) {
  if (!py::has_flag(tuple, py::kFlagTuple) || PyTuple_Size(tuple) > static_cast<Py_ssize_t>(kMostViews)) {
    problem = cat("views are a tuple of at most ", kMostViews);
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); ++i) {
    View view;
    if (!read_view(item(tuple, i), view)) {
      problem = cat("view ", i, R"( is none of ("order", place, rank, dims), ("split", place, size) and )",
                    R"(("bytes", place, type))");
      return false;
    }
    out.push_back(std::move(view));
  }
  return true;
}

void Viewing::apply(Call& call) {
  static const std::uint32_t bytes = byte_type();
  for (std::size_t i = 0; i < views_.size(); ++i) {
    const View& view = views_[i];
    if (view.tensor >= call.tensor_count || !call.tensors[view.tensor].given) continue;
    TensorArg& tensor = call.tensors[view.tensor];
    if (view.kind == View::Kind::Bytes) {
      if (tensor.dtype == view.dtype) tensor.dtype = bytes;
      continue;
    }
    if (call.rooms == nullptr) call.rooms = std::make_unique_for_overwrite<ViewRoom[]>(kMostViews);
    ViewRoom& room = call.rooms[i];
    if (view.kind == View::Kind::Order) {
      if (tensor.ndim != view.rank) continue;
      for (std::size_t d = 0; d < view.order.size(); ++d) {
        const int dim = view.order[d];
        room.shape[d] = dim < 0 ? 1 : tensor.shape[dim];
        room.strides[d] = dim < 0 ? 1 : tensor.strides[dim];
      }
      tensor.ndim = static_cast<std::int32_t>(view.order.size());
    } else {
      const std::int32_t last = tensor.ndim - 1;
      if (last < 0 || static_cast<std::size_t>(tensor.ndim) >= kMaxRank || tensor.shape[last] % view.size != 0)
        continue;
      std::copy_n(tensor.shape, last, room.shape.begin());
      std::copy_n(tensor.strides, last, room.strides.begin());
      const auto at = static_cast<std::size_t>(last);
      room.shape[at] = tensor.shape[last] / view.size;
      room.shape[at + 1] = view.size;
      room.strides[at + 1] = tensor.strides[last];
      if (__builtin_mul_overflow(tensor.strides[last], view.size, &room.strides[at])) continue;
      ++tensor.ndim;
    }
    tensor.shape = room.shape.data();
    tensor.strides = room.strides.data();
  }
}

}  // namespace apb
