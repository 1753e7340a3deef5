// The module's functions about drivers and devices.
#pragma once

#include "python_abi.h"

namespace apb {

// open_driver(vendor, path) -> {path, version, devices}
PyObject* py_open_driver(PyObject* module, PyObject* args);

// device(vendor, ordinal) -> {name, arch, compute_units, memory_bytes, lds_bytes, driver_version}
PyObject* py_device(PyObject* module, PyObject* args);

}  // namespace apb
