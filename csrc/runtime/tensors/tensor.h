// From Python objects to TensorArg. The fast way is DLPack's C exchange API, looked up once per type; then, slower:
// raw-pointer tuples, objects like old torch tensors (data_ptr), objects with __dlpack__. The GIL is held.
//
// What this cannot see: a lazily negated or conjugated torch tensor (is_neg, is_conj) exports its memory as it is, and
// DLPack has no flag for it. Such views of real types come only from parts of complex tensors.
#pragma once

#include <memory>
#include <vector>

#include "errors.h"
#include "python_glue.h"
#include "tensors/call.h"
#include "tensors/gradient.h"

namespace apb {

// Objects that must live until the call ends. Empty, and free, for tensors that come through the exchange API.
struct CallStorage {
  std::vector<std::unique_ptr<std::int64_t[]>> arrays;
  std::vector<py::Ref> objects;
  bool read_only = false;          // what was read last says that it must not be written
  PyObject* torch_like = nullptr;  // borrowed: a tensor whose stream torch.cuda has to be asked for

  // Room for `count` numbers, alive as long as this.
  std::int64_t* array(std::size_t count);
  // The strides of dense memory, for tensors that come without.
  const std::int64_t* dense_strides(const std::int64_t* shape, std::int32_t ndim);
  // Replaces the tensor's shape and strides by copies.
  void copy_shape(DLTensor& tensor);  // a checked one
};

// Facts of a tensor type, looked up once. A kept type is kept alive.
struct TensorType {
  PyTypeObject* type = nullptr;
  const DLPackExchangeAPI* api = nullptr;  // null: a type without the exchange API
  GradientQuestion gradient;
};
extern TensorType hot_type;
// Valid until the next call.
const TensorType& find_tensor_type(PyTypeObject* type);

inline const TensorType& tensor_type(PyTypeObject* type) {
  return type == hot_type.type ? hot_type : find_tensor_type(type);
}

// The field alone, through a register. The exporter has only just stored it: a wider load over several stores, which is
// what the compiler makes of neighbouring fields, waits until they have all left the store buffer (5 ns per tensor).
template <class Field>
inline Field load_alone(const Field& field) {
  Field value = field;
  __asm__("" : "+r"(value));
  return value;
}

// False: strides are left out, or something is wrong; check_dlpack has the words. `ndim` is not looked at here: the memo
// knows no rank that is out of range.
inline bool fill_from_dlpack(const DLTensor& tensor, TensorArg& out) {
  const auto data = reinterpret_cast<std::uint64_t>(load_alone(tensor.data));
  out.address = data + (data == 0 ? 0 : load_alone(tensor.byte_offset));
  out.shape = load_alone(tensor.shape);
  out.strides = load_alone(tensor.strides);
  out.ndim = load_alone(tensor.ndim);
  const DLDataType& dtype = tensor.dtype;
  out.dtype = pack_dtype(load_alone(dtype.code), load_alone(dtype.bits), load_alone(dtype.lanes));
  out.device.device_type = load_alone(tensor.device.device_type);
  out.device.device_id = load_alone(tensor.device.device_id);
  out.given = true;
  return out.address >= data && ((out.shape != nullptr && out.strides != nullptr) || out.ndim == 0);
}

// The rank of a tensor that an exporter has not described.
inline constexpr std::int32_t kUntouched = -1;

// A blank tensor for an exporter to fill in. An exporter that reports success and fills in nothing is detected, and no other
// tensor's memory is used in its place.
inline DLTensor untouched_tensor() {
  DLTensor tensor = {.device = {kDLCPU, 0}};
  tensor.ndim = kUntouched;
  return tensor;
}

// The fast way alone: None, or a tensor whose type has the exchange API with explicit strides. False: take the other
// (a Python exception may be set; read_tensor meets it again).
inline bool read_tensor_fast(PyObject* object, TensorArg& out, CallContext& call) {
  if (py::is_none(object)) {
    out.given = false;
    return true;
  }
  const TensorType& type = tensor_type(py::type_of(object));
  const DLPackExchangeAPI* api = type.api;
  if (api == nullptr || api->dltensor_from_py_object_no_sync == nullptr) return false;
  if (call.gradients_matter && asks_gradient(type.gradient, object)) [[unlikely]] {
    if (PyErr_Occurred() != nullptr) return false;
    call.asks_gradient = true;
  }
  DLTensor tensor = untouched_tensor();  // without a shape and of a rank that is not 0: not taken as it is
  if (api->dltensor_from_py_object_no_sync(object, &tensor) != 0) return false;
  if (call.api == nullptr) call.api = api;
  return fill_from_dlpack(tensor, out);
}

// Checks an exporter's description: dims in range, sizes present, no offset that wraps around. An ArgumentKind error.
[[nodiscard]] bool check_dlpack(const DLTensor& tensor, Error& error);

// Every way. False with an ArgumentKind or ArgumentDevice error whose `asked` the caller fills in, no exception set; or with
// Raised, interrupted.
[[nodiscard]] bool read_tensor(PyObject* object, TensorArg& out, CallContext& call, CallStorage& storage, Error& error);

// Could `object` be meant as a tensor? For finding the device of a call whose signature is not known yet. False when
// interrupted.
bool looks_like_tensor(PyObject* object);

// The stream to launch on when the caller gave none: the current one of the first tensor's framework, else the default.
[[nodiscard]] bool current_stream(const CallContext& call, const CallStorage& storage, DLDevice device, void*& stream,
                                  Error& error);

}  // namespace apb
