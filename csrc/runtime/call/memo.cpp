#include "call/memo.h"

#include <cstring>

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
  if (table_ == nullptr) return;
  for (Prepared* entry : table_->entries) Prepared::drop(entry);
}

Prepared* Memo::find(const MemoKey& key) {
  if (table_ == nullptr) return nullptr;
  const std::uint64_t hash = hash_words(key.words.data(), key.count);
  const std::size_t first = hash % kSets * kWays;
  for (std::size_t slot = first; slot < first + kWays; ++slot) {
    const Prepared* entry = table_->entries[slot];
    if (entry != nullptr && table_->hashes[slot] == hash && entry->key.size() == key.count &&
        std::memcmp(entry->key.data(), key.words.data(), key.count * sizeof(std::uint64_t)) == 0) {
      return use(slot);
    }
  }
  return nullptr;
}

std::size_t Memo::oldest(std::size_t first) const {
  std::size_t oldest = first;
  for (std::size_t slot = first; slot < first + kWays; ++slot) {
    if (table_->entries[slot] == nullptr) return slot;
    if (clock_ - table_->entries[slot]->used > clock_ - table_->entries[oldest]->used) oldest = slot;
  }
  return oldest;
}

Prepared* Memo::insert(const MemoKey& key, std::unique_ptr<Prepared> prepared) {
  if (table_ == nullptr) table_ = std::make_unique<Table>();
  prepared->key.assign(key.words.data(), key.words.data() + key.count);
  const std::uint64_t hash = hash_words(key.words.data(), key.count);
  const std::size_t slot = oldest(hash % kSets * kWays);
  Prepared* old = table_->entries[slot];
  if (old == nullptr)
    ++size_;
  else
    ++generation_;
  Prepared::drop(old);
  table_->hashes[slot] = hash;
  table_->entries[slot] = prepared.release();
  return use(slot);
}

}  // namespace apb
