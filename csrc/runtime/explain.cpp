// What the choice would be, and why, as Python values: the live functions, with nothing opened or launched.
#include "operator.h"

namespace apb {
namespace {

py::Ref numbers(const std::array<std::uint32_t, 3>& values) {
  py::Ref out(PyList_New(3));
  for (std::size_t i = 0; out && i < values.size(); ++i) {
    if (PyList_SetItem(out.get(), static_cast<Py_ssize_t>(i), py::integer(values[i]).release()) != 0) return {};
  }
  return out;
}

template <class Make>
py::Ref list(std::size_t count, Make&& make) {
  py::Ref out(PyList_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t i = 0; out && i < count; ++i) {
    py::Ref item = make(i);
    if (!item || PyList_SetItem(out.get(), static_cast<Py_ssize_t>(i), item.release()) != 0) return {};
  }
  return out;
}

py::Ref step_dict(const OperatorBlock& block, const StepPlan& step) {
  py::Ref out(PyDict_New());
  const std::array<std::uint32_t, 3> threads{step.step->block_x, step.step->block_y, step.step->block_z};
  const bool done =
      out && py::put(out.get(), "entry", py::text(block.text(step.entry->name))) &&
      py::put(out.get(), "symbol", py::text(block.text(step.entry->symbol))) &&
      py::put(out.get(), "grid", numbers(step.grid)) && py::put(out.get(), "block", numbers(threads)) &&
      py::put(out.get(), "lds", py::integer(step.lds)) &&
      py::put(out.get(), "kernarg_size", py::integer(step.step->kernarg_size)) &&
      py::put(out.get(), "sha256", py::text(hex_bytes(step.entry->sha256.data(), step.entry->sha256.size())));
  return done ? std::move(out) : py::Ref();
}

py::Ref types_dict(const OperatorBlock& block, const layout::Recipe& recipe) {
  py::Ref out(PyDict_New());
  const auto variables = block.array(block.op().type_variables);
  const auto types = block.array(recipe.types);
  for (std::size_t i = 0; out && i < types.size(); ++i) {
    const std::string name(block.text(variables[i].name));
    if (!py::put(out.get(), name.c_str(), py::text(kDTypes[types[i]].name))) return {};
  }
  return out;
}

py::Ref decision_dict(const MergedOperator& op, std::span<const Frame> frames, Decision& decision) {
  const OperatorBlock& block = *op.blocks[decision.at.block];
  const layout::Kernel& kernel = op.kernel(decision.at);
  const layout::Recipe& recipe = op.recipe(decision.at);
  LaunchPlan plan;
  if (decision.verdict == Verdict::Accepted &&
      !plan_launch(op, decision.at, frames[decision.at.block], plan, decision.problem)) {
    decision.verdict = Verdict::NotLaunchable;
    plan = LaunchPlan();
  }
  const bool accepted = decision.verdict == Verdict::Accepted;
  const bool costed = accepted || decision.verdict == Verdict::NotLaunchable;
  py::Ref out(PyDict_New());
  const bool done = out && py::put(out.get(), "kernel", py::text(block.text(kernel.name))) &&
                    py::put(out.get(), "backend", py::text(kBackends[kernel.backend])) &&
                    py::put(out.get(), "variant", py::text(block.text(recipe.variant))) &&
                    py::put(out.get(), "types", types_dict(block, recipe)) &&
                    py::put(out.get(), "rank", py::integer(kernel.rank)) &&
                    py::put(out.get(), "accepted", py::boolean(accepted)) &&
                    py::put(out.get(), "chosen", py::boolean(decision.chosen)) &&
                    py::put(out.get(), "reason", py::text(reason(op, frames, decision))) &&
                    py::put(out.get(), "cost", costed ? py::integer(decision.cost) : py::Ref::borrow(py::none())) &&
                    py::put(out.get(), "tuned", py::boolean(decision.tuned)) &&
                    py::put(out.get(), "workspace", py::integer(static_cast<std::int64_t>(plan.workspace))) &&
                    py::put(out.get(), "steps",
                            list(plan.steps.size(), [&](std::size_t i) { return step_dict(block, plan.steps[i]); }));
  return done ? std::move(out) : py::Ref();
}

}  // namespace

PyObject* Operator::explain(PyObject* bundle_tuple, std::int64_t compute_units, PyObject* const* args,
                            std::size_t count) const {
  Error error;
  ServedOperator served;
  Call call;
  CallStorage storage;
  if (!served.build(name_, bundle_tuple, compute_units, error)) return py::raise(error);
  if (!served.parser.parse(args, count, call, storage, error)) return py::raise(error);
  std::vector<Frame> frames(served.merged.blocks.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (!bind(*served.merged.blocks[i], call, compute_units, frames[i], error)) return py::raise(error);
  }
  std::vector<Decision> decisions;
  LaunchPlan plan;
  // A refusal of all candidates is an answer here, not an error: the decisions say it.
  static_cast<void>(select(served.merged, frames, compute_units, decisions, plan, error));
  return list(decisions.size(), [&](std::size_t i) { return decision_dict(served.merged, frames, decisions[i]); })
      .release();
}

}  // namespace apb
