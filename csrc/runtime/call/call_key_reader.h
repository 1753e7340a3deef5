// Builds the key of a call, or compares it with a stored key word by word.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "call/call_key.h"

namespace apb {

inline constexpr std::size_t kMostWholeWords = 512;
// As much as anything asks of an address where a call is known whole.
inline constexpr std::uint64_t kMostAlignment = 256;

// Which powers of two divide an address; null is a class of its own, as to a memo.
inline std::uint64_t alignment_of(std::uint64_t address) {
  return address == 0 ? 63 : static_cast<std::uint64_t>(__builtin_ctzll(address | kMostAlignment));
}

// Compares the words of a call with a key as they are made: nothing is stored. False at the first that differs.
class Comparing {
 public:
  explicit Comparing(const std::vector<std::uint64_t>& key) : at_(key.data()), end_(key.data() + key.size()) {}

  bool put(std::uint64_t word) {
    if (at_ == end_ || *at_ != word) return false;
    ++at_;
    return true;
  }
  bool done() const { return at_ == end_; }

  // The dims of a tensor, sizes and strides, which then are those of the key: whatever becomes of the tensor, they stay.
  bool put_dims(TensorArg& tensor) {
    const auto rank = static_cast<std::size_t>(tensor.ndim);
    if (static_cast<std::size_t>(end_ - at_) < 2 * rank) return false;
    const auto* kept = reinterpret_cast<const std::int64_t*>(at_);
    std::int64_t difference = 0;
    for (std::size_t d = 0; d < rank; ++d)
      difference |= (kept[d] ^ tensor.shape[d]) | (kept[rank + d] ^ tensor.strides[d]);
    tensor.shape = kept;
    tensor.strides = kept + rank;
    at_ += 2 * rank;
    return difference == 0;
  }

 private:
  const std::uint64_t* at_;
  const std::uint64_t* end_;
};

// Stores them.
class Storing {
 public:
  explicit Storing(CallKey<kMostWholeWords>& words) : words_(words) { words_.count = 0; }

  bool put(std::uint64_t word) { return words_.put(word); }

  bool put_dims(TensorArg& tensor) {
    const auto rank = static_cast<std::size_t>(tensor.ndim);
    if (words_.count + 2 * rank > kMostWholeWords) return false;
    auto* kept = reinterpret_cast<std::int64_t*>(words_.words.data() + words_.count);
    std::copy_n(tensor.shape, rank, kept);
    std::copy_n(tensor.strides, rank, kept + rank);
    tensor.shape = kept;
    tensor.strides = kept + rank;
    words_.count += 2 * rank;
    return true;
  }

 private:
  CallKey<kMostWholeWords>& words_;
};

// What it says: two texts that are equal are one to a plan.
template <class Sink>
bool tell_text(PyObject* object, Sink& sink) {
  std::string_view text;
  if (!py::read_text(object, text) || !sink.put(text.size())) return false;
  for (std::size_t at = 0; at < text.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
    if (!sink.put(word)) return false;
  }
  return true;
}

template <class Sink>
bool tell_value(PyObject* object, PyTypeObject* type, Sink& sink) {
  if (object == py::true_object() || object == py::false_object()) return sink.put(number_of(object));
  if (type == &PyFloat_Type) return sink.put(std::bit_cast<std::uint64_t>(PyFloat_AsDouble(object)));
  if (type == &PyLong_Type) {
    std::int64_t value = 0;
    return py::read_integer(object, value) && sink.put(static_cast<std::uint64_t>(value));
  }
  if (type == &PyUnicode_Type) return tell_text(object, sink);
  return !py::has_flag(object, py::kFlagTuple) && tensor_type(type).api == nullptr && sink.put(number_of(object));
}

// Everything that is read of an argument. False: it is another one, or cannot be told; an exception may be set.
template <class Sink>
bool tell(PyObject* object, char kind, Sink& sink, TensorArg& tensor, CallContext& context) {
  if (py::is_none(object)) {
    tensor.given = false;
    return sink.put(number_of(object));
  }
  PyTypeObject* type = py::type_of(object);
  if (!sink.put(number_of(type))) return false;
  if (kind == 'v') return tell_value(object, type, sink);
  if (!read_for_words(object, tensor, context)) return false;
  return sink.put(tensor.dtype | (std::uint64_t{static_cast<std::uint32_t>(tensor.ndim)} << 32) |
                  (alignment_of(tensor.address) << 40) | (static_cast<std::uint64_t>(tensor.device.device_type) << 48) |
                  (static_cast<std::uint64_t>(tensor.device.device_id) << 56)) &&
         sink.put_dims(tensor);
}

}  // namespace apb
