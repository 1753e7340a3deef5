// The paged cache of DeepSeek-V3.2's indexer in tiles, as matrix instructions read it: keys are quantised into it, and gathered.
//
// A page has the fp8 codes of `page` keys and behind them their fp32 scales, [page, size / 128]. Its codes lie in tiles of 16 keys and
// 16 columns, those of 16 keys behind one another: column c of key s at s / 16 * 16 * size + c / 16 * 256 + s % 16 * 16 + c % 16.
//
// Build:  T = bf16 | f16   element type of keys (of `indexer_write`)
// guarantee   size is a multiple of 128, page of 16; all pointers but those to scales and tables at 16 bytes
#include "common.hpp"
#include "indexer_key.hpp"

namespace ap {

template <int CTRL>
AP_INLINE float moved(float x) {
  int bits = __builtin_bit_cast(int, x);
  return __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(bits, bits, CTRL, 0xf, 0xf, false));
}

// The largest of 16 lanes, in all of them: the halves are mirrored into each other, which is as good as any exchange.
AP_INLINE float row_max(float x) {
  x = max_num(x, moved<0xb1>(x));      // quad_perm: lanes 1, 0, 3, 2
  x = max_num(x, moved<0x4e>(x));      // quad_perm: lanes 2, 3, 0, 1
  x = max_num(x, moved<0x141>(x));     // row_half_mirror
  return max_num(x, moved<0x140>(x));  // row_mirror
}

// The next power of two of a positive number, which one that is itself stays, as infinity does.
AP_INLINE float next_power(float x) {
  u32 bits = __builtin_bit_cast(u32, x);
  return __builtin_bit_cast(float, (bits + 0x7fffffu) & 0xff800000u);
}

AP_INLINE i64 tile_place(u32 key, u32 column, u32 size) {
  return static_cast<i64>(key / 16) * 16 * size + column / 16 * 256 + key % 16 * 16 + column % 16;
}

}  // namespace ap

// 16 lanes a group of 128 columns, eight each; a slot that is not in the cache is skipped. NaN becomes the lowest finite code.
// Launch: grid x = cdiv(tokens * size / 128, 16); block x = 256.
AP_KERNEL(256)
void indexer_write(const ap::u16* __restrict__ k, ap::u8* __restrict__ cache, const ap::i64* __restrict__ slots,
                   ap::i64 slot_end, ap::i64 page_bytes, ap::i32 tokens, ap::i32 size, ap::i32 page, ap::i32 powers) {
  using namespace ap;
  u32 groups = static_cast<u32>(size) / 128;
  u32 place = block_x() * 16 + thread_x() / 16;
  u32 token = place / groups;
  if (token >= static_cast<u32>(tokens)) return;
  i64 slot = slots[token];
  if (slot < 0 || slot >= slot_end) return;
  u32 group = place - token * groups, lane = thread_x() % 16;
  u32 column = group * 128 + lane * 8;
  vec<u16, 8> bits = *reinterpret_cast<const vec<u16, 8>*>(k + static_cast<i64>(token) * size + column);
  float x[8], amax = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    x[i] = static_cast<float>(__builtin_bit_cast(T, static_cast<u16>(bits[i])));
    amax = max_num(amax, abs_f(x[i]));
  }
  float scale = max_num(row_max(amax), 1e-4f) / quant_traits<fp8>::max;
  if (powers) scale = next_power(scale);
  float inverse = 1.0f / scale;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float y = x[i] * inverse;
    x[i] = __builtin_isnan(y) ? -quant_traits<fp8>::max : y;
  }
  u32 block = static_cast<u32>(slot) / static_cast<u32>(page);
  u32 key = static_cast<u32>(slot) - block * static_cast<u32>(page);
  u8* at = cache + block * page_bytes;
  *reinterpret_cast<vec<u32, 2>*>(at + tile_place(key, column, static_cast<u32>(size))) = {
      pack4<fp8>(x[0], x[1], x[2], x[3]), pack4<fp8>(x[4], x[5], x[6], x[7])};
  if (lane == 0) {
    i64 behind = static_cast<i64>(page) * size + (static_cast<i64>(key) * groups + group) * 4;
    *reinterpret_cast<float*>(at + behind) = scale;
  }
}

// 16 columns of a token a lane. Tokens of no sequence, and those whose page is not in the table or in the cache, are left alone.
// Launch: grid x = cdiv(tokens * size / 16, 256); block x = 256.
AP_KERNEL(256)
void indexer_gather(const ap::u8* __restrict__ cache, ap::u8* __restrict__ codes, float* __restrict__ scales,
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
      *reinterpret_cast<const vec<u32, 4>*>(from + tile_place(at.key, column, static_cast<u32>(size)));
  if (column % 128 == 0) {
    u32 groups = static_cast<u32>(size) / 128, group = column / 128;
    i64 behind = static_cast<i64>(page) * size + (static_cast<i64>(at.key) * groups + group) * 4;
    scales[static_cast<i64>(token) * groups + group] = *reinterpret_cast<const float*>(from + behind);
  }
}
