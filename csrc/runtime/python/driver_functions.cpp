#include "python/driver_functions.h"

#include "driver/driver.h"
#include "python_glue.h"

namespace apb {
namespace {

bool read_vendor(PyObject* object, Vendor& vendor) {
  std::string_view name;
  if (!py::read_text(object, name)) return false;
  for (std::size_t i = 0; i < kVendors.size(); ++i) {
    if (name == kVendors[i]) {
      vendor = static_cast<Vendor>(i);
      return true;
    }
  }
  return false;
}

PyObject* type_error(const char* problem) {
  if (!py::interrupted()) PyErr_SetString(PyExc_TypeError, problem);
  return nullptr;
}

py::Ref size(std::uint64_t value) { return py::Ref(PyLong_FromUnsignedLongLong(value)); }

Driver* open(Vendor vendor, const std::string& path, Error& error) {
  const py::GilRelease released;
  return open_driver(vendor, path, error);
}

}  // namespace

PyObject* py_open_driver(PyObject*, PyObject* args) {
  Vendor vendor = Vendor::Amd;
  std::string_view path;
  const bool two = PyTuple_Size(args) == 2;
  PyObject* given = two ? PyTuple_GetItem(args, 1) : nullptr;
  if (!two || !read_vendor(PyTuple_GetItem(args, 0), vendor) || (!py::is_none(given) && !py::read_text(given, path))) {
    return type_error("open_driver(vendor: 'amd' | 'nvidia', path: str | None) takes two arguments");
  }
  Error error;
  const Driver* driver = open(vendor, std::string(path), error);
  if (driver == nullptr) return py::raise(error);
  py::Ref out(PyDict_New());
  const bool done = out && py::put(out.get(), "path", py::text(driver->path)) &&
                    py::put(out.get(), "version", py::integer(driver->version)) &&
                    py::put(out.get(), "devices", py::integer(driver->devices));
  return done ? out.release() : nullptr;
}

PyObject* py_device(PyObject*, PyObject* args) {
  Vendor vendor = Vendor::Amd;
  std::int64_t ordinal = 0;
  if (PyTuple_Size(args) != 2 || !read_vendor(PyTuple_GetItem(args, 0), vendor) ||
      !py::read_integer(PyTuple_GetItem(args, 1), ordinal)) {
    return type_error("device(vendor: 'amd' | 'nvidia', ordinal: int) takes two arguments");
  }
  Error error;
  DeviceFacts facts;
  const Driver* driver = open(vendor, std::string(), error);
  if (driver == nullptr || !driver->facts(static_cast<int>(ordinal), facts, error)) return py::raise(error);
  py::Ref out(PyDict_New());
  const bool done = out && py::put(out.get(), "name", py::text(facts.name)) &&
                    py::put(out.get(), "arch", py::text(facts.arch)) &&
                    py::put(out.get(), "compute_units", py::integer(facts.compute_units)) &&
                    py::put(out.get(), "memory_bytes", size(facts.memory_bytes)) &&
                    py::put(out.get(), "lds_bytes", size(facts.lds_bytes)) &&
                    py::put(out.get(), "driver_version", py::integer(driver->version));
  return done ? out.release() : nullptr;
}

}  // namespace apb
