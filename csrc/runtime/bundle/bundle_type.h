// The Python type `Bundle`: an opened, checked bundle file.
#pragma once

#include "bundle/bundle.h"
#include "python_abi.h"

namespace apb {

// A new reference to the one type of the process; null with an exception set.
PyObject* make_bundle_type();

// The bundle inside `object`, or null (no exception set) when it is no Bundle.
Bundle* bundle_of(PyObject* object);

}  // namespace apb
