// Requests of a running kernel to the host that this device does not support.
#pragma once

#include "machine/load/code_object.h"

namespace apb::emu {

// Null, or what the kernel cannot do without, in words. A compiler that looked names what a kernel uses; one that did not (-O0) names all
// there is, the queue among it, and then only an access tells.
const char* missing_service(const Kernel& kernel);
// Does it name such a service at all?
bool names_service(const Kernel& kernel);

}  // namespace apb::emu
