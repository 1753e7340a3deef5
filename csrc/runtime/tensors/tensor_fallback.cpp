#include "tensors/tensor_fallback.h"

namespace apb {
namespace {

constexpr const char* kRawFix = "Pass (address, dtype, shape, strides or None, (vendor, ordinal))";

bool not_a_tensor(std::string found, const char* fix, Error& error) {
  return error.set(ErrorKind::ArgumentKind, "", std::move(found), fix);
}

// Null with no exception set, or interrupted: then nothing more is asked.
py::Ref attribute(PyObject* object, const char* name) {
  if (py::interrupted()) return {};
  py::Ref value(PyObject_GetAttrString(object, name));
  if (!value) py::clear_ordinary();
  return value;
}

// object.name(), or null as attribute() gives it.
py::Ref call_method(PyObject* object, const char* name) {
  const py::Ref method = attribute(object, name);
  if (!method) return {};
  py::Ref value(PyObject_CallObject(method.get(), nullptr));
  if (!value) py::clear_ordinary();
  return value;
}

// A sequence of integers into storage; null when it is none or longer than any tensor here.
const std::int64_t* read_numbers(PyObject* sequence, CallStorage& storage, std::size_t& count) {
  const py::Ref items(PySequence_Tuple(sequence));
  if (!items) {
    py::clear_ordinary();
    return nullptr;
  }
  count = static_cast<std::size_t>(PyTuple_Size(items.get()));
  if (count > kMaxRank) return nullptr;
  std::int64_t* out = storage.array(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!py::read_integer(PyTuple_GetItem(items.get(), static_cast<Py_ssize_t>(i)), out[i])) return nullptr;
  }
  return out;
}

// By manifest name ("bf16") or torch name ("bfloat16"); false for neither.
bool dtype_of_name(std::string_view name, std::uint32_t& packed) {
  for (const DType& type : kDTypes) {
    if (name == type.name || name == type.torch) {
      packed = pack_dtype(type);
      return true;
    }
  }
  return false;
}

bool read_device(PyObject* object, DLDevice& device) {
  std::string_view vendor;
  if (!py::has_flag(object, py::kFlagTuple) || PyTuple_Size(object) != 2 ||
      !py::read_text(PyTuple_GetItem(object, 0), vendor) ||
      !py::read_ordinal(PyTuple_GetItem(object, 1), device.device_id)) {
    return false;
  }
  const bool amd = vendor == kVendors[static_cast<std::size_t>(Vendor::Amd)];
  if (!amd && vendor != kVendors[static_cast<std::size_t>(Vendor::Nvidia)]) return false;
  device.device_type = amd ? kDLROCM : kDLCUDA;
  return true;
}

bool read_shape(PyObject* shape, PyObject* strides, TensorArg& out, CallStorage& storage) {
  std::size_t rank = 0;
  out.shape = read_numbers(shape, storage, rank);
  if (out.shape == nullptr) return false;
  out.ndim = static_cast<std::int32_t>(rank);
  if (strides == nullptr || py::is_none(strides)) {
    out.strides = storage.dense_strides(out.shape, out.ndim);
    return true;
  }
  std::size_t count = 0;
  out.strides = read_numbers(strides, storage, count);
  return out.strides != nullptr && count == rank;
}

// Integer streams: 1 is CUDA's legacy default stream; ROCm's default is 0. Producers then order their work before ours.
py::Ref producer_stream(const CallContext& call, bool cuda) {
  const auto given = reinterpret_cast<std::uint64_t>(call.stream);
  if (call.stream_given && given != 0) return py::Ref(PyLong_FromUnsignedLongLong(given));
  return py::integer(cuda ? 1 : 0);
}

// The checked content of `capsule`; null with an error.
const DLTensor* tensor_in(PyObject* capsule, CallStorage& storage, Error& error) {
  const auto refuse = [&](const std::string& found) {
    not_a_tensor(cat("must export a DLPack tensor, but its __dlpack__ returned ", found),
                 "Pass a dense tensor on the GPU", error);
    return nullptr;
  };
  const DLTensor* tensor = nullptr;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned") != 0) {
    auto* managed = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if (managed->version.major != DLPACK_MAJOR_VERSION)
      return refuse(
          cat("DLPack version ", managed->version.major, "; version ", DLPACK_MAJOR_VERSION, " is supported"));
    tensor = &managed->dl_tensor;
    storage.read_only = (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  } else if (PyCapsule_IsValid(capsule, "dltensor") != 0) {
    tensor = &static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"))->dl_tensor;
  } else {
    const bool used =
        PyCapsule_IsValid(capsule, "used_dltensor") != 0 || PyCapsule_IsValid(capsule, "used_dltensor_versioned") != 0;
    return refuse(used ? "a capsule that was already consumed" : "no capsule named dltensor or dltensor_versioned");
  }
  return check_dlpack(*tensor, error) ? tensor : nullptr;
}

// object.__dlpack__(stream=, max_version=(1, 0)), without max_version for producers that do not know it.
py::Ref export_capsule(PyObject* object, PyObject* stream) {
  const py::Ref method(PyObject_GetAttrString(object, "__dlpack__"));
  const py::Ref no_arguments(PyTuple_New(0));
  for (const bool versioned : {true, false}) {
    const py::Ref keywords(PyDict_New());
    if (!method || !no_arguments || !keywords || PyDict_SetItemString(keywords.get(), "stream", stream) != 0) return {};
    if (versioned) {
      const py::Ref version =
          py::tuple(2, [](std::size_t i) { return py::integer(i == 0 ? DLPACK_MAJOR_VERSION : 0); });
      if (!version || PyDict_SetItemString(keywords.get(), "max_version", version.get()) != 0) return {};
    }
    py::Ref capsule(PyObject_Call(method.get(), no_arguments.get(), keywords.get()));
    if (capsule || !versioned || PyErr_ExceptionMatches(PyExc_TypeError) == 0) return capsule;
    PyErr_Clear();
  }
  return {};
}

}  // namespace

bool has_attribute(PyObject* object, const char* name) { return static_cast<bool>(attribute(object, name)); }

bool attribute_is_true(PyObject* object, const char* name) {
  return attribute(object, name).get() == py::true_object();
}

bool read_raw_tuple(PyObject* tuple, TensorArg& out, CallStorage& storage, Error& error) {
  if (PyTuple_Size(tuple) != 5)
    return not_a_tensor(cat("must be a tensor or a tuple of 5 items, got a tuple of ", PyTuple_Size(tuple)), kRawFix,
                        error);
  PyObject* address = PyTuple_GetItem(tuple, 0);
  std::string_view name;
  if (!py::has_flag(address, py::kFlagLong)) return not_a_tensor("must have an integer as its address", kRawFix, error);
  if (!py::read_address(address, out.address))
    return not_a_tensor("must have an address of 64 bits that is not negative", kRawFix, error);
  if (!py::read_text(PyTuple_GetItem(tuple, 1), name) || !dtype_of_name(name, out.dtype)) {
    return not_a_tensor(cat("has the unknown element type '", name, "'"), kRawFix, error);
  }
  if (!read_shape(PyTuple_GetItem(tuple, 2), PyTuple_GetItem(tuple, 3), out, storage)) {
    return not_a_tensor(cat("must have a shape and strides of the same number of integers, at most ", kMaxRank),
                        kRawFix, error);
  }
  if (!read_device(PyTuple_GetItem(tuple, 4), out.device)) {
    return not_a_tensor("must have a device (vendor, ordinal) with the vendor 'amd' or 'nvidia'", kRawFix, error);
  }
  out.given = true;
  return true;
}

bool read_torch_like(PyObject* object, TensorArg& out, CallStorage& storage, Error& error) {
  constexpr const char* kFix = "Pass a dense torch tensor on the GPU";
  const py::Ref device = attribute(object, "device");
  const py::Ref kind = device ? attribute(device.get(), "type") : py::Ref();
  const py::Ref index = device ? attribute(device.get(), "index") : py::Ref();
  const py::Ref dtype = attribute(object, "dtype");
  const py::Ref shape = attribute(object, "shape");
  const py::Ref strides = call_method(object, "stride");
  const py::Ref pointer = call_method(object, "data_ptr");
  std::string_view device_name;
  if (!kind || !dtype || !shape || !strides || !pointer || !py::read_text(kind.get(), device_name)) {
    return not_a_tensor("has data_ptr(), but not all of device, dtype, shape and stride()", kFix, error);
  }
  const py::Ref dtype_name(PyObject_Str(dtype.get()));
  std::string_view name;
  if (!dtype_name || !py::read_text(dtype_name.get(), name)) py::clear_ordinary();
  if (name.starts_with("torch.")) name.remove_prefix(6);
  if (!dtype_of_name(name, out.dtype)) {
    return error.set(ErrorKind::ArgumentDType, "", cat("has the unknown element type ", name), "Convert it first");
  }
  if (!py::read_address(pointer.get(), out.address) || !read_shape(shape.get(), strides.get(), out, storage)) {
    return not_a_tensor("must have a data_ptr(), shape and stride() of 64-bit integers", kFix, error);
  }
  std::int32_t ordinal = 0;
  if (device_name != "cuda") {
    out.device = {kDLCPU, 0};
    if (device_name == "meta")
      return error.set(ErrorKind::ArgumentDevice, "", "is a meta tensor, which has no memory",
                       "Pass a tensor with storage");
  } else if (!index || !py::read_ordinal(index.get(), ordinal)) {
    return not_a_tensor("has a device without an index", kFix, error);
  } else {
    // ROCm builds of torch call their devices "cuda" too; torch.version.hip tells them apart.
    const py::Ref torch(PyImport_ImportModule("torch.version"));
    const py::Ref hip = torch ? attribute(torch.get(), "hip") : py::Ref();
    py::clear_ordinary();
    const bool rocm = hip && !py::is_none(hip.get());
    out.device = {rocm ? kDLROCM : kDLCUDA, ordinal};
  }
  if (storage.torch_like == nullptr) storage.torch_like = object;
  out.given = true;
  return true;
}

bool read_dlpack_object(PyObject* object, TensorArg& out, CallContext& call, CallStorage& storage, Error& error) {
  const py::Ref where = call_method(object, "__dlpack_device__");
  std::int64_t type = 0;
  std::int32_t ordinal = 0;
  if (!where || !py::has_flag(where.get(), py::kFlagTuple) || PyTuple_Size(where.get()) != 2 ||
      !py::read_integer(PyTuple_GetItem(where.get(), 0), type) || type < INT32_MIN || type > INT32_MAX ||
      !py::read_ordinal(PyTuple_GetItem(where.get(), 1), ordinal)) {
    return not_a_tensor("has __dlpack__, but no usable __dlpack_device__", "Pass a tensor on the GPU", error);
  }
  const auto device = static_cast<DLDeviceType>(type);
  if (vendor_of(device) < 0) {
    // Not exported: NumPy refuses a stream, and the memory is out of reach anyway.
    return error.set(ErrorKind::ArgumentDevice, "", cat("must be on the GPU, got ", memory_text(device)),
                     "Move it to the GPU first");
  }
  const py::Ref stream = producer_stream(call, vendor_of(device) == static_cast<int>(Vendor::Nvidia));
  py::Ref capsule = stream ? export_capsule(object, stream.get()) : py::Ref();
  if (!capsule) {
    return not_a_tensor(cat("cannot be exported: its __dlpack__ failed: ", py::take_exception_text()),
                        "Pass a dense tensor on the GPU", error);
  }
  const DLTensor* tensor = tensor_in(capsule.get(), storage, error);
  if (tensor == nullptr) return false;
  if (vendor_of(tensor->device.device_type) != vendor_of(device) || tensor->device.device_id != ordinal) {
    return error.set(ErrorKind::ArgumentDevice, "",
                     cat("is on two devices: its __dlpack_device__ says type ", type, ", device ", ordinal,
                         ", its __dlpack__ says type ", static_cast<std::int32_t>(tensor->device.device_type),
                         ", device ", tensor->device.device_id),
                     "Pass a tensor whose framework agrees with itself");
  }
  if (!fill_from_dlpack(*tensor, out)) out.strides = storage.dense_strides(out.shape, out.ndim);
  storage.objects.push_back(std::move(capsule));  // unconsumed: its destructor gives the tensor back
  return true;
}

bool torch_stream(int ordinal, void*& stream, Error& error) {
  const py::Ref cuda(PyImport_ImportModule("torch.cuda"));
  const py::Ref function(cuda ? PyObject_GetAttrString(cuda.get(), "current_stream") : nullptr);
  const py::Ref arguments = py::tuple(1, [&](std::size_t) { return py::integer(ordinal); });
  const py::Ref current(function && arguments ? PyObject_CallObject(function.get(), arguments.get()) : nullptr);
  const py::Ref handle(current ? PyObject_GetAttrString(current.get(), "cuda_stream") : nullptr);
  std::uint64_t address = 0;
  if (!handle || !py::read_address(handle.get(), address)) {
    return error.set(ErrorKind::ArgumentDevice, "get torch's current stream", py::take_exception_text(),
                     "Pass stream= explicitly");
  }
  stream = reinterpret_cast<void*>(address);
  return true;
}

}  // namespace apb
