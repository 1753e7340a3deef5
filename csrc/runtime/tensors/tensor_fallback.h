// The slow ways from a Python object to a TensorArg; tensor.cpp says when each is taken.
#pragma once

#include "tensors/tensor.h"

namespace apb {

bool has_attribute(PyObject* object, const char* name);
bool attribute_is_true(PyObject* object, const char* name);

// (address, dtype name, shape, strides or None, (vendor, ordinal))
[[nodiscard]] bool read_raw_tuple(PyObject* tuple, TensorArg& out, CallStorage& storage, Error& error);

// torch before 2.10: data_ptr(), shape, stride(), dtype, device.
[[nodiscard]] bool read_torch_like(PyObject* object, TensorArg& out, CallStorage& storage, Error& error);

// __dlpack_device__() and __dlpack__(): CuPy, JAX, NumPy (which is refused, being on the CPU).
[[nodiscard]] bool read_dlpack_object(PyObject* object, TensorArg& out, CallContext& call, CallStorage& storage,
                                      Error& error);

// torch.cuda.current_stream(ordinal).cuda_stream
[[nodiscard]] bool torch_stream(int ordinal, void*& stream, Error& error);

}  // namespace apb
