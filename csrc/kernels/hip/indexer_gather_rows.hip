// Gather the keys of DeepSeek-V3.2's indexer from pages that are no multiple of 16 bytes, such as those of one key.
//
// A page has the fp8 codes of `page` keys, one key behind the other, and behind them their fp32 scales, [page, size / 128].
//
// guarantee   size is a multiple of 128; the cache, its pages and the scales at 4 bytes, the codes of the result at 16
#include "common.hpp"
#include "indexer_key.hpp"

namespace ap {

// Four words at a multiple of 4 bytes, which the hardware reads at once.
typedef vec<u32, 4> words __attribute__((aligned(4)));

}  // namespace ap

// 16 columns of a token a lane. Tokens of no sequence, and those whose page is not in the table or in the cache, are left alone.
// Launch: grid x = cdiv(tokens * size / 16, 256); block x = 256.
AP_KERNEL(256)
void indexer_gather_rows(const ap::u8* __restrict__ cache, ap::u8* __restrict__ codes, float* __restrict__ scales,
                         const ap::i32* __restrict__ table, const ap::i32* __restrict__ starts, ap::i64 page_bytes,
                         ap::i32 blocks, ap::i32 batch, ap::i32 columns, ap::i32 tokens, ap::i32 size, ap::i32 page) {
  using namespace ap;
  u32 each = static_cast<u32>(size) / 16;
  u32 place = block_x() * 256 + thread_x();
  i32 token = static_cast<i32>(place / each);
  if (token >= tokens) return;
  u32 column = (place - static_cast<u32>(token) * each) * 16;
  IndexerKey at;
  if (!find_key(table, starts, blocks, batch, columns, token, page, at)) return;
  const u8* from = cache + at.block * page_bytes;
  *reinterpret_cast<vec<u32, 4>*>(codes + static_cast<i64>(token) * size + column) =
      *reinterpret_cast<const words*>(from + static_cast<i64>(at.key) * size + column);
  if (column % 128 == 0) {
    u32 groups = static_cast<u32>(size) / 128, group = column / 128;
    i64 behind = static_cast<i64>(page) * size + (static_cast<i64>(at.key) * groups + group) * 4;
    scales[static_cast<i64>(token) * groups + group] = *reinterpret_cast<const float*>(from + behind);
  }
}
