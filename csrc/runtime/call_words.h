// What a call is of, in words: what makes two calls the same to what is remembered about them in front of an operator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor.h"

namespace apb {

template <std::size_t kMost>
struct CallWords {
  std::array<std::uint64_t, kMost> words;  // left uninitialised beyond `count`
  std::size_t count = 0;

  bool put(std::uint64_t word) {
    if (count == kMost) return false;
    words[count++] = word;
    return true;
  }

  std::uint64_t hash() const {
    std::uint64_t hash = count;
    for (std::size_t i = 0; i < count; ++i) hash = (hash ^ words[i]) * 0x9E3779B97F4A7C15u;
    return hash;
  }

  bool are(const std::vector<std::uint64_t>& kept) const {
    if (kept.size() != count) return false;
    std::uint64_t difference = 0;
    for (std::size_t i = 0; i < count; ++i) difference |= kept[i] ^ words[i];
    return difference == 0;
  }

  std::vector<std::uint64_t> copy() const {
    return {words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count)};
  }
};

inline std::uint64_t number_of(const void* object) { return reinterpret_cast<std::uintptr_t>(object); }

// Element type, device and shape, and strides where they are asked for. False: it cannot be told in words; nothing is set
// unless interrupted().
template <class Words>
bool tell_tensor(PyObject* object, const DLPackExchangeAPI* api, bool strides, Words& words, TensorArg& read) {
  DLTensor tensor;
  if (api->dltensor_from_py_object_no_sync(object, &tensor) != 0) {
    py::clear_ordinary();
    return false;
  }
  if (!fill_from_dlpack(tensor, read) || read.ndim < 0 || static_cast<std::size_t>(read.ndim) > kMaxRank) return false;
  const auto rank = static_cast<std::size_t>(read.ndim);
  if (!words.put(read.dtype | (std::uint64_t{rank} << 32)) ||
      !words.put(static_cast<std::uint64_t>(read.device.device_type) << 32 |
                 static_cast<std::uint32_t>(read.device.device_id)))
    return false;
  for (std::size_t d = 0; d < rank; ++d) {
    if (!words.put(static_cast<std::uint64_t>(read.shape[d]))) return false;
  }
  for (std::size_t d = 0; strides && d < rank; ++d) {
    if (!words.put(static_cast<std::uint64_t>(read.strides[d]))) return false;
  }
  return true;
}

}  // namespace apb
