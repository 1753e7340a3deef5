#include "choice/arguments.h"

#include "tensors/tangent.h"

namespace apb {
namespace {

// The slot value of a text: contract/bytecode.py, text_number.
std::int64_t text_number(std::string_view text) {
  if (text.empty()) return 0;
  std::uint64_t value = 0xcbf29ce484222325U;
  for (const char byte : text) value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  return static_cast<std::int64_t>(value);
}

// None is an empty text. False when the object is neither None nor a text; Python's error is not set.
bool read_name(PyObject* object, std::string_view& said, std::int64_t& number) {
  said = {};
  if (object != py::none() && !py::read_text(object, said)) return false;
  number = text_number(said);
  return true;
}

// What an attribute must be, by AttributeKind. An enum lists its values instead.
constexpr std::array<const char*, 5> kWanted{"an int of 64 bits", "a bool", "a float", "", "a str or None"};
constexpr std::size_t kLongestShown = 60;

}  // namespace

ArgumentParser::ArgumentParser(const OperatorBlock& block)
    : block_(&block), tensors_(block.tensors().size()), required_(tensors_) {
  for (const layout::Attribute& attribute : block.attributes()) {
    AttributeSpec spec{static_cast<AttributeKind>(attribute.kind), 0, 0, {}, block.text(attribute.name)};
    for (const layout::Text value : block.array(attribute.values)) spec.values.push_back(block.text(value));
    if (attribute.default_text.length == 0)
      ++required_;
    else
      static_cast<void>(block.default_value(attribute, spec.integer, spec.real));  // check() has tried it
    attributes_.push_back(std::move(spec));
  }
}

bool ArgumentParser::parse_fast(PyObject* const* args, std::size_t count, Call& call) const {
  if (count < required_ || count > tensors_ + attributes_.size()) return false;
  call.gradients_matter = gradients_matter();
  for (std::size_t i = 0; i < tensors_; ++i) {
    if (!read_tensor_fast(args[i], call.tensors[i], call)) return false;
  }
  for (std::size_t i = 0; i < attributes_.size(); ++i) {
    const AttributeSpec& spec = attributes_[i];
    if (tensors_ + i >= count) {
      call.integers[i] = spec.integer;
      call.reals[i] = spec.real;
      call.texts[i] = {};
      continue;
    }
    PyObject* object = args[tensors_ + i];
    PyTypeObject* type = py::type_of(object);
    call.integers[i] = 0;
    if (spec.kind == AttributeKind::Float && type == &PyFloat_Type) {
      call.reals[i] = PyFloat_AsDouble(object);
    } else if (spec.kind == AttributeKind::Int && type == &PyLong_Type) {
      call.integers[i] = PyLong_AsLongLong(object);
      if (call.integers[i] == -1 && PyErr_Occurred() != nullptr) return false;
    } else if (spec.kind == AttributeKind::Bool && (object == py::true_object() || object == py::false_object())) {
      call.integers[i] = object == py::true_object() ? 1 : 0;
    } else if (spec.kind == AttributeKind::Text) {
      if (!read_name(object, call.texts[i], call.integers[i])) return false;
    } else {
      Error unused;
      if (!read_attribute(spec, object, call.integers[i], call.reals[i], call.texts[i], unused)) return false;
    }
  }
  call.tensor_count = tensors_;
  call.attribute_count = attributes_.size();
  return (!call.asks_gradient || !gradients_recorded()) && !tangents_matter();
}

bool ArgumentParser::fix(PyObject* const* args, std::size_t count, FixedArguments& out) const {
  out.forget();
  if (count < required_ || count > tensors_ + attributes_.size()) return false;
  out.integers.clear();
  out.reals.clear();
  out.texts.clear();
  for (std::size_t i = 0; i < attributes_.size(); ++i) {
    const AttributeSpec& spec = attributes_[i];
    std::int64_t integer = spec.integer;
    double real = spec.real;
    std::string_view text;
    if (tensors_ + i < count) {
      PyObject* object = args[tensors_ + i];
      const PyTypeObject* type = py::type_of(object);
      const bool constant = py::is_none(object) || object == py::true_object() || object == py::false_object() ||
                            type == &PyLong_Type || type == &PyFloat_Type || type == &PyUnicode_Type;
      integer = 0;
      Error unused;
      if (!constant || !read_attribute(spec, object, integer, real, text, unused)) return false;
    }
    out.integers.push_back(integer);
    out.reals.push_back(real);
    out.texts.push_back(text);
  }
  out.tensors = tensors_;
  out.parser = this;
  return true;
}

bool ArgumentParser::parse(PyObject* const* args, std::size_t count, Call& call, CallStorage& storage,
                           Error& error) const {
  if (count < required_ || count > tensors_ + attributes_.size()) {
    const std::size_t most = tensors_ + attributes_.size();
    return error.set(
        ErrorKind::ArgumentCount, cat(block_->name()),
        cat("takes ", required_, required_ == most ? std::string() : cat(" to ", most), " arguments, got ", count),
        cat("Its signature is: ", block_->text(block_->op().signature)));
  }
  for (std::size_t i = 0; i < tensors_; ++i) {
    storage.read_only = false;
    bool good = read_tensor(args[i], call.tensors[i], call, storage, error);
    if (good && storage.read_only && static_cast<Role>(block_->tensors()[i].role) != Role::In) {
      good = error.set(ErrorKind::ArgumentKind, "", "is written and must not be read-only, as its DLPack flag says",
                       "Pass a writable copy");
    }
    if (!good) {
      error.about(block_->name(), block_->text(block_->tensors()[i].name));
      return false;
    }
  }
  for (std::size_t i = 0; i < attributes_.size(); ++i) {
    const AttributeSpec& spec = attributes_[i];
    call.integers[i] = spec.integer;
    call.reals[i] = spec.real;
    call.texts[i] = {};
    if (tensors_ + i >= count) continue;
    call.integers[i] = 0;
    if (!read_attribute(spec, args[tensors_ + i], call.integers[i], call.reals[i], call.texts[i], error)) return false;
  }
  call.tensor_count = tensors_;
  call.attribute_count = attributes_.size();
  return true;
}

bool ArgumentParser::wrong(const AttributeSpec& spec, PyObject* object, Error& error) const {
  if (py::interrupted()) return error.set(ErrorKind::Raised, "", "", "");
  const py::Ref shown(PyObject_Repr(object));
  std::string_view text = "?";
  if (!shown || !py::read_text(shown.get(), text)) py::clear_ordinary();
  std::string wanted = kWanted[static_cast<std::size_t>(spec.kind)];
  for (std::size_t i = 0; i < spec.values.size(); ++i)
    wanted = cat(i == 0 ? "one of " : cat(wanted, ", "), spec.values[i]);
  if (text.size() > kLongestShown) text = text.substr(0, kLongestShown);
  return error.set(ErrorKind::ArgumentKind, cat(block_->name()), cat(spec.name, " must be ", wanted, ", got ", text),
                   "");
}

bool ArgumentParser::read_attribute(const AttributeSpec& spec, PyObject* object, std::int64_t& integer, double& real,
                                    std::string_view& said, Error& error) const {
  switch (spec.kind) {
    case AttributeKind::Int: return py::read_integer(object, integer) || wrong(spec, object, error);
    case AttributeKind::Bool:
      return (py::read_integer(object, integer) && (integer == 0 || integer == 1)) || wrong(spec, object, error);
    case AttributeKind::Float: {
      const py::Recursion deeper;
      real = deeper ? PyFloat_AsDouble(object) : -1.0;  // takes ints and whatever has __float__
      if (real != -1.0 || PyErr_Occurred() == nullptr) return true;
      py::clear_ordinary();
      return wrong(spec, object, error);
    }
    case AttributeKind::Enum: {
      std::string_view text;
      if (!py::read_text(object, text)) return wrong(spec, object, error);
      for (std::size_t i = 0; i < spec.values.size(); ++i) {
        if (spec.values[i] == text) {
          integer = static_cast<std::int64_t>(i);
          return true;
        }
      }
      return wrong(spec, object, error);
    }
    case AttributeKind::Text: return read_name(object, said, integer) || wrong(spec, object, error);
  }
  return false;
}

}  // namespace apb
