// Explains a choice as Python values. It runs the live functions, and opens and launches nothing.
#include <algorithm>

#include "call/operator.h"

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

// Plans the launch of each accepted candidate. A candidate that cannot be launched is refused here, as in a live call.
std::vector<LaunchPlan> launches(const MergedOperator& op, std::span<const Binding> bindings,
                                 std::vector<Decision>& decisions) {
  std::vector<LaunchPlan> plans(decisions.size());
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    Decision& decision = decisions[i];
    if (decision.verdict == Verdict::Accepted &&
        !plan_launch(op, decision.at, bindings[decision.at.block], plans[i], decision.problem)) {
      decision.verdict = Verdict::NotLaunchable;
      plans[i] = LaunchPlan();
    }
  }
  return plans;
}

// The place of each among the refused, the nearest to serving first; -1 for those that are not.
std::vector<std::int64_t> nearness(const MergedOperator& op, std::span<const Binding> bindings,
                                   std::span<const Decision> decisions) {
  std::vector<std::int64_t> near(decisions.size(), -1);
  std::int64_t next = 0;
  for (const std::size_t place : nearest_first(op, bindings, decisions)) near[place] = next++;
  return near;
}

py::Ref decision_dict(const MergedOperator& op, std::span<const Binding> bindings, const Decision& decision,
                      const LaunchPlan& plan, std::int64_t near) {
  const OperatorBlock& block = *op.blocks[decision.at.block];
  const layout::Kernel& kernel = op.kernel(decision.at);
  const layout::Recipe& recipe = op.recipe(decision.at);
  const bool accepted = decision.verdict == Verdict::Accepted;
  const bool costed = accepted || decision.verdict == Verdict::NotLaunchable;
  py::Ref out(PyDict_New());
  const bool done = out && py::put(out.get(), "kernel", py::text(block.text(kernel.name))) &&
                    py::put(out.get(), "backend", py::text(kBackends[kernel.backend])) &&
                    py::put(out.get(), "tree", py::text(op.tree(decision.at))) &&
                    py::put(out.get(), "variant", py::text(block.text(recipe.variant))) &&
                    py::put(out.get(), "types", types_dict(block, recipe)) &&
                    py::put(out.get(), "rank", py::integer(kernel.rank % kAfterProduct)) &&
                    py::put(out.get(), "accepted", py::boolean(accepted)) &&
                    py::put(out.get(), "chosen", py::boolean(decision.chosen)) &&
                    py::put(out.get(), "reason", py::text(reason(op, bindings, decision))) &&
                    py::put(out.get(), "near", py::integer(near)) &&
                    py::put(out.get(), "cost", costed ? py::integer(decision.cost) : py::Ref::borrow(py::none())) &&
                    py::put(out.get(), "tuned", py::boolean(decision.tuned())) &&
                    py::put(out.get(), "row", py::text(decision.user != nullptr ? decision.user->origin : "")) &&
                    py::put(out.get(), "workspace", py::integer(static_cast<std::int64_t>(plan.workspace))) &&
                    py::put(out.get(), "steps",
                            list(plan.steps.size(), [&](std::size_t i) { return step_dict(block, plan.steps[i]); }));
  return done ? std::move(out) : py::Ref();
}

// A row of the user's that names what is not there stands in the list too, refused, so that nobody wonders.
py::Ref missing_dict(const MergedOperator& op, const UserRow& row, std::int64_t near) {
  const auto variables = op.blocks.front()->array(op.blocks.front()->op().type_variables);
  py::Ref types(PyDict_New());
  std::string_view left = row.types;
  for (std::size_t i = 0; types && i < variables.size(); ++i) {
    const std::string_view word = left.substr(0, left.find('_'));
    left.remove_prefix(std::min(left.size(), word.size() + 1));
    const std::string name(op.blocks.front()->text(variables[i].name));
    if (!py::put(types.get(), name.c_str(), py::text(word))) return {};
  }
  py::Ref out(PyDict_New());
  const std::string why = cat("the user row ", row.origin, " names it, and no bundle of this device has it for ",
                              row.types, "; the next rule decides");
  const bool done =
      out && py::put(out.get(), "kernel", py::text(row.kernel)) && py::put(out.get(), "backend", py::text("")) &&
      py::put(out.get(), "tree", py::text("")) && py::put(out.get(), "variant", py::text(row.variant)) &&
      py::put(out.get(), "types", std::move(types)) && py::put(out.get(), "rank", py::integer(-1)) &&
      py::put(out.get(), "accepted", py::boolean(false)) && py::put(out.get(), "chosen", py::boolean(false)) &&
      py::put(out.get(), "reason", py::text(why)) && py::put(out.get(), "near", py::integer(near)) &&
      py::put(out.get(), "cost", py::Ref::borrow(py::none())) && py::put(out.get(), "tuned", py::boolean(true)) &&
      py::put(out.get(), "row", py::text(row.origin)) && py::put(out.get(), "workspace", py::integer(0)) &&
      py::put(out.get(), "steps", list(0, [](std::size_t) { return py::Ref(); }));
  return done ? std::move(out) : py::Ref();
}

}  // namespace

PyObject* Operator::explain(PyObject* bundle_tuple, std::int64_t compute_units, PyObject* tables, PyObject* const* args,
                            std::size_t count, Viewing* viewing) const {
  Error error;
  ServedOperator served;
  const auto place = std::make_unique_for_overwrite<Call>();
  Call& call = *place;
  CallStorage storage;
  if (!served.build(name_, bundle_tuple, compute_units, error)) return py::raise(error);
  if (tables != nullptr && !read_user_tables(tables, served.merged, error)) return py::raise(error);
  if (!served.parser.parse(args, count, call, storage, error)) return py::raise(error);
  if (viewing != nullptr) viewing->apply(call);
  std::vector<Binding> bindings;
  if (!bind_all(served.merged, call, compute_units, bindings, error)) return py::raise(error);
  std::vector<Decision> decisions;
  LaunchPlan plan;
  // A refusal of all candidates is an answer here, not an error: the decisions say it.
  static_cast<void>(select(served.merged, bindings, compute_units, decisions, plan, error));
  const std::vector<const UserRow*> missing = missing_user_rows(served.merged, bindings, compute_units, decisions);
  const std::vector<LaunchPlan> plans = launches(served.merged, bindings, decisions);
  const std::vector<std::int64_t> near = nearness(served.merged, bindings, decisions);
  const std::int64_t refused = std::count_if(near.begin(), near.end(), [](std::int64_t place) { return place >= 0; });
  const auto row = [&](std::size_t i) {
    if (i < decisions.size()) return decision_dict(served.merged, bindings, decisions[i], plans[i], near[i]);
    const std::size_t place = i - decisions.size();
    return missing_dict(served.merged, *missing[place], refused + static_cast<std::int64_t>(place));
  };
  return list(decisions.size() + missing.size(), row).release();
}

}  // namespace apb
