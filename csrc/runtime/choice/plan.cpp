// The numbers of one launch: grids, dynamic LDS, workspace and integer arguments, each within what the driver takes.
#include <algorithm>
#include <limits>

#include "choice/select.h"
#include "expressions/real.h"

namespace apb {
namespace {

constexpr std::int64_t kMaxGridX = std::numeric_limits<std::int32_t>::max();
// CUDA takes 65535 workgroups in y and z. HIP takes 2^32 - 1 threads in each dimension.
constexpr std::int64_t kCudaMaxGridYZ = 65535;
constexpr std::int64_t kHipMaxThreads = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t kMaxWorkspace = std::int64_t{1} << 40;

class Planner {
 public:
  Planner(const OperatorBlock& block, const Binding& binding, std::string& problem)
      : block_(block), binding_(binding), problem_(problem) {}

  bool run(const layout::Recipe& recipe, LaunchPlan& plan) {
    plan.block = &block_;
    plan.steps.clear();
    std::int64_t workspace = 0;
    if (!number(recipe.workspace, 0, kMaxWorkspace, 0, "its workspace", workspace)) return false;
    plan.workspace = static_cast<std::uint64_t>(workspace);
    for (const layout::Step& step : block_.array(recipe.steps)) {
      if (!add(step, workspace, plan.steps.emplace_back())) return false;
    }
    return true;
  }

 private:
  bool fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  bool number(layout::Code code, std::int64_t least, std::int64_t most, std::int64_t absent, const char* what,
              std::int64_t& value) {
    value = absent;
    if (code.length == 0) return true;
    const EvaluateStatus status = evaluate_program(block_.code(code), binding_.slots.data(), value);
    if (status != EvaluateStatus::Ok) return fail(cat(what, " cannot be computed: ", evaluate_text(status)));
    if (value < least || value > most) return fail(cat(what, " is ", value, ", not between ", least, " and ", most));
    return true;
  }

  bool add(const layout::Step& step, std::int64_t workspace, StepPlan& out) {
    out.step = &step;
    out.entry = &block_.entries()[step.entry];
    if (!grid(step, out)) return false;
    const std::int64_t limit = block_.bundle().root().lds_bytes;
    const std::int64_t free_lds = limit == 0 ? std::numeric_limits<std::int32_t>::max() : limit - out.entry->lds_static;
    std::int64_t lds = 0;
    if (!number(step.lds, 0, free_lds < 0 ? 0 : free_lds, 0, "its dynamic LDS", lds)) return false;
    out.lds = static_cast<std::uint32_t>(lds);
    const std::uint32_t threads = step.block_x * step.block_y * step.block_z;
    if (out.entry->max_threads != 0 && threads > out.entry->max_threads) {
      return fail(cat("its block has ", threads, " threads, the code object allows ", out.entry->max_threads));
    }
    for (const layout::Arg& arg : block_.array(step.args)) {
      if (!argument(arg, workspace, out.integers.emplace_back(0))) return false;
      if (static_cast<ArgKind>(arg.kind) == ArgKind::Real) real(arg, out);
    }
    return true;
  }

  bool grid(const layout::Step& step, StepPlan& out) {
    const bool hip = static_cast<Vendor>(block_.bundle().root().vendor) == Vendor::Amd;
    const std::array<layout::Code, 3> codes{step.grid_x, step.grid_y, step.grid_z};
    const std::array<std::uint32_t, 3> blocks{step.block_x, step.block_y, step.block_z};
    for (std::size_t d = 0; d < codes.size(); ++d) {
      std::int64_t most = d == 0 ? kMaxGridX : kCudaMaxGridYZ;
      if (hip) most = std::min(kMaxGridX, kHipMaxThreads / std::int64_t{blocks[d]});
      std::int64_t value = 0;
      if (!number(codes[d], 0, most, 1, "its grid", value)) return false;
      out.grid[d] = static_cast<std::uint32_t>(value);
    }
    return true;
  }

  // The program of a computed float, with the call's integers in it.
  void real(const layout::Arg& arg, StepPlan& out) {
    const auto place = [this](std::uint32_t slot) { return static_cast<std::uint16_t>(block_.float_attribute(slot)); };
    out.reals.push_back(with_slots(block_.code(arg.code), binding_.slots.data(), place));
  }

  bool argument(const layout::Arg& arg, std::int64_t workspace, std::int64_t& value) {
    switch (static_cast<ArgKind>(arg.kind)) {
      case ArgKind::Int: {
        // Kernels read four bytes as a signed number: a stride of 2^31 elements would turn negative without a word.
        // One byte is a flag or a count, without a sign.
        std::int64_t least = std::numeric_limits<std::int64_t>::min();
        std::int64_t most = std::numeric_limits<std::int64_t>::max();
        if (arg.size == 4) {
          least = std::numeric_limits<std::int32_t>::min();
          most = std::numeric_limits<std::int32_t>::max();
        } else if (arg.size == 1) {
          least = 0;
          most = std::numeric_limits<std::uint8_t>::max();
        }
        return number(arg.code, least, most, 0, "an integer argument", value);
      }
      case ArgKind::Workspace: return number(arg.code, 0, workspace, 0, "a workspace offset", value);
      default: return true;
    }
  }

  const OperatorBlock& block_;
  const Binding& binding_;
  std::string& problem_;
};

}  // namespace

bool plan_launch(const MergedOperator& op, const CandidateRef& at, const Binding& binding, LaunchPlan& plan,
                 std::string& problem) {
  return Planner(*op.blocks[at.block], binding, problem).run(op.recipe(at), plan);
}

}  // namespace apb
