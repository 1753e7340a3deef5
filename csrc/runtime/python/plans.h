// The Python type `Plans`: a function of Python that ends in calls of operators, remembered as these calls.
#pragma once

#include "python_abi.h"

namespace apb {

// A new reference to the one type of the process; null with an exception set.
PyObject* make_plans_type();

}  // namespace apb
