#include "choice/select.h"

#include <algorithm>
#include <compare>
#include <limits>
#include <utility>

namespace apb {
namespace {

bool types_fit(const OperatorBlock& block, const layout::Recipe& recipe, const Binding& binding) {
  const auto types = block.array(recipe.types);
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (binding.types[i] != kOpenType && binding.types[i] != types[i]) return false;
  }
  return true;
}

Decision judge(const MergedOperator& op, const CandidateRef& at, const Binding& binding) {
  const OperatorBlock& block = *op.blocks[at.block];
  const layout::Recipe& recipe = op.recipe(at);
  Decision decision{.at = at};
  if (!binding.bound) {
    decision.verdict = Verdict::NotBound;
    return decision;
  }
  if (!types_fit(block, recipe, binding)) {
    decision.verdict = Verdict::OtherTypes;
    return decision;
  }
  const auto conditions = block.array(recipe.conditions);
  for (std::uint32_t i = 0; i < conditions.size(); ++i) {
    std::int64_t value = 0;
    decision.condition = i;
    decision.status = evaluate_program(block.code(conditions[i].code), binding.slots.data(), value);
    if (decision.status != EvaluateStatus::Ok || value == 0) {
      decision.verdict = decision.status == EvaluateStatus::Ok ? Verdict::ConditionFalse : Verdict::ConditionError;
      return decision;
    }
  }
  const Program cost = block.code(recipe.cost);
  if (!cost.empty()) decision.status = evaluate_program(cost, binding.slots.data(), decision.cost);
  if (decision.status != EvaluateStatus::Ok) decision.verdict = Verdict::CostError;
  return decision;
}

// Is the row about such a device and these values, or ranges that they lie in?
bool row_fits(const OperatorBlock& block, const layout::TunedRow& row, const Binding& binding,
              std::int64_t compute_units) {
  if (row.cus != compute_units) return false;
  const auto slots = block.array(block.op().tuned_slots);
  const auto first = block.array(row.values);
  const auto last = row.last.count == 0 ? first : block.array(row.last);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::int64_t value = binding.slots[slots[i]];
    if (value < first[i] || value > last[i]) return false;
  }
  return true;
}

// Marks the recipes that a tuned row of exactly this device and these values names.
void mark_tuned(const MergedOperator& op, std::span<const Binding> bindings, std::int64_t compute_units,
                std::vector<Decision>& decisions) {
  for (std::uint32_t b = 0; b < op.blocks.size(); ++b) {
    const OperatorBlock& block = *op.blocks[b];
    for (const layout::TunedRow& row : block.array(block.op().tuned)) {
      if (!row_fits(block, row, bindings[b], compute_units)) continue;
      for (Decision& decision : decisions) {
        if (decision.at.block == b && decision.at.recipe == row.recipe) decision.tuned_rank = kBundleTuned;
      }
    }
  }
}

// Better first: a tuned row, the order of the kernels, the cost; candidates come in a stable order.
bool better(const Decision& a, const Decision& b) {
  if (a.tuned_rank != b.tuned_rank) return a.tuned_rank < b.tuned_rank;
  if (a.at.order != b.at.order) return a.at.order < b.at.order;
  return a.cost < b.cost;
}

Decision* best_of(std::vector<Decision>& decisions) {
  Decision* best = nullptr;
  for (Decision& decision : decisions) {
    if (decision.verdict == Verdict::Accepted && (best == nullptr || better(decision, *best))) best = &decision;
  }
  return best;
}

struct Distance {
  std::size_t types = 0;
  std::size_t conditions = 0;

  auto operator<=>(const Distance&) const = default;
};

// Finds the conditions that refuse a candidate. The choice itself stops at the first one.
Distance distance(const MergedOperator& op, const Binding& binding, const Decision& decision) {
  const OperatorBlock& block = *op.blocks[decision.at.block];
  const layout::Recipe& recipe = op.recipe(decision.at);
  Distance found;
  const auto types = block.array(recipe.types);
  for (std::size_t i = 0; i < types.size(); ++i)
    found.types += static_cast<std::size_t>(binding.types[i] != kOpenType && binding.types[i] != types[i]);
  for (const layout::Condition& condition : block.array(recipe.conditions)) {
    std::int64_t value = 0;
    const EvaluateStatus status = evaluate_program(block.code(condition.code), binding.slots.data(), value);
    found.conditions += static_cast<std::size_t>(status != EvaluateStatus::Ok || value == 0);
  }
  return found;
}

// More candidates than these are told by the types they are made for, as errors.py does by reason (MOST_LINES there).
constexpr std::size_t kMostLines = 12;

struct OfTypes {
  std::string types_and_reason;
  std::string line;
  std::size_t differing;
  std::size_t count;
};

// "30 of 40, e.g. k[v1] A=bf16: made for other types: ...", the nearest types first, then the commonest.
std::vector<std::string> lines_by_types(const MergedOperator& op, std::span<const Binding> bindings,
                                        const std::vector<Decision>& decisions) {
  std::vector<OfTypes> groups;
  for (const Decision& decision : decisions) {
    const std::string label = op.label(decision.at);
    const std::string why = reason(op, bindings, decision);
    const std::string key = cat(label.substr(label.rfind(' ') + 1), " ", why);
    const auto known =
        std::find_if(groups.begin(), groups.end(), [&](const OfTypes& group) { return group.types_and_reason == key; });
    if (known != groups.end())
      ++known->count;
    else
      groups.push_back({key, cat(label, ": ", why), distance(op, bindings[decision.at.block], decision).types, 1});
  }
  std::stable_sort(groups.begin(), groups.end(), [](const OfTypes& a, const OfTypes& b) {
    return a.differing != b.differing ? a.differing < b.differing : a.count > b.count;
  });
  std::vector<std::string> lines;
  lines.reserve(groups.size());
  for (const OfTypes& group : groups)
    lines.push_back(cat(group.count, " of ", decisions.size(), ", e.g. ", group.line));
  return lines;
}

bool refuse_all(const MergedOperator& op, std::span<const Binding> bindings, const std::vector<Decision>& decisions,
                Error& error) {
  const bool types_only = !decisions.empty() &&
                          std::all_of(decisions.begin(), decisions.end(),
                                      [](const Decision& decision) { return decision.verdict == Verdict::OtherTypes; });
  const std::string asked = cat(op.blocks.front()->name());
  std::vector<std::string> reasons;
  reasons.reserve(decisions.size());
  for (const std::size_t place : nearest_first(op, bindings, decisions))
    reasons.push_back(cat(op.label(decisions[place].at), ": ", reason(op, bindings, decisions[place])));
  if (types_only) {
    if (decisions.size() > kMostLines) reasons = lines_by_types(op, bindings, decisions);
    std::string known;
    for (const std::string& line : reasons) known += cat(known.empty() ? "" : "; ", line);
    return error.set(ErrorKind::ArgumentDType, asked, cat("no kernel takes these types (", known, ")"),
                     "Convert the tensors");
  }
  error.set(ErrorKind::NoKernel, asked,
            cat("no kernel takes this call: all ", decisions.size(), " candidates were refused"),
            "Change one of these");
  error.reasons = std::move(reasons);
  return false;
}

// "N = 4096, in_row = 4100, bias is not given": the symbols that a condition reads.
std::string values_read(const OperatorBlock& block, layout::Code code, const Binding& binding) {
  const auto names = block.array(block.op().slots);
  std::vector<bool> used(names.size(), false);
  note_slots(block.code(code), used);
  std::string out;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    const std::string_view name = block.text(names[i]);
    if (name.starts_with('?')) {
      out += cat(out.empty() ? "" : ", ", name.substr(1), binding.slots[i] != 0 ? " is given" : " is not given");
      continue;
    }
    const bool address = name.starts_with('&');
    std::string value = address ? hex_text(static_cast<std::uint64_t>(binding.slots[i])) : cat(binding.slots[i]);
    if (const int text = block.text_attribute(i); text >= 0)
      value = cat("'", binding.texts[static_cast<std::size_t>(text)], "'");
    out += cat(out.empty() ? "" : ", ", name, " = ", value);
  }
  return out;
}

// "fp8 (e4m3fn)": the word of a signature for the target's own e4m3, and which that is.
std::string type_text(const OperatorBlock& block, std::uint8_t number) {
  const bool own = number == block.bundle().root().fp8;
  return own ? cat("fp8 (", kDTypes[number].name, ")") : std::string(kDTypes[number].name);
}

}  // namespace

bool bind_all(const MergedOperator& op, const Call& call, std::int64_t compute_units, std::vector<Binding>& bindings,
              Error& error) {
  bindings.resize(op.blocks.size());
  for (std::size_t i = 0; i < bindings.size(); ++i) {
    Error problem;
    bindings[i].bound = true;
    if (bind(*op.blocks[i], call, compute_units, bindings[i], problem)) continue;
    if (i == 0 || op.blocks[i]->bundle().tree().empty()) {
      error = std::move(problem);
      return false;
    }
    bindings[i] = Binding{};
    bindings[i].bound = false;
  }
  return true;
}

std::vector<std::size_t> nearest_first(const MergedOperator& op, std::span<const Binding> bindings,
                                       std::span<const Decision> decisions) {
  std::vector<std::pair<Distance, std::size_t>> refused;
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    if (decisions[i].verdict != Verdict::Accepted)
      refused.emplace_back(distance(op, bindings[decisions[i].at.block], decisions[i]), i);
  }
  std::sort(refused.begin(), refused.end());  // equals keep the order of the candidates: their places differ
  std::vector<std::size_t> places;
  places.reserve(refused.size());
  for (const auto& [far, place] : refused) places.push_back(place);
  return places;
}

bool select(const MergedOperator& op, std::span<const Binding> bindings, std::int64_t compute_units,
            std::vector<Decision>& decisions, LaunchPlan& plan, Error& error) {
  decisions.clear();
  for (const CandidateRef& at : op.candidates) decisions.push_back(judge(op, at, bindings[at.block]));
  mark_tuned(op, bindings, compute_units, decisions);
  mark_user_rows(op, bindings, compute_units, decisions);  // after those of the bundles: the user's word stands
  while (Decision* best = best_of(decisions)) {
    if (plan_launch(op, best->at, bindings[best->at.block], plan, best->problem)) {
      best->chosen = true;
      return true;
    }
    best->verdict = Verdict::NotLaunchable;
  }
  return refuse_all(op, bindings, decisions, error);
}

namespace {

// Why `decision` was refused; empty when it was not.
std::string refusal(const MergedOperator& op, std::span<const Binding> bindings, const Decision& decision) {
  const OperatorBlock& block = *op.blocks[decision.at.block];
  const layout::Recipe& recipe = op.recipe(decision.at);
  const Binding& binding = bindings[decision.at.block];
  switch (decision.verdict) {
    case Verdict::Accepted: return {};
    case Verdict::NotBound: return "its bundle's own signature does not fit this call";
    case Verdict::OtherTypes: {
      const auto variables = block.array(block.op().type_variables);
      std::string types;
      for (std::size_t i = 0; i < variables.size(); ++i) {
        if (binding.types[i] != kOpenType)
          types +=
              cat(types.empty() ? "" : ", ", block.text(variables[i].name), " is ", type_text(block, binding.types[i]));
      }
      return cat("made for other types: ", types, " in this call");
    }
    case Verdict::ConditionFalse:
    case Verdict::ConditionError: {
      const layout::Condition& condition = block.array(recipe.conditions)[decision.condition];
      const std::string values = values_read(block, condition.code, binding);
      const bool failed = decision.verdict == Verdict::ConditionError;
      return cat("needs ", block.text(condition.text),
                 failed ? cat(" (", evaluate_text(decision.status), ")") : std::string(),
                 values.empty() ? "" : ", and ", values);
    }
    case Verdict::CostError: return cat("its cost cannot be computed: ", evaluate_text(decision.status));
    case Verdict::NotLaunchable: return decision.problem;
  }
  return {};
}

}  // namespace

std::string reason(const MergedOperator& op, std::span<const Binding> bindings, const Decision& decision) {
  const std::string row = decision.user == nullptr ? std::string() : cat("the user row ", decision.user->origin);
  if (const std::string no = refusal(op, bindings, decision); !no.empty())
    return row.empty() ? no : cat(no, "; ", row, " names it, and the next rule decides");
  if (decision.chosen && !row.empty()) return cat(row, " names it");
  if (decision.chosen && decision.tuned()) return "a tuned row names it";
  if (decision.chosen) return cat("first accepted kernel of the order, lowest cost ", decision.cost);
  if (!row.empty()) return cat(row, " names it, but another row stands before it");
  if (decision.tuned()) return "accepted and tuned, but another tuned row stands before it";
  return cat("accepted with cost ", decision.cost, ", but another stands before it");
}

}  // namespace apb
