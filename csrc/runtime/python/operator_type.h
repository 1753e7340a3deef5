// The Python type `Operator`: a callable with a vectorcall entry.
#pragma once

#include <cstddef>
#include <span>

#include "python_abi.h"
#include "tensors/call.h"

namespace apb {

// A new reference to the one type of the process; null with an exception set.
PyObject* make_operator_type();

// Tells whether the object is an operator, which a call from here needs.
bool is_operator(PyObject* object);
PyObject* call_operator(PyObject* op, PyObject* const* args, std::size_t count);

// The attributes of a call that it was called with, for as long as they live; see Operator::fix.
void fix_arguments(PyObject* op, PyObject* const* args, std::size_t count, FixedArguments& out);
// With tensors that were read already; see Operator::call_read.
Done call_operator_read(PyObject* op, std::span<const TensorArg* const> tensors, const FixedArguments& fixed,
                        const DLPackExchangeAPI* api, KnownLaunch* known);

}  // namespace apb
