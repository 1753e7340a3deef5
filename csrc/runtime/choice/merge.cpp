// Several bundles, one operator: the CK-free wheel and what the CK wheel adds.
#include <algorithm>
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

bool same_signature(const OperatorBlock& first, const OperatorBlock& other, Error& error) {
  const layout::Operator& a = first.op();
  const layout::Operator& b = other.op();
  const bool counts = a.tensors.count == b.tensors.count && a.attributes.count == b.attributes.count &&
                      a.type_variables.count == b.type_variables.count;
  if (counts && first.text(a.signature) == other.text(b.signature)) return true;
  return error.set(ErrorKind::BundleConflict, cat("combine the bundles of ", first.name()),
                   cat(first.bundle().path(), " has the signature '", first.text(a.signature), "' and ",
                       other.bundle().path(), " has '", other.text(b.signature), "'"),
                   "Install bundles of one release");
}

// Kernel names to their place in the order: by rank, then as the bundles list them.
std::map<std::string_view, std::uint32_t> kernel_order(const MergedOperator& op) {
  std::vector<std::pair<std::uint32_t, std::string_view>> kernels;
  for (const OperatorBlock* block : op.blocks) {
    for (const layout::Kernel& kernel : block->kernels()) kernels.emplace_back(kernel.rank, block->text(kernel.name));
  }
  std::stable_sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::map<std::string_view, std::uint32_t> order;
  for (const auto& [rank, name] : kernels) order.emplace(name, static_cast<std::uint32_t>(order.size()));
  return order;
}

bool collect_candidates(MergedOperator& op, Error& error) {
  const auto order = kernel_order(op);
  std::map<std::tuple<std::string_view, std::string_view, std::string>, const OperatorBlock*> seen;
  for (std::uint32_t b = 0; b < op.blocks.size(); ++b) {
    const OperatorBlock& block = *op.blocks[b];
    const auto recipes = block.recipes();
    for (std::uint32_t r = 0; r < recipes.size(); ++r) {
      const std::string_view kernel = block.text(block.kernels()[recipes[r].kernel].name);
      op.candidates.push_back({b, r, order.at(kernel)});
      const auto [twin, fresh] =
          seen.try_emplace({kernel, block.text(recipes[r].variant), type_list(block, recipes[r])}, &block);
      if (!fresh) {
        return error.set(ErrorKind::BundleConflict, cat("combine the bundles of ", block.name()),
                         cat("the recipe ", op.label(op.candidates.back()), " is in ", twin->second->bundle().path(),
                             " and in ", block.bundle().path()),
                         "Uninstall one of the two wheels, or install bundles of one release");
      }
    }
  }
  std::stable_sort(op.candidates.begin(), op.candidates.end(),
                   [](const CandidateRef& a, const CandidateRef& b) { return a.order < b.order; });
  return true;
}

}  // namespace

std::string MergedOperator::label(const CandidateRef& at) const {
  const OperatorBlock& block = *blocks[at.block];
  const std::string types = type_list(block, recipe(at));
  return cat(block.text(kernel(at).name), "[", block.text(recipe(at).variant), "]", types.empty() ? "" : " ", types);
}

bool merge(std::string_view name, std::span<Bundle* const> bundles, MergedOperator& out, Error& error) {
  std::string paths;
  for (Bundle* bundle : bundles) {
    paths += cat(paths.empty() ? "" : ", ", bundle->path());
    if (!bundle->has(name)) continue;
    const OperatorBlock* block = bundle->operator_block(name, error);
    if (block == nullptr) return false;
    if (!out.blocks.empty() && !same_signature(*out.blocks.front(), *block, error)) return false;
    out.blocks.push_back(block);
  }
  if (out.blocks.empty()) {
    return error.set(ErrorKind::NoOperator, cat("find the operator ", name),
                     paths.empty() ? "no bundle serves this device"
                                   : cat("no bundle for this device has it (searched: ", paths, ")"),
                     "Install the wheel that has it, or a newer one");
  }
  return collect_candidates(out, error);
}

}  // namespace apb
