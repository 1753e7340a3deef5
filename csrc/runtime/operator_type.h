// The Python type `Operator`: a callable with a vectorcall entry.
#pragma once

#include "python_abi.h"

namespace apb {

// A new reference to the one type of the process; null with an exception set.
PyObject* make_operator_type();

}  // namespace apb
