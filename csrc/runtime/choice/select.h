// The choice of a recipe: every candidate is judged, with the reason; then one is taken. explain() and the live call
// use the same functions, so that what one says the other does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bundle/bundle.h"
#include "choice/bind.h"
#include "choice/user_table.h"
#include "errors.h"

namespace apb {

// A recipe of one of the merged blocks. `order` is the place of its kernel in the operator's order.
struct CandidateRef {
  std::uint32_t block;
  std::uint32_t recipe;
  std::uint32_t order;
};

// An own bundle that adds nothing to an operator, and why.
struct RefusedBundle {
  std::string path;
  Error error;
};

// The blocks of one operator from the bundles that serve one device, as one operator.
struct MergedOperator {
  std::vector<const OperatorBlock*> blocks;  // those of the product first
  std::vector<CandidateRef> candidates;      // by order, then in the order of the bundles and their recipes
  std::vector<RefusedBundle> refused;
  std::vector<UserTable> user;  // of the user's tables for this operator and device, first wins

  const layout::Recipe& recipe(const CandidateRef& at) const { return blocks[at.block]->recipes()[at.recipe]; }
  const layout::Kernel& kernel(const CandidateRef& at) const { return blocks[at.block]->kernels()[recipe(at).kernel]; }
  // "rmsnorm[BLOCK1024-EVEN1] T=bf16"; of a tree "acme:rmsnorm[BLOCK1024-EVEN1] T=bf16"
  std::string label(const CandidateRef& at) const;
  // The name of the own tree that it is of; empty for the product.
  std::string_view tree(const CandidateRef& at) const { return blocks[at.block]->bundle().tree(); }

  // Takes the candidates of an own bundle away. False when it is one of the product, or all candidates are its: nothing changes.
  [[nodiscard]] bool drop(std::size_t block, const Error& error);
};

// Merges the blocks of `name` in `bundles` (those without it are passed over). False with NoOperator, BundleDamaged or
// BundleConflict (signatures that differ, or one kernel, variant and types twice). For a bundle that is an own one these are no
// errors: it is refused, and the others are merged.
[[nodiscard]] bool merge(std::string_view name, std::span<Bundle* const> bundles, MergedOperator& out, Error& error);

// Binds the call for each block. False with an Argument* error when a block of the product refuses it; an own bundle's that alone
// does has no candidate for this call.
[[nodiscard]] bool bind_all(const MergedOperator& op, const Call& call, std::int64_t compute_units,
                            std::vector<Binding>& bindings, Error& error);

enum class Verdict : std::uint8_t {
  Accepted,
  NotBound,
  OtherTypes,
  ConditionFalse,
  ConditionError,
  CostError,
  NotLaunchable
};

// Ranks of tuned rows: a user's rows by their order, then those of the bundles, then a user's rows that nobody measured, then
// no row at all.
inline constexpr std::uint32_t kBundleTuned = 0x7fffffff;
inline constexpr std::uint32_t kNotTuned = 0xffffffff;

struct Decision {
  CandidateRef at;
  Verdict verdict = Verdict::Accepted;
  std::uint32_t condition = 0;  // position of the one that failed
  EvaluateStatus status = EvaluateStatus::Ok;
  std::int64_t cost = 0;
  std::uint32_t tuned_rank = kNotTuned;  // lower is better
  const UserRow* user = nullptr;         // the user's row that names it
  bool chosen = false;
  std::string
      problem{};  // NotLaunchable; NOLINT(readability-redundant-member-init): designated initialisers leave it out

  bool tuned() const { return tuned_rank != kNotTuned; }
};

// One launch with its numbers: grid in workgroups, values of the integer arguments in their order.
struct StepPlan {
  const layout::Step* step;
  const layout::Entry* entry;
  std::array<std::uint32_t, 3> grid;
  std::uint32_t lds;
  std::vector<std::int64_t> integers;  // one per argument; ARG_WORKSPACE: the byte offset, others 0
  // The programs of computed floats in the order of their arguments, with the call's integers in them.
  std::vector<std::vector<std::uint8_t>> reals;
};

struct LaunchPlan {
  const OperatorBlock* block = nullptr;
  std::vector<StepPlan> steps;
  std::uint64_t workspace = 0;
};

// Judges every candidate for the bound bindings (one per block) and marks the chosen one; `plan` is its launch. False
// when none is left, with NoKernel, or ArgumentDType when the types alone refuse all.
[[nodiscard]] bool select(const MergedOperator& op, std::span<const Binding> bindings, std::int64_t compute_units,
                          std::vector<Decision>& decisions, LaunchPlan& plan, Error& error);

// The numbers of one candidate's launch; false with the reason why it cannot be launched.
[[nodiscard]] bool plan_launch(const MergedOperator& op, const CandidateRef& at, const Binding& binding,
                               LaunchPlan& plan, std::string& problem);

// The places of the refused in `decisions`, those first that little keeps from serving the call: the fewest types that
// differ, then the fewest conditions that do not hold. For people: a choice that succeeds never asks.
std::vector<std::size_t> nearest_first(const MergedOperator& op, std::span<const Binding> bindings,
                                       std::span<const Decision> decisions);

// Why `decision` was taken or refused, for people.
std::string reason(const MergedOperator& op, std::span<const Binding> bindings, const Decision& decision);

}  // namespace apb
