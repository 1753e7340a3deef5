// What a call is of, in words: what makes two calls the same to what is remembered about them in front of an operator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tensor.h"

namespace apb {

template <std::size_t Most>
struct CallWords {
  std::array<std::uint64_t, Most> words;  // left uninitialised beyond `count`
  std::size_t count;

  bool put(std::uint64_t word) {
    if (count == Most) return false;
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

// A few entries by their keys; a stream of new calls replaces them in turn. `Holder` points to an entry, which has `key`.
template <class Holder>
class Remembered {
 public:
  // The one that followed the last one when that was last asked for: the layers of a model repeat their calls in the same order,
  // so that this finds most without hashing. It holds what it holds, or nothing.
  Holder& guess() { return entries_[next_[last_]]; }
  void guessed() { last_ = next_[last_]; }

  // The place of `key`: what it holds is of this key, of another, or nothing.
  template <class Key>
  Holder& place(const Key& key) {
    const auto slot = static_cast<std::size_t>(key.hash() >> (64 - kBits));
    next_[last_] = static_cast<std::uint8_t>(slot);
    last_ = slot;
    return entries_[slot];
  }

 private:
  static constexpr int kBits = 6;
  static constexpr std::size_t kEntries = std::size_t{1} << kBits;

  std::array<Holder, kEntries> entries_;
  std::array<std::uint8_t, kEntries> next_{};  // by slot: the one that was used after it
  std::size_t last_ = 0;
};

inline std::uint64_t number_of(const void* object) { return reinterpret_cast<std::uintptr_t>(object); }

// Element type, device and shape of a tensor that was read, and strides where they are asked for. False: no room.
template <class Words>
bool tell_tensor(const TensorArg& read, bool strides, Words& words) {
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

// Reads what is to be told of a tensor. False: it cannot be told in words; an exception may be set.
inline bool read_for_words(PyObject* object, TensorArg& read, CallContext& call) {
  return read_tensor_fast(object, read, call) && read.given && read.ndim >= 0 &&
         static_cast<std::size_t>(read.ndim) <= kMaxRank && read.device.device_id >= 0 && read.device.device_id <= 254;
}

}  // namespace apb
