#include "tensors/tensor.h"

#include <algorithm>
#include <cstdlib>

#include "tensors/tensor_fallback.h"

namespace apb {

TensorType hot_type;

namespace {

// Types in use at one time are few: torch.Tensor, Parameter, a wrapper or two. A program with more than these pays
// one attribute lookup per tensor for the rest.
constexpr std::size_t kCachedTypes = 32;
std::array<TensorType, kCachedTypes> cached_types;
std::size_t cached_count = 0;
TensorType passing_type;  // of a type beyond those
// A chain of exchange tables that is longer goes in circles.
constexpr int kMostTables = 16;

const DLPackExchangeAPI* look_up(PyTypeObject* type) {
  const py::Ref capsule(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__"));
  if (!capsule || PyCapsule_IsValid(capsule.get(), "dlpack_exchange_api") == 0) {
    py::clear_ordinary();
    return nullptr;
  }
  auto* header = static_cast<DLPackExchangeAPIHeader*>(PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
  // A newer major version has another layout; the exporter may chain an older table behind it.
  for (int tables = 0; header != nullptr && header->version.major != DLPACK_MAJOR_VERSION; ++tables)
    header = tables < kMostTables ? header->prev_api : nullptr;
  const auto* api = reinterpret_cast<const DLPackExchangeAPI*>(header);
  // A table that lacks what every call needs is none.
  const bool usable =
      api != nullptr && api->current_work_stream != nullptr &&
      (api->dltensor_from_py_object_no_sync != nullptr || api->managed_tensor_from_py_object_no_sync != nullptr);
  return usable ? api : nullptr;
}

// The text of __dlpack__'s exception, for an exporter that failed without one, or "succeeded" and described nothing. A Python
// callback that raises looks like that to C.
std::string export_text(PyObject* object) {
  constexpr const char* kSilent = "its exporter gave no description and no reason";
  const py::Ref method(PyObject_GetAttrString(object, "__dlpack__"));
  const py::Ref capsule(method ? PyObject_CallObject(method.get(), nullptr) : nullptr);
  if (method && !capsule) return py::take_exception_text();
  if (!method) py::clear_ordinary();
  return kSilent;
}

// Torch adds the frames of its C++ code.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// The exporter refused: it does for meta tensors, and for sparse ones.
bool refuse_export(PyObject* object, Error& error) {
  const std::string text = first_line(PyErr_Occurred() != nullptr ? py::take_exception_text() : export_text(object));
  if (attribute_is_true(object, "is_meta")) {
    return error.set(ErrorKind::ArgumentDevice, "", cat("is a meta tensor, which has no memory (", text, ")"),
                     "Pass a tensor with storage");
  }
  return error.set(ErrorKind::ArgumentKind, "", cat("cannot be exported by its framework: ", text),
                   "Pass a dense tensor on the GPU");
}

bool read_managed(PyObject* object, const DLPackExchangeAPI* api, DLTensor& tensor, CallStorage& storage,
                  Error& error) {
  DLManagedTensorVersioned* managed = nullptr;
  if (api->managed_tensor_from_py_object_no_sync(object, &managed) != 0 || managed == nullptr)
    return refuse_export(object, error);
  const bool known = managed->version.major == DLPACK_MAJOR_VERSION;
  bool good = false;
  if (known) {
    tensor = managed->dl_tensor;
    good = check_dlpack(tensor, error);
    if (good) storage.copy_shape(tensor);
    storage.read_only = (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  } else {
    error.set(ErrorKind::ArgumentKind, "",
              cat("comes from a framework with DLPack ", managed->version.major, "; version 1 is supported"),
              "Pass a tensor of a framework with DLPack 1");
  }
  // The caller's own reference keeps the memory alive, so that the managed tensor can go at once.
  if (managed->deleter != nullptr) managed->deleter(managed);
  return good;
}

bool read_through_api(PyObject* object, const DLPackExchangeAPI* api, TensorArg& out, CallContext& call,
                      CallStorage& storage, Error& error) {
  DLTensor tensor = untouched_tensor();
  if (api->dltensor_from_py_object_no_sync != nullptr) {
    if (api->dltensor_from_py_object_no_sync(object, &tensor) != 0 || tensor.ndim == kUntouched)
      return refuse_export(object, error);
    if (!check_dlpack(tensor, error)) return false;
  } else if (!read_managed(object, api, tensor, storage, error)) {
    return false;
  }
  if (call.api == nullptr) call.api = api;
  if (!fill_from_dlpack(tensor, out)) out.strides = storage.dense_strides(out.shape, out.ndim);
  return true;
}

}  // namespace

bool check_dlpack(const DLTensor& tensor, Error& error) {
  const auto wrong = [&](const std::string& found) {
    return error.set(ErrorKind::ArgumentKind, "", cat("has a wrong DLPack description: ", found),
                     "Pass a dense tensor on the GPU");
  };
  if (tensor.ndim < 0 || static_cast<std::size_t>(tensor.ndim) > kMaxRank)
    return wrong(cat("it has ", tensor.ndim, " dims, 0 to ", kMaxRank, " are taken"));
  if (tensor.shape == nullptr && tensor.ndim != 0) return wrong(cat("it has ", tensor.ndim, " dims and no shape"));
  const auto data = reinterpret_cast<std::uint64_t>(tensor.data);
  if (data + tensor.byte_offset < data)
    return wrong(cat("its byte_offset ", tensor.byte_offset, " leads out of the 64-bit addresses"));
  return true;
}

const TensorType& find_tensor_type(PyTypeObject* type) {
  for (std::size_t i = 0; i < cached_count; ++i) {
    if (cached_types[i].type == type) return cached_types[i];
  }
  TensorType found{type, look_up(type), {}};
  if (found.api != nullptr) found.gradient = find_gradient_question(type);
  const bool unanswered = py::interrupted();
  if (unanswered) found.api = nullptr;
  if (unanswered || cached_count == kCachedTypes) {
    std::swap(passing_type, found);
    if (found.gradient.descriptor != nullptr) Py_DecRef(found.gradient.descriptor);
    return passing_type;
  }
  Py_IncRef(reinterpret_cast<PyObject*>(type));
  cached_types[cached_count++] = found;
  if (hot_type.type == nullptr && found.api != nullptr) hot_type = found;
  return cached_types[cached_count - 1];
}

void CallStorage::copy_shape(DLTensor& tensor) {
  const auto rank = static_cast<std::size_t>(std::max(tensor.ndim, 0));
  const auto copy = [&](std::int64_t*& values) {
    if (values == nullptr) return;
    std::int64_t* kept = array(rank);
    std::copy_n(values, rank, kept);
    values = kept;
  };
  copy(tensor.shape);
  copy(tensor.strides);
}

std::int64_t* CallStorage::array(std::size_t count) {
  arrays.push_back(std::make_unique<std::int64_t[]>(count + 1));
  return arrays.back().get();
}

const std::int64_t* CallStorage::dense_strides(const std::int64_t* shape, std::int32_t ndim) {
  std::int64_t* strides = array(static_cast<std::size_t>(std::max(ndim, 0)));
  std::int64_t stride = 1;
  for (std::int32_t d = ndim; d-- > 0;) {
    strides[d] = stride;
    if (__builtin_mul_overflow(stride, shape[d] > 1 ? shape[d] : 1, &stride)) stride = 0;
  }
  return strides;
}

namespace {

bool read_any(PyObject* object, TensorArg& out, CallContext& call, CallStorage& storage, Error& error) {
  if (py::has_flag(object, py::kFlagTuple)) return read_raw_tuple(object, out, storage, error);
  if (const DLPackExchangeAPI* api = tensor_type(py::type_of(object)).api) {
    return read_through_api(object, api, out, call, storage, error);
  }
  if (has_attribute(object, "data_ptr")) return read_torch_like(object, out, storage, error);
  if (has_attribute(object, "__dlpack__")) return read_dlpack_object(object, out, call, storage, error);
  const py::Ref name(PyObject_GetAttrString(reinterpret_cast<PyObject*>(py::type_of(object)), "__name__"));
  std::string_view text = "?";
  if (!name || !py::read_text(name.get(), text)) py::clear_ordinary();
  return error.set(ErrorKind::ArgumentKind, "", cat("must be a tensor, got an object of type ", text),
                   "Pass a tensor, or (address, dtype, shape, strides, (vendor, ordinal))");
}

}  // namespace

bool read_tensor(PyObject* object, TensorArg& out, CallContext& call, CallStorage& storage, Error& error) {
  if (py::is_none(object)) {
    out.given = false;
    return true;
  }
  const bool read = read_any(object, out, call, storage, error);
  if (py::interrupted()) return error.set(ErrorKind::Raised, "", "", "");
  return read;
}

bool looks_like_tensor(PyObject* object) {
  return !py::is_none(object) &&
         (py::has_flag(object, py::kFlagTuple) || tensor_type(py::type_of(object)).api != nullptr ||
          has_attribute(object, "data_ptr") || has_attribute(object, "__dlpack__"));
}

bool current_stream(const CallContext& call, const CallStorage& storage, DLDevice device, void*& stream, Error& error) {
  stream = nullptr;
  if (call.api != nullptr) {
    if (call.api->current_work_stream(device.device_type, device.device_id, &stream) == 0) return true;
    return error.set(ErrorKind::ArgumentDevice, "get the current stream", py::take_exception_text(),
                     "Pass stream= explicitly");
  }
  return storage.torch_like == nullptr || torch_stream(device.device_id, stream, error);
}

}  // namespace apb
