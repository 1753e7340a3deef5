// Loading ahead of the calls: what one call would launch, or everything that the operator has.
#include <algorithm>
#include <map>

#include "call/operator.h"
#include "call/own_bundles.h"
#include "call/trace.h"

namespace apb {
namespace {

// The first given tensor of a parsed call, or null.
const TensorArg* first_tensor(const Call& call) {
  for (const TensorArg& tensor : call.given_tensors()) {
    if (tensor.given) return &tensor;
  }
  return nullptr;
}

bool same_device(const TensorArg& tensor, const DLDevice& device) {
  return tensor.device.device_id == device.device_id &&
         vendor_of(tensor.device.device_type) == vendor_of(device.device_type);
}

bool load_recipe(Device& device, const OperatorBlock& block, const layout::Recipe& recipe, Error& error) {
  return std::ranges::all_of(block.array(recipe.steps), [&](const layout::Step& step) {
    return device.function(block, block.entries()[step.entry], 0, false, nullptr, error) != nullptr;
  });
}

}  // namespace

PyObject* Operator::preload(Vendor vendor, int ordinal, PyObject* const* args, std::size_t count, Viewing* viewing) {
  Error error;
  OnDevice* on = on_device(vendor, ordinal, error);
  if (on == nullptr) return py::raise(error);
  bool done = false;
  if (args == nullptr) {
    done = load_all(*on, error);
  } else {
    const CallPlace place(spare_call_);
    Call& call = place.get();
    CallStorage storage;
    std::vector<Binding> bindings;
    std::vector<Decision> decisions;
    LaunchPlan plan;
    const bool parsed = on->served.parser.parse(args, count, call, storage, error);
    if (parsed && viewing != nullptr) viewing->apply(call);
    const TensorArg* tensor = parsed ? first_tensor(call) : nullptr;
    const bool elsewhere = tensor != nullptr && !same_device(*tensor, on->where);
    if (elsewhere)
      error.set(ErrorKind::ArgumentDevice, cat("preload ", name_),
                "the tensors are on another device than the named one", "Name the device of the tensors");
    while (parsed && !elsewhere && !done && decide(on->served, call, bindings, decisions, plan, error)) {
      note_choice({on->served.merged, call, bindings, decisions, on->where, on->served.compute_units});
      {
        const py::GilRelease released;
        done = prepare(*on->device, plan, false, nullptr, error) != nullptr;
      }
      if (!done && !drop_own(name_, on->served.merged, plan.block, error)) break;
    }
  }
  if (!done) return py::raise(error);
  Py_IncRef(py::none());
  return py::none();
}

bool Operator::load_all(OnDevice& on, Error& error) const {
  MergedOperator& merged = on.served.merged;
  const std::vector<CandidateRef> all = merged.candidates;  // a thread that calls meanwhile may drop some
  std::map<const OperatorBlock*, Error> failed;             // of own bundles
  {
    const py::GilRelease released;
    for (const CandidateRef& at : all) {
      const OperatorBlock& block = *merged.blocks[at.block];
      if (failed.contains(&block)) continue;
      Error problem;
      if (load_recipe(*on.device, block, merged.recipe(at), problem)) continue;
      if (block.bundle().tree().empty()) {
        error = std::move(problem);
        return false;
      }
      failed.emplace(&block, std::move(problem));
    }
  }
  for (auto& [block, problem] : failed) {
    error = std::move(problem);
    if (!drop_own(name_, merged, block, error)) return false;
  }
  return true;
}

}  // namespace apb
