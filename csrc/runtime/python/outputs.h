// The Python type `Outputs`: makes the tensors that a function returns, and remembers for which arguments it made which.
#pragma once

#include "python_abi.h"

namespace apb {

// A new reference to the one type of the process; null with an exception set.
PyObject* make_outputs_type();

}  // namespace apb
