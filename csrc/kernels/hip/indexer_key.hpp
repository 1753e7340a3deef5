// The page that has a token's key, in the cache of DeepSeek-V3.2's indexer.
#pragma once
#include "common.hpp"

namespace ap {

struct IndexerKey {
  u32 block, key;
};

// False for a token of no sequence, and for one whose page is not in the table or in the cache.
AP_INLINE bool find_key(const i32* __restrict__ table, const i32* __restrict__ starts, i32 blocks, i32 batch, i32 columns,
                        i32 token, i32 page, IndexerKey& found) {
  i32 low = 0, high = batch;
  while (low < high) {
    i32 middle = low + (high - low) / 2;
    if (starts[middle + 1] <= token)
      low = middle + 1;
    else
      high = middle;
  }
  if (low >= batch || token < starts[low]) return false;
  u32 inside = static_cast<u32>(token) - static_cast<u32>(starts[low]);
  u32 number = inside / static_cast<u32>(page);
  if (number >= static_cast<u32>(columns)) return false;
  found = {static_cast<u32>(table[static_cast<i64>(low) * columns + number]), inside - number * static_cast<u32>(page)};
  return found.block < static_cast<u32>(blocks);
}

}  // namespace ap
