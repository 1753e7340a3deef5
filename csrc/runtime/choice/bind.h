// From a call to the slots of an operator block: every rule of the signature is checked here, before any choice.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "bundle/operator_block.h"
#include "errors.h"
#include "tensors/call.h"

namespace apb {

// A type variable that no given tensor names; it fits every recipe.
inline constexpr std::uint8_t kOpenType = kNone8;

// The bound call: every slot of the signature with its value.
struct Binding {
  std::array<std::int64_t, kMaxSlots> slots;
  std::array<double, kMaxFloats> floats;
  std::array<std::uint8_t, kMaxTypeVariables> types;  // by type variable: number of the type, or kOpenType
  std::span<const std::string_view> texts;            // by attribute: the call's
  bool bound = true;  // false: the rest is zero, since the block of an own bundle refuses the call
};

// Binds `call` for a device with `compute_units`, in this order: attributes and CUS, dims that are symbols (first
// tensor first, compared ever after), dims that are expressions, strides. The stride of a dim of size 0 or 1 is
// never compared; where only such a stride names a symbol, the symbol is the stride of dense memory. A symbol that
// only absent tensors name is 0. False with an Argument* error.
[[nodiscard]] bool bind(const OperatorBlock& block, const Call& call, std::int64_t compute_units, Binding& binding,
                        Error& error);

}  // namespace apb
