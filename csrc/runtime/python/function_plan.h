// The launch plan of a Python function: the tensors it allocates, the operators it calls, the values it returns. Python describes
// it as tuples.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "python/operator_type.h"
#include "tensors/output_alloc.h"

namespace apb {

inline constexpr std::size_t kMostArguments = 64;
inline constexpr std::size_t kMostMade = 8;

// An argument of an operator, or a returned value: an argument of the function, an allocated tensor, or a constant object.
struct Item {
  enum class Kind { Argument, Made, Same } kind = Kind::Same;
  std::size_t place = 0;
  py::Ref object;
};

struct Launch {
  py::Ref op;
  std::vector<Item> items;
  // Arguments of the call that are the same each time, for the device of the last call. Written with the GIL held.
  mutable FixedArguments fixed;
};

struct Plan {
  std::vector<OutputAllocation> allocations;
  std::vector<Launch> launches;
  std::vector<Item> answers;  // of several a tuple
  bool single = true;
};

// The arguments of the planned call, and the objects that they are called with.
struct Given {
  PyObject* const* args;
  std::string_view kinds;
};

// ((function, arguments) of what is made, ...), ((operator, items), ...), what is returned. False: it is none.
bool read_plan(PyObject* said, const Given& given, Plan& plan);

}  // namespace apb
