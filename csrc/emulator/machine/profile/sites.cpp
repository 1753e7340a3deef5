#include "machine/profile/sites.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "isa/decode.h"
#include "machine/output/json.h"

namespace apb::emu {
namespace {

constexpr std::size_t kMostSites = 200;

std::uint64_t weight(const Site& site) { return site.wait_cycles + site.lds_conflicts; }

std::string field(const char* name, std::uint64_t value) {
  return std::string(", \"") + name + "\": " + std::to_string(value);
}

}  // namespace

void Site::add(const Site& more) {
  executed += more.executed;
  wait_cycles += more.wait_cycles;
  lds_conflicts += more.lds_conflicts;
  bytes_wanted += more.bytes_wanted;
  bytes_touched += more.bytes_touched;
}

void KernelSites::add(const Kernel& kernel, const Sites& sites) {
  const CodeObject& object = *kernel.object;
  for (const auto& [offset, site] : sites) {
    if (!site.says_something() || offset / 4 >= object.instructions.size()) continue;
    Named& named = sites_[offset];
    if (named.instruction.empty()) named.instruction = disassemble(object.target, object.instructions[offset / 4]);
    named.site.add(site);
  }
}

std::string KernelSites::json() const {
  std::uint64_t least = 0;
  if (sites_.size() > kMostSites) {
    std::vector<std::uint64_t> weights;
    weights.reserve(sites_.size());
    for (const auto& [offset, named] : sites_) weights.push_back(weight(named.site));
    std::ranges::nth_element(weights, weights.begin() + kMostSites - 1, std::greater<>());
    least = weights[kMostSites - 1];
  }
  std::string out = "[";
  std::size_t written = 0;
  for (const auto& [offset, named] : sites_) {
    if (weight(named.site) < least || written == kMostSites) continue;
    out += (written++ != 0 ? ", " : "") + ("{\"offset\": " + std::to_string(offset)) +
           ", \"instruction\": " + json_text(named.instruction) + field("executed", named.site.executed) +
           field("wait_cycles", named.site.wait_cycles) + field("lds_conflicts", named.site.lds_conflicts) +
           field("bytes_wanted", named.site.bytes_wanted) + field("bytes_touched", named.site.bytes_touched) + "}";
  }
  return out + "]";
}

}  // namespace apb::emu
