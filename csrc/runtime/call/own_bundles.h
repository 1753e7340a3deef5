// Own bundles that are refused alone: the operator goes on with the candidates of the others, and Python is told once.
#pragma once

#include <string_view>

#include "choice/select.h"
#include "errors.h"

namespace apb {

// Tells aiter_prebuilt.bundles.own_bundles of each bundle in `merged.refused`, and empties it. The GIL is held. False with Raised
// only when something interrupts.
[[nodiscard]] bool report_refused(std::string_view name, MergedOperator& merged, Error& error);

// After `error`, with which the kernels of `block` could not be loaded: takes an own bundle's candidates away and tells so. False
// when the error stands: the block is the product's, nothing else is left, or the error says nothing about the bundle.
[[nodiscard]] bool drop_own(std::string_view name, MergedOperator& merged, const OperatorBlock* block, Error& error);

}  // namespace apb
