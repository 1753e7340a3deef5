#include "python_glue.h"

namespace apb::py {

PyObject* raise(const Error& error) {
  if (interrupted()) return nullptr;
  if (error.kind == ErrorKind::Raised) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_ValueError, "an error was reported without its exception");
    return nullptr;
  }
  const Ref value = exception(error);
  if (value) PyErr_SetObject(reinterpret_cast<PyObject*>(type_of(value.get())), value.get());
  return nullptr;
}

Ref exception(const Error& error) {
  const Ref module(PyImport_ImportModule("aiter_prebuilt.errors"));
  if (!module) return {};
  const Ref kind(PyObject_GetAttrString(module.get(), kErrorClasses[static_cast<std::size_t>(error.kind)]));
  if (!kind) return {};
  const bool with_reasons = error.kind == ErrorKind::NoKernel;
  const Ref arguments = tuple(with_reasons ? 4 : 3, [&](std::size_t i) {
    if (i == 3) return tuple(error.reasons.size(), [&](std::size_t line) { return text(error.reasons[line]); });
    return text(i == 0 ? error.asked : i == 1 ? error.found : error.fix);
  });
  return Ref(arguments ? PyObject_CallObject(kind.get(), arguments.get()) : nullptr);
}

bool is_interruption() {
  return PyErr_ExceptionMatches(PyExc_Exception) == 0 || PyErr_ExceptionMatches(PyExc_MemoryError) != 0 ||
         PyErr_ExceptionMatches(PyExc_RecursionError) != 0;
}

void clear_ordinary() {
  if (!interrupted()) PyErr_Clear();
}

std::string take_exception_text() {
  if (interrupted()) return {};
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  const Ref owned_type(type);
  const Ref owned_value(value);
  const Ref owned_trace(trace);
  std::string out = "no text";
  if (value != nullptr) {
    const Ref shown(PyObject_Str(value));
    std::string_view bytes;
    if (shown && read_text(shown.get(), bytes)) out = std::string(bytes);
  }
  clear_ordinary();
  return out;
}

Ref text(std::string_view value) {
  Ref made(PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
  if (made) return made;
  PyErr_Clear();  // not UTF-8: a path or a driver's text with stray bytes must not hide the error that it describes
  std::string plain(value);
  for (char& letter : plain) {
    if (static_cast<unsigned char>(letter) >= 0x80) letter = '?';
  }
  return Ref(PyUnicode_FromStringAndSize(plain.data(), static_cast<Py_ssize_t>(plain.size())));
}

Ref integer(std::int64_t value) { return Ref(PyLong_FromLongLong(value)); }

Ref boolean(bool value) { return Ref(PyBool_FromLong(value ? 1 : 0)); }

bool read_text(PyObject* object, std::string_view& out) {
  if (!has_flag(object, kFlagUnicode)) return false;
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(object, &size);
  if (bytes == nullptr) {
    clear_ordinary();
    return false;
  }
  out = {bytes, static_cast<std::size_t>(size)};
  return true;
}

bool read_integer(PyObject* object, std::int64_t& out) {
  Ref index;
  if (!has_flag(object, kFlagLong)) {
    const Recursion deeper;
    if (deeper) index = Ref(PyNumber_Index(object));
    if (!index) {
      clear_ordinary();
      return false;
    }
    object = index.get();
  }
  out = PyLong_AsLongLong(object);
  if (out == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return false;
  }
  return true;
}

bool read_address(PyObject* object, std::uint64_t& out) {
  if (!has_flag(object, kFlagLong)) return false;
  out = PyLong_AsUnsignedLongLong(object);
  if (out != ~std::uint64_t{0} || PyErr_Occurred() == nullptr) return true;
  PyErr_Clear();
  return false;
}

bool read_ordinal(PyObject* object, std::int32_t& out) {
  std::int64_t value = 0;
  if (!read_integer(object, value) || value < 0 || value > INT32_MAX) return false;
  out = static_cast<std::int32_t>(value);
  return true;
}

bool put(PyObject* dict, const char* key, Ref value) {
  return value && PyDict_SetItemString(dict, key, value.get()) == 0;
}

}  // namespace apb::py
