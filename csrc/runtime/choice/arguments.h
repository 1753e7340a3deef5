// The arguments of a Python call, in the order of the signature: tensors (arguments, then returns), then attributes.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "bundle/operator_block.h"
#include "errors.h"
#include "tensors/call.h"
#include "tensors/tensor.h"

namespace apb {

// The data of a signature that parsing needs, laid out for the hot path.
class ArgumentParser {
 public:
  ArgumentParser() = default;
  explicit ArgumentParser(const OperatorBlock& block);

  // The hot path: exact types and the exchange API only. False: use parse(), which also has the words for what is
  // wrong; a Python exception may be set and has to be cleared.
  [[nodiscard]] bool parse_fast(PyObject* const* args, std::size_t count, Call& call) const;

  // The attributes alone, of objects of exact types that never change. False: there are others among them, or too many or few
  // arguments; nothing is set.
  [[nodiscard]] bool fix(PyObject* const* args, std::size_t count, FixedArguments& out) const;

  // Everything; an Argument* error otherwise.
  [[nodiscard]] bool parse(PyObject* const* args, std::size_t count, Call& call, CallStorage& storage,
                           Error& error) const;

  // The tensor at a position of the call; empty where there is none.
  std::string_view tensor_name(std::size_t position) const {
    return position < tensors_ ? block_->text(block_->tensors()[position].name) : std::string_view();
  }

 private:
  struct AttributeSpec {
    AttributeKind kind;
    std::int64_t integer;  // default
    double real;           // default
    std::vector<std::string_view> values;
    std::string_view name;
  };

  bool read_attribute(const AttributeSpec& spec, PyObject* object, std::int64_t& integer, double& real,
                      std::string_view& said, Error& error) const;
  bool wrong(const AttributeSpec& spec, PyObject* object, Error& error) const;

  const OperatorBlock* block_ = nullptr;
  std::size_t tensors_ = 0;
  std::size_t required_ = 0;  // tensors and attributes without default
  std::vector<AttributeSpec> attributes_;
};

}  // namespace apb
