// Classifies an address.
#pragma once

#include "machine/memory/allocations.h"
#include "runtime.h"

namespace apb::emu::hip {

// The live allocation around `address`; false when there is none.
bool live(const void* address, Allocation& out);

}  // namespace apb::emu::hip
