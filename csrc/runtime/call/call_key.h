// The cache key of a call: the words that must be equal for a remembered decision to be used again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tensors/tensor.h"

namespace apb {

template <std::size_t Most>
struct CallKey {
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

// At most 64 entries by their keys: 8 sets of 8. In a full set the entry used longest ago goes, so that calls whose keys fall
// into one set keep their entries while they are at most 8, and a hot call stays in a stream of new ones. `Holder` points to an
// entry, which has `key`.
template <class Holder>
class Remembered {
 public:
  // The one that followed the last one when that was last asked for: the layers of a model repeat their calls in the same order,
  // so that this finds most without hashing. It holds what it holds, or nothing.
  Holder& guess() { return entries_[next_[last_]]; }
  void guessed() { use(next_[last_]); }

  // What holds the entry of `key`, or null.
  template <class Key>
  Holder* find(const Key& key) {
    const std::uint64_t hash = key.hash();
    const std::size_t first = first_of(hash);
    for (std::size_t slot = first; slot < first + kWays; ++slot) {
      if (!is_of(key, hash, slot)) continue;
      use(slot);
      return &entries_[slot];
    }
    return nullptr;
  }

  // Holds `entry` from now on. Returns what it replaces, whose end may run Python.
  template <class Key>
  [[nodiscard]] Holder keep(const Key& key, Holder entry) {
    const std::uint64_t hash = key.hash();
    const std::size_t slot = place(key, hash);
    hashes_[slot] = hash;
    std::swap(entries_[slot], entry);
    use(slot);
    return entry;
  }

 private:
  static constexpr int kSetBits = 3;
  static constexpr std::size_t kWays = 8;
  static constexpr std::size_t kEntries = kWays << kSetBits;

  static std::size_t first_of(std::uint64_t hash) { return static_cast<std::size_t>(hash >> (64 - kSetBits)) * kWays; }

  template <class Key>
  bool is_of(const Key& key, std::uint64_t hash, std::size_t slot) const {
    return hashes_[slot] == hash && entries_[slot] != nullptr && key.are(entries_[slot]->key);
  }

  // Where the entry of `key` goes: in place of one of the same key, which another thread may have kept, else of none, else of
  // the one used longest ago.
  template <class Key>
  std::size_t place(const Key& key, std::uint64_t hash) const {
    const std::size_t first = first_of(hash);
    std::size_t oldest = first;
    for (std::size_t slot = first; slot < first + kWays; ++slot) {
      if (is_of(key, hash, slot)) return slot;
      if (entries_[oldest] != nullptr && (entries_[slot] == nullptr || age(slot) > age(oldest))) oldest = slot;
    }
    return oldest;
  }

  // In uses of the table, modulo 2^32.
  std::uint32_t age(std::size_t slot) const { return clock_ - used_[slot]; }

  void use(std::size_t slot) {
    next_[last_] = static_cast<std::uint8_t>(slot);
    last_ = slot;
    used_[slot] = ++clock_;
  }

  std::array<Holder, kEntries> entries_;
  std::array<std::uint64_t, kEntries> hashes_{};
  std::array<std::uint32_t, kEntries> used_{};  // by slot: the clock when it was last used
  std::array<std::uint8_t, kEntries> next_{};   // by slot: the one that was used after it
  std::size_t last_ = 0;
  std::uint32_t clock_ = 0;
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
