// What a function does for calls that are alike: what it makes, which operators it calls, what it returns. Said by Python as tuples.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "python/operator_type.h"
#include "tensors/output_alloc.h"

namespace apb {

inline constexpr std::size_t kMostArguments = 64;
inline constexpr std::size_t kMostMade = 8;

// What a call of an operator is given, or what the function returns: an argument, something made, or always the same object.
struct Item {
  enum class Kind { Argument, Made, Same } kind = Kind::Same;
  std::size_t place = 0;
  py::Ref object;
};

struct Launch {
  py::Ref op;
  std::vector<Item> items;
  // What of the call is the same each time, in the terms of the device that it was last on. Written with the GIL held.
  mutable FixedArguments fixed;
};

struct Plan {
  std::vector<OutputAllocation> allocations;
  std::vector<Launch> launches;
  std::vector<Item> answers;  // of several a tuple
  bool single = true;
};

// What the arguments of the call that is planned were, and what they are called with.
struct Given {
  PyObject* const* args;
  std::string_view kinds;
};

// ((function, arguments) of what is made, ...), ((operator, items), ...), what is returned. False: it is none.
bool read_plan(PyObject* said, const Given& given, Plan& plan);

}  // namespace apb
