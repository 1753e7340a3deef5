// The memo of one operator on one device: from everything of a call that can decide anything (types, shapes, strides,
// alignments, devices, integer attributes) to the prepared launch. Bounded; a stream of new shapes costs its users the
// slow path and nothing more.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "call.h"
#include "launch.h"

namespace apb {

inline constexpr std::size_t kMaxKeyWords = 512;

struct MemoKey {
  std::array<std::uint64_t, kMaxKeyWords> words;  // left uninitialised beyond `count`
  std::size_t count;
};

// False when the call is too large for a key; it is then never remembered.
[[nodiscard]] inline bool build_key(const Call& call, const AddressUse& use, MemoKey& key) {
  std::uint64_t* out = key.words.data();
  const std::uint64_t* const end = out + kMaxKeyWords;
  for (std::size_t i = 0; i < call.tensor_count; ++i) {
    const TensorArg& tensor = call.tensors[i];
    if (!tensor.given) {
      if (out == end) return false;
      *out++ = ~std::uint64_t{0};
      continue;
    }
    const auto rank = static_cast<std::size_t>(tensor.ndim);
    if (rank > kMaxRank || tensor.device.id < 0 || tensor.device.id > 254 ||
        2 * rank + 2 > static_cast<std::size_t>(end - out)) {
      return false;
    }
    // Which powers of two divide the address, up to the largest that anything asks for; null is a class of its own.
    const std::uint64_t known_bits = tensor.address | use.alignment;
    const auto alignment =
        tensor.address == 0 ? std::uint64_t{63} : static_cast<std::uint64_t>(__builtin_ctzll(known_bits));
    *out++ = tensor.dtype | (std::uint64_t{rank} << 32) | (alignment << 40) |
             (static_cast<std::uint64_t>(tensor.device.type) << 48) |
             (static_cast<std::uint64_t>(tensor.device.id) << 56);
    for (std::size_t d = 0; d < rank; ++d) out[d] = static_cast<std::uint64_t>(tensor.shape[d]);
    out += rank;
    for (std::size_t d = 0; d < rank; ++d) out[d] = static_cast<std::uint64_t>(tensor.strides[d]);
    out += rank;
    if (use.exact) *out++ = tensor.address;
  }
  if (call.attribute_count > static_cast<std::size_t>(end - out)) return false;
  for (std::size_t i = 0; i < call.attribute_count; ++i) *out++ = static_cast<std::uint64_t>(call.integers[i]);
  key.count = static_cast<std::size_t>(out - key.words.data());
  return true;
}

class Memo {
 public:
  ~Memo();

  // The launch of an equal key, or null.
  Prepared* find(const MemoKey& key) {
    Prepared* last = last_;
    if (last != nullptr && equal(*last, key)) return last;
    return find_in_table(key);
  }

  // Remembers `prepared`, in place of an older one when its set is full.
  Prepared* insert(const MemoKey& key, std::unique_ptr<Prepared> prepared);

  std::size_t size() const { return size_; }

 private:
  // 128 sets of 8: eviction touches one set, and no chain can grow.
  static constexpr std::size_t kWays = 8;
  static constexpr std::size_t kSets = 128;

  struct Set {
    std::array<std::uint64_t, kWays> hashes{};
    std::array<Prepared*, kWays> entries{};
    std::uint32_t next = 0;
  };

  static bool equal(const Prepared& prepared, const MemoKey& key) {
    return prepared.key.size() == key.count &&
           std::memcmp(prepared.key.data(), key.words.data(), key.count * sizeof(std::uint64_t)) == 0;
  }
  Prepared* find_in_table(const MemoKey& key);

  std::unique_ptr<std::array<Set, kSets>> sets_;
  Prepared* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace apb
