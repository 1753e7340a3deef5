// One operator block: a checked copy of its region, and the facts that every call needs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bundle/region.h"
#include "bundle_layout.h"
#include "expressions/expression.h"

namespace apb {

class Bundle;

// Limits that let a call live on the stack. They are far above AITER's largest signature, and check_rules refuses
// a block beyond them.
inline constexpr std::size_t kMaxTensors = 48;
inline constexpr std::size_t kMaxAttributes = 48;
inline constexpr std::size_t kMaxSlots = 512;
inline constexpr std::size_t kMaxFloats = 16;
inline constexpr std::size_t kMaxTypeVariables = 16;
inline constexpr std::size_t kMaxRank = 16;  // dims of a tensor of the call
inline constexpr std::size_t kMaxSteps = 16;
inline constexpr std::size_t kMaxKernarg = 4096;

class OperatorBlock {
 public:
  OperatorBlock(const Bundle& bundle, std::vector<std::uint64_t> bytes, std::size_t size)
      : bundle_(bundle),
        bytes_(std::move(bytes)),
        region_{reinterpret_cast<const std::uint8_t*>(bytes_.data()), size} {}

  // Bounds first, then the rules; false with the broken rule. Call once, before anything else.
  [[nodiscard]] bool check(std::uint32_t code_object_count, std::string& problem);

  const Bundle& bundle() const { return bundle_; }
  const layout::Operator& op() const { return region_.root<layout::Operator>(); }
  std::string_view name() const { return text(op().name); }
  std::string_view text(layout::Text at) const { return region_.text(at); }
  Program code(layout::Code at) const { return region_.code(at); }
  template <class Element>
  std::span<const Element> array(layout::Array<Element> at) const {
    return region_.array(at);
  }

  std::span<const layout::Tensor> tensors() const { return tensors_; }
  std::span<const layout::Attribute> attributes() const { return attributes_; }
  std::span<const layout::Recipe> recipes() const { return array(op().recipes); }
  std::span<const layout::Kernel> kernels() const { return array(op().kernels); }
  std::span<const layout::Entry> entries() const { return array(op().entries); }

  // The slot called CUS, or -1.
  int cus_slot() const { return cus_slot_; }
  // The bits of an address that decide: those below `alignment`, or all if `exact`.
  const AddressUse& address_use() const { return address_use_; }

  // The default of an attribute (`integer` for int, bool and enum, `real` for float); false when the text is none.
  [[nodiscard]] bool default_value(const layout::Attribute& attribute, std::int64_t& integer, double& real) const;
  // Position of the float attribute that lives in float slot `slot`, or -1.
  int float_attribute(std::uint32_t slot) const;
  // Position of the attribute that is a text and lives in slot `slot`, or -1.
  int text_attribute(std::size_t slot) const;

 private:
  bool check_signature(std::string& problem) const;
  bool check_tensor(const layout::Tensor& tensor, std::string& problem) const;
  bool check_attributes(std::string& problem) const;
  bool check_recipe(const layout::Recipe& recipe, std::string& problem) const;
  bool check_step(const layout::Step& step, std::string& problem) const;
  bool check_tuned(std::string& problem) const;
  bool check_last(const layout::TunedRow& row, std::string& problem) const;
  bool row_before(const layout::TunedRow& row, const layout::TunedRow& other) const;
  bool check_code(layout::Code at, std::string& problem) const;
  void collect_facts();

  const Bundle& bundle_;
  std::vector<std::uint64_t> bytes_;
  Region region_;
  std::span<const layout::Tensor> tensors_;
  std::span<const layout::Attribute> attributes_;
  int cus_slot_ = -1;
  AddressUse address_use_{16, false};
};

}  // namespace apb
