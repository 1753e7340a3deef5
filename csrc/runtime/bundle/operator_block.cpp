#include "bundle/operator_block.h"

#include <locale.h>  // NOLINT(modernize-deprecated-headers): newlocale is POSIX, <clocale> need not have it

#include <algorithm>
#include <clocale>
#include <cstdlib>

#include "errors.h"
#include "expressions/real.h"

namespace apb {
namespace {

bool broken(std::string& problem, std::string rule) {
  problem = std::move(rule);
  return false;
}

// strtod reads the decimal point of the process's locale, hexadecimal numbers, and words; a bundle has decimal digits and
// a dot.
bool parse_real(std::string_view text, double& value) {
  if (text.find_first_not_of("+-.0123456789eE") != std::string_view::npos) return false;
  static const locale_t plain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  const std::string copy(text);
  char* end = nullptr;
  value = ::strtod_l(copy.c_str(), &end, plain);
  return !copy.empty() && end == copy.c_str() + copy.size();
}

bool is_power_of_two(std::uint32_t value) { return (value & (value - 1)) == 0; }

}  // namespace

bool OperatorBlock::check(std::uint32_t code_object_count, std::string& problem) {
  if (!check_region<layout::Operator>(region_, problem)) return false;
  tensors_ = array(op().tensors);
  attributes_ = array(op().attributes);
  if (!check_signature(problem)) return false;
  for (const layout::Entry& entry : entries()) {
    if (entry.code_object >= code_object_count) {
      return broken(problem, cat("entry ", text(entry.name), " names code object ", entry.code_object));
    }
  }
  for (const layout::Recipe& recipe : recipes()) {
    if (!check_recipe(recipe, problem)) return false;
  }
  if (!check_tuned(problem)) return false;
  collect_facts();
  return true;
}

bool OperatorBlock::check_signature(std::string& problem) const {
  const layout::Operator& operation = op();
  if (operation.slots.count > kMaxSlots || operation.floats.count > kMaxFloats || tensors_.size() > kMaxTensors ||
      attributes_.size() > kMaxAttributes) {
    return broken(problem, cat("more than ", kMaxTensors, " tensors, ", kMaxAttributes, " attributes, ", kMaxSlots,
                               " slots or ", kMaxFloats, " floats"));
  }
  if (operation.return_count > tensors_.size()) return broken(problem, "more returns than tensors");
  if (operation.type_variables.count > kMaxTypeVariables)
    return broken(problem, cat("more than ", kMaxTypeVariables, " type variables"));
  for (const layout::TypeVariable& variable : array(operation.type_variables)) {
    for (const std::uint8_t number : array(variable.allowed)) {
      if (number >= kDTypes.size())
        return broken(problem, cat("type variable ", text(variable.name), " allows type ", number));
    }
  }
  for (const layout::Tensor& tensor : tensors_) {
    if (!check_tensor(tensor, problem)) return false;
  }
  for (const layout::Kernel& kernel : kernels()) {
    if (kernel.backend >= kBackends.size() || kernel.profile >= kProfiles.size()) {
      return broken(problem, cat("kernel ", text(kernel.name), " has an unknown backend or profile"));
    }
  }
  return check_attributes(problem);
}

bool OperatorBlock::check_tensor(const layout::Tensor& tensor, std::string& problem) const {
  const auto wrong = [&](const char* rule) {
    return broken(problem, cat("tensor ", text(tensor.name), " has ", rule));
  };
  const std::size_t slots = op().slots.count;
  if (tensor.type_var != kNone8 && tensor.type_var >= op().type_variables.count)
    return wrong("an unknown type variable");
  if (tensor.dtype >= kDTypes.size() || tensor.role >= kRoles.size()) return wrong("an unknown type or role");
  if (tensor.address_slot >= slots || tensor.given_slot >= slots) return wrong("a slot out of range");
  if (tensor.in_place > tensors_.size() || (tensor.in_place != 0 && static_cast<Role>(tensor.role) != Role::Out))
    return wrong("memory of a tensor that it cannot be in place of");
  if (!is_power_of_two(tensor.align)) return wrong("an alignment that is no power of two");
  if (tensor.dims.count > kMaxRank) return wrong("too many dims");
  if (tensor.star != 0 && tensor.dims.count == 0) return wrong("a star and no dim");
  const std::size_t strides = tensor.contiguous != 0 ? 0 : tensor.dims.count;
  if (tensor.strides.count != strides) return wrong("not one stride per dim");
  for (const layout::Array<layout::Dim> part : {tensor.dims, tensor.strides}) {
    for (const layout::Dim& dim : array(part)) {
      const auto kind = static_cast<DimKind>(dim.kind);
      if (kind > DimKind::Expression) return wrong("a dim of unknown kind");
      if (kind == DimKind::Bind && dim.slot >= slots) return wrong("a dim with a slot out of range");
      if (kind == DimKind::Expression && dim.code.length == 0) return wrong("a dim without its expression");
      if (!check_code(dim.code, problem)) return false;
    }
  }
  return true;
}

bool OperatorBlock::check_attributes(std::string& problem) const {
  bool optional = false;
  for (const layout::Attribute& attribute : attributes_) {
    const auto wrong = [&](const char* rule) {
      return broken(problem, cat("attribute ", text(attribute.name), " ", rule));
    };
    const auto kind = static_cast<AttributeKind>(attribute.kind);
    if (kind > AttributeKind::Text) return wrong("has an unknown kind");
    const std::size_t slots = kind == AttributeKind::Float ? op().floats.count : op().slots.count;
    if (attribute.slot >= slots) return wrong("has a slot out of range");
    if (attribute.default_text.length == 0) {
      if (optional) return wrong("has no default and stands behind one that has");
      continue;
    }
    optional = true;
    std::int64_t integer = 0;
    double real = 0;
    if (!default_value(attribute, integer, real)) return wrong("has a default of another kind");
  }
  return true;
}

bool OperatorBlock::check_recipe(const layout::Recipe& recipe, std::string& problem) const {
  if (recipe.kernel >= op().kernels.count) return broken(problem, cat("a recipe names kernel ", recipe.kernel));
  if (recipe.types.count != op().type_variables.count) return broken(problem, "a recipe leaves a type variable open");
  for (const std::uint8_t number : array(recipe.types)) {
    if (number >= kDTypes.size()) return broken(problem, cat("a recipe names type ", number));
  }
  for (const layout::Condition& condition : array(recipe.conditions)) {
    if (condition.code.length == 0) return broken(problem, "a condition has no program");
    if (!check_code(condition.code, problem)) return false;
  }
  if (!check_code(recipe.cost, problem) || !check_code(recipe.workspace, problem)) return false;
  if (recipe.steps.count > kMaxSteps) return broken(problem, cat("a recipe has ", recipe.steps.count, " steps"));
  for (const layout::Step& step : array(recipe.steps)) {
    if (!check_step(step, problem)) return false;
  }
  return true;
}

bool OperatorBlock::check_step(const layout::Step& step, std::string& problem) const {
  if (step.entry >= op().entries.count) return broken(problem, cat("a step names entry ", step.entry));
  if (step.kernarg_size > kMaxKernarg) return broken(problem, cat("a kernarg buffer of ", step.kernarg_size, " bytes"));
  const std::uint64_t threads = std::uint64_t{step.block_x} * step.block_y;
  if (step.block_x > 1024 || step.block_y > 1024 || step.block_z > 1024 || threads * step.block_z > 1024 ||
      threads * step.block_z == 0) {
    return broken(problem, "a block of no threads or more than 1024");
  }
  for (const layout::Code code : {step.grid_x, step.grid_y, step.grid_z, step.lds}) {
    if (!check_code(code, problem)) return false;
  }
  for (const layout::Arg& arg : array(step.args)) {
    if (arg.kind > static_cast<std::uint8_t>(ArgKind::Real))
      return broken(problem, "a kernel argument of unknown kind");
    const auto kind = static_cast<ArgKind>(arg.kind);
    const bool pointer = kind == ArgKind::Tensor || kind == ArgKind::Workspace;
    if (arg.size != 8 && (arg.size != 4 || pointer) && (arg.size != 1 || kind != ArgKind::Int))
      return broken(problem, cat("a kernel argument of ", arg.size, " bytes"));
    if (std::uint64_t{arg.offset} + arg.size > step.kernarg_size) {
      return broken(problem, "a kernel argument leaves the kernarg buffer");
    }
    if (kind == ArgKind::Tensor && arg.operand >= tensors_.size())
      return broken(problem, "a kernel argument names no tensor");
    if (kind == ArgKind::Float && float_attribute(arg.operand) < 0)
      return broken(problem, "a kernel argument names no float attribute");
    if (kind == ArgKind::Int && arg.code.length == 0) return broken(problem, "an integer argument has no program");
    const auto has_float = [this](std::uint32_t slot) { return float_attribute(slot) >= 0; };
    const bool good = kind == ArgKind::Real ? check_real_program(code(arg.code), op().slots.count, has_float, problem)
                                            : check_code(arg.code, problem);
    if (!good) return false;
  }
  return true;
}

bool OperatorBlock::check_tuned(std::string& problem) const {
  for (const std::uint16_t slot : array(op().tuned_slots)) {
    if (slot >= op().slots.count) return broken(problem, "a tuned slot is out of range");
  }
  const layout::TunedRow* before = nullptr;
  for (const layout::TunedRow& row : array(op().tuned)) {
    if (row.recipe >= op().recipes.count) return broken(problem, cat("a tuned row names recipe ", row.recipe));
    if (row.values.count != op().tuned_slots.count) return broken(problem, "a tuned row has another number of values");
    if (!check_last(row, problem)) return false;
    if (before != nullptr && row_before(row, *before)) return broken(problem, "tuned rows are not sorted");
    before = &row;
  }
  return true;
}

bool OperatorBlock::check_last(const layout::TunedRow& row, std::string& problem) const {
  if (row.last.count == 0) return true;
  if (row.last.count != row.values.count) return broken(problem, "a tuned row ends with another number of values");
  const auto first = array(row.values);
  const auto last = array(row.last);
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (last[i] < first[i]) return broken(problem, "a tuned row ends before it begins");
  }
  return true;
}

bool OperatorBlock::row_before(const layout::TunedRow& row, const layout::TunedRow& other) const {
  if (row.cus != other.cus) return row.cus < other.cus;
  const auto left = array(row.values);
  const auto right = array(other.values);
  return std::lexicographical_compare(left.begin(), left.end(), right.begin(), right.end());
}

bool OperatorBlock::check_code(layout::Code at, std::string& problem) const {
  return check_program(code(at), op().slots.count, problem);
}

bool OperatorBlock::default_value(const layout::Attribute& attribute, std::int64_t& integer, double& real) const {
  const std::string_view given = text(attribute.default_text);
  switch (static_cast<AttributeKind>(attribute.kind)) {
    case AttributeKind::Int: {
      const auto [end, status] = std::from_chars(given.data(), given.data() + given.size(), integer);
      return status == std::errc() && end == given.data() + given.size();
    }
    case AttributeKind::Bool: integer = given == "true"; return given == "true" || given == "false";
    case AttributeKind::Float: return parse_real(given, real);
    case AttributeKind::Enum: {
      const auto values = array(attribute.values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (text(values[i]) == given) {
          integer = static_cast<std::int64_t>(i);
          return true;
        }
      }
      return false;
    }
    case AttributeKind::Text: integer = 0; return given == kNoText;
  }
  return false;
}

int OperatorBlock::float_attribute(std::uint32_t slot) const {
  for (std::size_t i = 0; i < attributes_.size(); ++i) {
    const bool real = static_cast<AttributeKind>(attributes_[i].kind) == AttributeKind::Float;
    if (real && attributes_[i].slot == slot) return static_cast<int>(i);
  }
  return -1;
}

int OperatorBlock::text_attribute(std::size_t slot) const {
  for (std::size_t i = 0; i < attributes_.size(); ++i) {
    const bool text = static_cast<AttributeKind>(attributes_[i].kind) == AttributeKind::Text;
    if (text && attributes_[i].slot == slot) return static_cast<int>(i);
  }
  return -1;
}

void OperatorBlock::collect_facts() {
  bool is_address[kMaxSlots] = {};
  for (const layout::Tensor& tensor : tensors_) {
    is_address[tensor.address_slot] = true;
    // Eight bytes is the largest element: every address must be a multiple of its element, so the memo must see those bits.
    address_use_.alignment = std::max({address_use_.alignment, std::uint64_t{tensor.align}, std::uint64_t{8}});
    for (const layout::Array<layout::Dim> part : {tensor.dims, tensor.strides}) {
      for (const layout::Dim& dim : array(part)) note_address_use(code(dim.code), is_address, address_use_);
    }
  }
  const auto note = [&](layout::Code at) { note_address_use(code(at), is_address, address_use_); };
  for (const layout::Recipe& recipe : recipes()) {
    note(recipe.cost);
    note(recipe.workspace);
    for (const layout::Condition& condition : array(recipe.conditions)) note(condition.code);
    for (const layout::Step& step : array(recipe.steps)) {
      for (const layout::Code part : {step.grid_x, step.grid_y, step.grid_z, step.lds}) note(part);
      for (const layout::Arg& arg : array(step.args)) {
        if (static_cast<ArgKind>(arg.kind) == ArgKind::Real)
          note_real_address_use(code(arg.code), is_address, address_use_);
        else
          note(arg.code);
      }
    }
  }
  for (const std::uint16_t slot : array(op().tuned_slots)) {
    if (is_address[slot]) address_use_.exact = true;
  }
  const auto slots = array(op().slots);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (text(slots[i]) == "CUS") cus_slot_ = static_cast<int>(i);
  }
}

}  // namespace apb
