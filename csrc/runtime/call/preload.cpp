// Loading ahead of the calls: what one call would launch, or everything that the operator has.
#include "call/operator.h"
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
    if (tensor != nullptr && !same_device(*tensor, on->where)) {
      error.set(ErrorKind::ArgumentDevice, cat("preload ", name_),
                "the tensors are on another device than the named one", "Name the device of the tensors");
    } else if (parsed && decide(on->served, call, bindings, decisions, plan, error)) {
      note_choice({on->served.merged, call, bindings, decisions, on->where, on->served.compute_units});
      const py::GilRelease released;
      done = prepare(*on->device, plan, false, nullptr, error) != nullptr;
    }
  }
  if (!done) return py::raise(error);
  Py_IncRef(py::none());
  return py::none();
}

bool Operator::load_all(OnDevice& on, Error& error) const {
  const py::GilRelease released;
  for (const CandidateRef& at : on.served.merged.candidates) {
    const OperatorBlock& block = *on.served.merged.blocks[at.block];
    for (const layout::Step& step : block.array(on.served.merged.recipe(at).steps)) {
      if (on.device->function(block, block.entries()[step.entry], 0, false, nullptr, error) == nullptr) return false;
    }
  }
  return true;
}

}  // namespace apb
