#include "tensors/output_alloc.h"

#include <string_view>

namespace apb {
namespace {

PyObject* item(PyObject* tuple, Py_ssize_t i) { return PyTuple_GetItem(tuple, i); }
bool is_tuple(PyObject* object) { return py::has_flag(object, py::kFlagTuple); }

bool read_device(PyObject* said, OutputAllocation& out) {
  if (py::is_none(said)) return true;
  std::string_view name;
  if (!is_tuple(said) || PyTuple_Size(said) != 2 || !py::read_text(item(said, 0), name) ||
      !py::read_ordinal(item(said, 1), out.ordinal) || (name != kVendors[0] && name != kVendors[1]))
    return false;
  out.vendor = name == kVendors[0] ? Vendor::Amd : Vendor::Nvidia;
  return true;
}

// Whether `allocation.near` makes what is wanted. False also when in doubt.
bool is_near(const OutputAllocation& allocation) {
  if (!allocation.near) return false;
  if (allocation.ordinal < 0) return true;
  if (allocation.device == nullptr) {
    Driver* driver = opened_driver(allocation.vendor);
    Error unused;
    if (driver != nullptr) allocation.device = device_of(*driver, allocation.ordinal, unused);
  }
  return allocation.device != nullptr && allocation.device->is_current();
}

}  // namespace

py::Ref OutputAllocation::make() const {
  const bool here = is_near(*this);
  return py::Ref(
      PyObject_Call(here ? near.get() : function.get(), here ? near_arguments.get() : arguments.get(), nullptr));
}

bool read_allocation(PyObject* said, OutputAllocation& out) {
  const Py_ssize_t parts = is_tuple(said) ? PyTuple_Size(said) : 0;
  if ((parts != 2 && parts != 5) || !is_tuple(item(said, 1))) return false;
  out.function = py::Ref::borrow(item(said, 0));
  out.arguments = py::Ref::borrow(item(said, 1));
  if (parts == 2) return true;
  if (!is_tuple(item(said, 3)) || !read_device(item(said, 4), out)) return false;
  out.near = py::Ref::borrow(item(said, 2));
  out.near_arguments = py::Ref::borrow(item(said, 3));
  return true;
}

}  // namespace apb
