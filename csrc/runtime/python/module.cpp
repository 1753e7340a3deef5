// The module aiter_prebuilt._native: its functions, types and initialisation.
#include <array>
#include <cstring>

#include "bundle/bundle_type.h"
#include "bundle/sha256.h"
#include "bundle/zstd_decoder.h"
#include "bundle_layout.h"
#include "expressions/expression.h"
#include "expressions/real.h"
#include "python/driver_functions.h"
#include "python/operator_type.h"
#include "python/outputs.h"
#include "python/plans.h"
#include "python_abi.h"
#include "python_glue.h"

namespace apb {
namespace {

PyObject* value_error(const std::string& problem) {
  PyErr_SetObject(PyExc_ValueError, py::text(problem).get());
  return nullptr;
}

PyObject* type_error(const char* problem) {
  if (!py::interrupted()) PyErr_SetString(PyExc_TypeError, problem);
  return nullptr;
}

PyObject* abi(PyObject*, PyObject*) { return py::integer(kNativeAbi).release(); }

PyObject* contract(PyObject*, PyObject*) {
  const std::array<std::int64_t, 3> numbers{kBundleFormat, kRecipeVersion, kNativeAbi};
  return py::tuple(numbers.size(), [&](std::size_t i) { return py::integer(numbers[i]); }).release();
}

bool read_bytes(PyObject* object, std::span<const std::uint8_t>& out) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(object, &data, &size) != 0) return false;
  out = {reinterpret_cast<const std::uint8_t*>(data), static_cast<std::size_t>(size)};
  return true;
}

// zstd_decompress(frame: bytes, raw_size: int, dictionary: bytes | None) -> bytes
PyObject* zstd_decompress(PyObject*, PyObject* args) {
  if (PyTuple_Size(args) != 3) return type_error("zstd_decompress(frame, raw_size, dictionary) takes 3 arguments");
  std::span<const std::uint8_t> frame;
  std::span<const std::uint8_t> dictionary;
  std::int64_t raw_size = -1;
  PyObject* last = PyTuple_GetItem(args, 2);
  if (!read_bytes(PyTuple_GetItem(args, 0), frame)) return nullptr;
  if (!py::is_none(last) && !read_bytes(last, dictionary)) return nullptr;
  if (!py::read_integer(PyTuple_GetItem(args, 1), raw_size)) return type_error("raw_size must be an integer");
  if (raw_size < 0 || raw_size > static_cast<std::int64_t>(kMaxCodeObject)) {
    return value_error(cat("raw_size ", raw_size, " is not between 0 and ", kMaxCodeObject));
  }
  py::Ref out(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(raw_size)));
  std::span<const std::uint8_t> bytes;
  if (!out || !read_bytes(out.get(), bytes)) return nullptr;
  std::string problem;
  // A fresh bytes object belongs to nobody else yet; filling it is what PyBytes_FromStringAndSize(NULL, n) is for.
  if (!zstd_decode(frame, dictionary, const_cast<std::uint8_t*>(bytes.data()), bytes.size(), problem)) {
    return value_error(problem);
  }
  return out.release();
}

// evaluate(code: bytes, slots: sequence[int]) -> int
PyObject* evaluate(PyObject*, PyObject* args) {
  if (PyTuple_Size(args) != 2) return type_error("evaluate(code, slots) takes 2 arguments");
  std::span<const std::uint8_t> code;
  if (!read_bytes(PyTuple_GetItem(args, 0), code)) return nullptr;
  const py::Ref items(PySequence_Tuple(PyTuple_GetItem(args, 1)));
  if (!items) return nullptr;
  std::vector<std::int64_t> slots(static_cast<std::size_t>(PyTuple_Size(items.get())));
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!py::read_integer(PyTuple_GetItem(items.get(), static_cast<Py_ssize_t>(i)), slots[i])) {
      return type_error("a slot is not an integer of 64 bits");
    }
  }
  std::string problem;
  if (code.empty()) return value_error("an empty program has no value");
  if (!check_program(code, slots.size(), problem)) return value_error(problem);
  std::int64_t value = 0;
  const EvaluateStatus status = evaluate_program(code, slots.data(), value);
  if (status != EvaluateStatus::Ok) return value_error(evaluate_text(status));
  return py::integer(value).release();
}

// evaluate_real(code: bytes, slots: sequence[int], floats: sequence[float]) -> float
PyObject* evaluate_real_program(PyObject*, PyObject* args) {
  if (PyTuple_Size(args) != 3) return type_error("evaluate_real(code, slots, floats) takes 3 arguments");
  std::span<const std::uint8_t> code;
  if (!read_bytes(PyTuple_GetItem(args, 0), code)) return nullptr;
  const py::Ref items(PySequence_Tuple(PyTuple_GetItem(args, 1)));
  const py::Ref numbers(items ? PySequence_Tuple(PyTuple_GetItem(args, 2)) : nullptr);
  if (!items || !numbers) return nullptr;
  std::vector<std::int64_t> slots(static_cast<std::size_t>(PyTuple_Size(items.get())));
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!py::read_integer(PyTuple_GetItem(items.get(), static_cast<Py_ssize_t>(i)), slots[i])) {
      return type_error("a slot is not an integer of 64 bits");
    }
  }
  std::vector<double> reals(static_cast<std::size_t>(PyTuple_Size(numbers.get())));
  for (std::size_t i = 0; i < reals.size(); ++i) {
    reals[i] = PyFloat_AsDouble(PyTuple_GetItem(numbers.get(), static_cast<Py_ssize_t>(i)));
    if (reals[i] == -1.0 && PyErr_Occurred() != nullptr) return nullptr;
  }
  std::string problem;
  const auto has_float = [&](std::uint32_t slot) { return slot < reals.size(); };
  if (!check_real_program(code, slots.size(), has_float, problem)) return value_error(problem);
  const auto place = [](std::uint32_t slot) { return static_cast<std::uint16_t>(slot); };
  return PyFloat_FromDouble(evaluate_real(with_slots(code, slots.data(), place), reals.data()));
}

// sha256(data: bytes, portable: bool) -> bytes, so that the tests see both paths.
PyObject* sha256_bytes(PyObject*, PyObject* args) {
  std::span<const std::uint8_t> data;
  if (PyTuple_Size(args) != 2) return type_error("sha256(data, portable) takes 2 arguments");
  if (!read_bytes(PyTuple_GetItem(args, 0), data)) return nullptr;
  const bool portable = PyTuple_GetItem(args, 1) == py::true_object();
  const Sha256 digest = portable ? sha256_portable(data.data(), data.size()) : sha256(data.data(), data.size());
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(digest.data()), digest.size());
}

PyMethodDef methods[] = {
    {"abi", abi, py::kMethNoArgs, "abi() -> int: the native ABI number."},
    {"contract", contract, py::kMethNoArgs, "contract() -> (bundle format, recipe version, native ABI)."},
    {"zstd_decompress", zstd_decompress, py::kMethVarArgs, "zstd_decompress(frame, raw_size, dictionary) -> bytes."},
    {"evaluate", evaluate, py::kMethVarArgs, "evaluate(code, slots) -> int: run a program of the expression language."},
    {"evaluate_real", evaluate_real_program, py::kMethVarArgs,
     "evaluate_real(code, slots, floats) -> float: run a program of a computed float argument."},
    {"sha256", sha256_bytes, py::kMethVarArgs, "sha256(data, portable) -> bytes."},
    {"open_driver", py_open_driver, py::kMethVarArgs,
     "open_driver(vendor, path) -> {path, version, devices}; once per process."},
    {"device", py_device, py::kMethVarArgs, "device(vendor, ordinal) -> dict of facts."},
    {nullptr, nullptr, 0, nullptr},
};

bool add_type(PyObject* module, const char* name, PyObject* type) {
  const py::Ref owned(type);
  return owned && PyModule_AddObjectRef(module, name, type) == 0;
}

int execute(PyObject* module) {
  const bool done = add_type(module, "Bundle", make_bundle_type()) &&
                    add_type(module, "Operator", make_operator_type()) &&
                    add_type(module, "Outputs", make_outputs_type()) && add_type(module, "Plans", make_plans_type());
  return done ? 0 : -1;
}

PyModuleDef_Slot slots[] = {
    {py::kModuleExec, reinterpret_cast<void*>(execute)},
    {0, nullptr},
};

PyModuleDef definition = {
    {{1, nullptr}, nullptr, 0, nullptr},
    "aiter_prebuilt._native",
    "Bundles, selection and launches; the Python side is src/aiter_prebuilt.",
    0,
    methods,
    slots,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace
}  // namespace apb

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__native() {
  return PyModuleDef_Init(&apb::definition);
}
