// The memo of one operator on one device: from everything of a call that can decide anything (types, shapes, strides,
// alignments, devices, integer attributes) to the prepared launch. Bounded; a stream of new shapes costs its users the
// slow path and nothing more.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "call/launch.h"
#include "tensors/call.h"

namespace apb {

inline constexpr std::size_t kMaxKeyWords = 512;

struct MemoKey {
  std::array<std::uint64_t, kMaxKeyWords> words;  // left uninitialised beyond `count`
  std::size_t count;
};

// Hands the words of the call's key to `sink`, after asking it for room. False when there is none, or when the call is
// too large for a key; it is then never remembered.
template <class Sink>
[[nodiscard]] inline bool each_key_word(const Call& call, const AddressUse& use, Sink& sink) {
  for (std::size_t i = 0; i < call.tensor_count; ++i) {
    const TensorArg& tensor = call.tensors[i];
    if (!tensor.given) {
      if (!sink.has_room(1)) return false;
      sink.put(~std::uint64_t{0});
      continue;
    }
    const auto rank = static_cast<std::size_t>(tensor.ndim);
    if (rank > kMaxRank || tensor.device.device_id < 0 || tensor.device.device_id > 254 ||
        !sink.has_room(2 * rank + (use.exact ? 2 : 1))) {
      return false;
    }
    // The powers of two that divide the address, up to the largest that a condition tests. Null is a class of its own.
    const std::uint64_t known_bits = tensor.address | use.alignment;
    const auto alignment =
        tensor.address == 0 ? std::uint64_t{63} : static_cast<std::uint64_t>(__builtin_ctzll(known_bits));
    sink.put(tensor.dtype | (std::uint64_t{rank} << 32) | (alignment << 40) |
             (static_cast<std::uint64_t>(tensor.device.device_type) << 48) |
             (static_cast<std::uint64_t>(tensor.device.device_id) << 56));
    for (std::size_t d = 0; d < rank; ++d) sink.put(static_cast<std::uint64_t>(tensor.shape[d]));
    for (std::size_t d = 0; d < rank; ++d) sink.put(static_cast<std::uint64_t>(tensor.strides[d]));
    if (use.exact) sink.put(tensor.address);
  }
  if (!sink.has_room(call.attribute_count)) return false;
  for (std::size_t i = 0; i < call.attribute_count; ++i) sink.put(static_cast<std::uint64_t>(call.integers[i]));
  return true;
}

[[nodiscard]] inline bool build_key(const Call& call, const AddressUse& use, MemoKey& key) {
  struct Writer {
    std::uint64_t* out;
    const std::uint64_t* end;
    bool has_room(std::size_t words) const { return words <= static_cast<std::size_t>(end - out); }
    void put(std::uint64_t word) { *out++ = word; }
  } writer{key.words.data(), key.words.data() + kMaxKeyWords};
  if (!each_key_word(call, use, writer)) return false;
  key.count = static_cast<std::size_t>(writer.out - key.words.data());
  return true;
}

// Is `kept` the key of the call? The same words as build_key's, compared as they are made: nothing is stored.
[[nodiscard]] inline bool is_key_of(const std::vector<std::uint64_t>& kept, const Call& call, const AddressUse& use) {
  struct Comparer {
    const std::uint64_t* at;
    const std::uint64_t* end;
    std::uint64_t difference = 0;
    bool has_room(std::size_t words) const { return words <= static_cast<std::size_t>(end - at); }
    void put(std::uint64_t word) { difference |= word ^ *at++; }
  } comparer{kept.data(), kept.data() + kept.size()};
  return each_key_word(call, use, comparer) && comparer.at == comparer.end && comparer.difference == 0;
}

class Memo {
 public:
  Memo() = default;
  Memo(const Memo&) = delete;
  Memo& operator=(const Memo&) = delete;
  ~Memo();

  // The launch that followed the last one when that was last called, if it is this call's, else null. The layers of a
  // model repeat their calls in the same order, so that this finds most without hashing.
  Prepared* find_next(const Call& call, const AddressUse& use) {
    if (table_ == nullptr) return nullptr;
    const std::size_t slot = table_->next[last_];
    Prepared* entry = table_->entries[slot];
    if (entry == nullptr || !is_key_of(entry->key, call, use)) return nullptr;
    last_ = slot;
    touch(*entry);
    return entry;
  }

  // The launch of an equal key, or null.
  Prepared* find(const MemoKey& key);

  // Remembers `prepared`, in place of the one used longest ago when its set is full.
  Prepared* insert(const MemoKey& key, std::unique_ptr<Prepared> prepared);

  // Counts a use of an entry that was found without this memo being asked.
  void touch(Prepared& entry) { entry.used = ++clock_; }

  std::size_t size() const { return size_; }
  // Another one after each launch that it forgot: pointers to them are good as long as it stays.
  std::uint64_t generation() const { return generation_; }

 private:
  // 128 sets of 8: eviction touches one set, and no chain can grow.
  static constexpr std::size_t kWays = 8;
  static constexpr std::size_t kSets = 128;
  static constexpr std::size_t kSlots = kWays * kSets;

  struct Table {
    std::array<Prepared*, kSlots> entries{};
    std::array<std::uint64_t, kSlots> hashes{};
    // By slot: the slot that was used after it. Only a guess: what is there now is compared before it is used.
    std::array<std::uint16_t, kSlots> next{};
  };

  Prepared* use(std::size_t slot) {
    table_->next[last_] = static_cast<std::uint16_t>(slot);
    last_ = slot;
    touch(*table_->entries[slot]);
    return table_->entries[slot];
  }

  // The slot of the set that begins at `first` which is free, or was used longest ago.
  std::size_t oldest(std::size_t first) const;

  std::unique_ptr<Table> table_;
  std::size_t last_ = 0;  // slot
  std::size_t size_ = 0;
  std::uint64_t generation_ = 0;
  std::uint32_t clock_ = 0;  // uses, modulo 2^32: only differences count
};

}  // namespace apb
