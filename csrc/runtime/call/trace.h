// Reports choices on request. AITER_PREBUILT_TRACE=1 prints each first choice. AITER_PREBUILT_MISS_LOG=FILE collects the shapes
// that no tuned row names. Both are read on the slow path only, once per new kind of call.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "choice/select.h"
#include "tensors/call.h"

namespace apb {

// A choice that was just made for a live call or a preload.
struct Choice {
  const MergedOperator& op;
  const Call& call;
  std::span<const Binding> bindings;
  const std::vector<Decision>& decisions;
  const DLDevice& where;
  std::int64_t compute_units;
};

// Prints and records what the environment asks for; each line once per process. Never fails: a log that cannot be written
// is said once on standard error.
void note_choice(const Choice& choice);

// "aiter_prebuilt.preload(ops=['softmax'], shapes=[{'M': 3, 'N': 40, 'T': 'bf16'}])": what loads exactly what this call
// launches.
std::string preload_text(const MergedOperator& op, const Call& call, const Binding& binding, const DLDevice& where);

}  // namespace apb
