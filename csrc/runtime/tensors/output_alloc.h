// Memory that a function returns: the framework function that allocates it, called for each result.
#pragma once

#include <cstdint>

#include "driver/module_cache.h"
#include "python_glue.h"

namespace apb {

// function(*arguments), or where a device is the thread's current one near(*near_arguments), which makes the same there sooner.
struct OutputAllocation {
  py::Ref function;
  py::Ref arguments;
  py::Ref near;
  py::Ref near_arguments;
  Vendor vendor = Vendor::Amd;
  std::int32_t ordinal = -1;  // of what `near` needs to be current; negative: nothing
  mutable Device* device = nullptr;

  // Null with an exception set.
  py::Ref make() const;
};

// (function, arguments), or (function, arguments, near, its arguments, None or (vendor, ordinal)). False: it is neither; nothing
// is set unless interrupted().
[[nodiscard]] bool read_allocation(PyObject* said, OutputAllocation& out);

}  // namespace apb
