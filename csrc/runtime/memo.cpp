#include "memo.h"

namespace apb {
namespace {

// Two words per 64x64 -> 128 bit multiplication, folded. Not keyed: whoever picks the shapes can only slow down
// their own calls.
std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t hash_words(const std::uint64_t* words, std::size_t count) {
  std::uint64_t hash = 0x9e3779b97f4a7c15u ^ count;
  std::size_t i = 0;
  for (; i + 2 <= count; i += 2) hash = fold(words[i] ^ 0xbf58476d1ce4e5b9u, words[i + 1] ^ hash);
  if (i < count) hash = fold(words[i] ^ 0x94d049bb133111ebu, hash ^ 0xd6e8feb86659fd93u);
  return fold(hash ^ 0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu);
}

}  // namespace

Memo::~Memo() {
  if (sets_ == nullptr) return;
  for (Set& set : *sets_) {
    for (Prepared* entry : set.entries) Prepared::drop(entry);
  }
}

Prepared* Memo::find_in_table(const MemoKey& key) {
  if (sets_ == nullptr) return nullptr;
  const std::uint64_t hash = hash_words(key.words.data(), key.count);
  Set& set = (*sets_)[hash % kSets];
  for (std::size_t way = 0; way < kWays; ++way) {
    Prepared* entry = set.entries[way];
    if (entry != nullptr && set.hashes[way] == hash && equal(*entry, key)) return last_ = entry;
  }
  return nullptr;
}

Prepared* Memo::insert(const MemoKey& key, std::unique_ptr<Prepared> prepared) {
  if (sets_ == nullptr) sets_ = std::make_unique<std::array<Set, kSets>>();
  prepared->key.assign(key.words.data(), key.words.data() + key.count);
  const std::uint64_t hash = hash_words(key.words.data(), key.count);
  Set& set = (*sets_)[hash % kSets];
  const std::size_t way = set.next++ % kWays;
  Prepared* old = set.entries[way];
  if (old == nullptr) ++size_;
  if (old == last_) last_ = nullptr;
  Prepared::drop(old);
  set.hashes[way] = hash;
  set.entries[way] = prepared.release();
  return last_ = set.entries[way];
}

}  // namespace apb
