// The Python type `Operator`: a callable with a vectorcall entry.
#pragma once

#include <cstddef>

#include "python_abi.h"

namespace apb {

// A new reference to the one type of the process; null with an exception set.
PyObject* make_operator_type();

// Whether it is one, which a call from here needs.
bool is_operator(PyObject* object);
PyObject* call_operator(PyObject* op, PyObject* const* args, std::size_t count);

}  // namespace apb
