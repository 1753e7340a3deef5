// Several bundles, one operator: the CK-free wheel, what the CK wheel adds, and what own bundles add.
#include <algorithm>
#include <compare>
#include <map>
#include <tuple>

#include "choice/select.h"

namespace apb {
namespace {

std::string type_list(const OperatorBlock& block, const layout::Recipe& recipe) {
  const auto variables = block.array(block.op().type_variables);
  const auto types = block.array(recipe.types);
  std::string out;
  for (std::size_t i = 0; i < types.size(); ++i) {
    out += cat(i == 0 ? "" : ",", block.text(variables[i].name), "=", kDTypes[types[i]].name);
  }
  return out;
}

// Which argument of one signature two blocks describe otherwise, or nothing. An own bundle may be made by other tools: its text
// alone does not say that what calls rely on is the same.
std::string interface_difference(const OperatorBlock& first, const OperatorBlock& other) {
  for (std::size_t i = 0; i < first.tensors().size(); ++i) {
    const layout::Tensor& a = first.tensors()[i];
    const layout::Tensor& b = other.tensors()[i];
    const std::string_view name = first.text(a.name);
    if (name != other.text(b.name))
      return cat("the name of argument ", name, ", which is ", other.text(b.name), " there");
    if (a.role != b.role) return cat("whether ", name, " is read, written, or both");
    if (a.optional != b.optional) return cat("whether ", name, " may be None");
    if (a.in_place != b.in_place) return cat("the argument that ", name, " may be in place of");
  }
  for (std::size_t i = 0; i < first.attributes().size(); ++i) {
    const layout::Attribute& a = first.attributes()[i];
    const layout::Attribute& b = other.attributes()[i];
    const std::string_view name = first.text(a.name);
    if (name != other.text(b.name))
      return cat("the name of argument ", name, ", which is ", other.text(b.name), " there");
    if (a.kind != b.kind) return cat("the kind of number that ", name, " is");
  }
  return {};
}

bool same_signature(const OperatorBlock& first, const OperatorBlock& other, Error& error) {
  const layout::Operator& a = first.op();
  const layout::Operator& b = other.op();
  const bool counts = a.tensors.count == b.tensors.count && a.attributes.count == b.attributes.count &&
                      a.type_variables.count == b.type_variables.count;
  const bool same_text = first.text(a.signature) == other.text(b.signature);
  const std::string difference = !counts     ? "how many arguments they have"
                                 : same_text ? interface_difference(first, other)
                                             : std::string();
  if (same_text && difference.empty()) return true;
  const std::string_view tree = other.bundle().tree();
  const std::string found = same_text
                                ? cat(first.bundle().path(), " and ", other.bundle().path(), " have the signature '",
                                      first.text(a.signature), "' and differ in ", difference)
                                : cat(first.bundle().path(), " has the signature '", first.text(a.signature), "' and ",
                                      other.bundle().path(), " has '", other.text(b.signature), "'");
  return error.set(ErrorKind::BundleConflict, cat("combine the bundles of ", first.name()), found,
                   tree.empty() ? std::string("Install bundles of one release")
                                : cat("Install a release of ", tree, " that is made for this one, or uninstall it"));
}

// Where a kernel stands: before the product's, among them, or behind them; then by tree; then by rank.
struct KernelPlace {
  std::uint32_t side;  // 0, 1, 2
  std::string_view tree;
  std::uint32_t rank;

  auto operator<=>(const KernelPlace&) const = default;
};

KernelPlace place_of(const OperatorBlock& block, const layout::Kernel& kernel) {
  const std::string_view tree = block.bundle().tree();
  if (tree.empty()) return {1, tree, kernel.rank};
  const bool after = kernel.rank >= kAfterProduct;
  return {after ? 2U : 0U, tree, after ? kernel.rank - kAfterProduct : kernel.rank};
}

using KernelName = std::pair<std::string_view, std::string_view>;  // of its tree, and its own

// Kernels to their place in the order; those of one place as the bundles list them.
std::map<KernelName, std::uint32_t> kernel_order(const MergedOperator& op) {
  std::vector<std::pair<KernelPlace, KernelName>> kernels;
  for (const OperatorBlock* block : op.blocks) {
    for (const layout::Kernel& kernel : block->kernels())
      kernels.emplace_back(place_of(*block, kernel), KernelName{block->bundle().tree(), block->text(kernel.name)});
  }
  std::stable_sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::map<KernelName, std::uint32_t> order;
  for (const auto& [place, name] : kernels) order.emplace(name, static_cast<std::uint32_t>(order.size()));
  return order;
}

// Kernel, variant and types of each recipe, and the block that has it.
using Seen = std::map<std::tuple<std::string_view, std::string_view, std::string>, const OperatorBlock*>;

// Adds the candidates of a block, in their order within it. False, and none is added, when another block has one of them.
bool add_block(MergedOperator& op, const OperatorBlock& block, Seen& seen, Error& error) {
  if (!op.blocks.empty() && !same_signature(*op.blocks.front(), block, error)) return false;
  Seen mine;
  for (const layout::Recipe& recipe : block.recipes()) {
    const std::string_view kernel = block.text(block.kernels()[recipe.kernel].name);
    const std::string_view variant = block.text(recipe.variant);
    std::string types = type_list(block, recipe);
    const std::tuple key{kernel, variant, types};
    const auto twin = seen.find(key);
    if (twin != seen.end() || !mine.emplace(key, &block).second) {
      const std::string& first = twin != seen.end() ? twin->second->bundle().path() : block.bundle().path();
      const std::string_view tree = block.bundle().tree();
      return error.set(ErrorKind::BundleConflict, cat("combine the bundles of ", block.name()),
                       cat("the recipe ", kernel, "[", variant, "]", types.empty() ? "" : " ", types, " is in ", first,
                           " and in ", block.bundle().path()),
                       tree.empty() ? std::string("Uninstall one of the two wheels, or install bundles of one release")
                                    : cat("Give the kernel of ", tree, " another name, or uninstall ", tree));
    }
  }
  seen.merge(mine);
  const auto number = static_cast<std::uint32_t>(op.blocks.size());
  op.blocks.push_back(&block);
  for (std::uint32_t r = 0; r < block.recipes().size(); ++r) op.candidates.push_back({number, r, 0});
  return true;
}

void sort_candidates(MergedOperator& op) {
  const auto order = kernel_order(op);
  for (CandidateRef& at : op.candidates)
    at.order = order.at({op.tree(at), op.blocks[at.block]->text(op.kernel(at).name)});
  std::stable_sort(op.candidates.begin(), op.candidates.end(),
                   [](const CandidateRef& a, const CandidateRef& b) { return a.order < b.order; });
}

}  // namespace

std::string MergedOperator::label(const CandidateRef& at) const {
  const OperatorBlock& block = *blocks[at.block];
  const std::string types = type_list(block, recipe(at));
  const std::string_view own = tree(at);
  return cat(own, own.empty() ? "" : ":", block.text(kernel(at).name), "[", block.text(recipe(at).variant), "]",
             types.empty() ? "" : " ", types);
}

bool MergedOperator::drop(std::size_t block, const Error& error) {
  const auto is_its = [&](const CandidateRef& at) { return at.block == block; };
  if (blocks[block]->bundle().tree().empty() || std::ranges::all_of(candidates, is_its)) return false;
  std::erase_if(candidates, is_its);
  refused.push_back({blocks[block]->bundle().path(), error});
  return true;
}

bool merge(std::string_view name, std::span<Bundle* const> bundles, MergedOperator& out, Error& error) {
  std::string paths;
  std::vector<Bundle*> sorted;
  for (Bundle* bundle : bundles) {
    paths += cat(paths.empty() ? "" : ", ", bundle->path());
    if (bundle->has(name)) sorted.push_back(bundle);
  }
  // What the product says of an operator is what own bundles are compared with.
  std::ranges::stable_partition(sorted, [](const Bundle* bundle) { return bundle->tree().empty(); });
  Seen seen;
  for (Bundle* bundle : sorted) {
    Error problem;
    const OperatorBlock* block = bundle->operator_block(name, problem);
    if (block != nullptr && add_block(out, *block, seen, problem)) continue;
    if (bundle->tree().empty()) {
      error = std::move(problem);
      return false;
    }
    out.refused.push_back({bundle->path(), std::move(problem)});
  }
  if (out.blocks.empty()) {
    if (!out.refused.empty()) {
      error = out.refused.front().error;
      return false;
    }
    return error.set(ErrorKind::NoOperator, cat("find the operator ", name),
                     paths.empty() ? "no bundle serves this device"
                                   : cat("no bundle for this device has it (searched: ", paths, ")"),
                     "Install the wheel that has it, or a newer one");
  }
  sort_candidates(out);
  return true;
}

}  // namespace apb
