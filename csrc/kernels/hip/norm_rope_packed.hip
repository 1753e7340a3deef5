// RMSNorm and rotary embedding of queries and keys in place, and the write of keys and values into a paged cache of 16 bits, of rows that
// have a token's heads of queries, then keys, then values.
//
// key_cache [pages, h, d / x, page, x]; value_cache [pages, h, page / x, d, x]. A token whose slot is not in the cache is normed and
// turned alone.
//
// Build:  T = bf16 | f16          element type of all but positions and slots
//         LANES = 8 | 16 | 32     lanes of a head of 8 * LANES elements (rope_head.hpp); half and x multiples of 4, addresses of 8 bytes
//               = 64              any even size of a head up to 512
// Launch: grid x = cdiv(tokens * (heads_q + 2 * heads), 256 / LANES); block x = 256.
#include "turned_head.hpp"

AP_KERNEL(256)
void norm_rope_packed(ap::u16* rows, ap::u16* __restrict__ key_cache, ap::u16* __restrict__ value_cache,
                      const ap::i64* __restrict__ slots, const ap::u16* __restrict__ q_weight,
                      const ap::u16* __restrict__ k_weight, const ap::u16* __restrict__ table,
                      const ap::i64* __restrict__ positions, ap::i32 tokens, ap::i32 heads_q, ap::i32 heads,
                      ap::i32 size, ap::i32 page_size, ap::i32 x, ap::i32 half, ap::i32 neox, ap::i32 max_position,
                      float epsilon, ap::i64 row, ap::i64 slot_end) {
  using namespace ap;
  u32 h = static_cast<u32>(heads), queries = static_cast<u32>(heads_q), all = queries + 2 * h,
      d = static_cast<u32>(size);
  u32 place = block_x() * (256 / kLanes) + thread_x() / kLanes, token = place / all, head = place - token * all;
  if (token >= static_cast<u32>(tokens)) return;
  u16* in = rows + token * row + head * d;
  turning by = {q_weight, k_weight, table, positions, static_cast<u32>(half), d, neox != 0, max_position, epsilon};
  if (head < queries) {
    turn_in_place(in, q_weight, token, by);
    return;
  }
  bool keys = head < queries + h;
  head -= keys ? queries : queries + h;
  share own = share_of(thread_x() % kLanes, by.half, d, keys, by.neox);
  float e[8];
  if (keys) {
    turned_head(e, own, in, k_weight, token, by);
    store(in, own, e);
  } else {
    load(in, own, e);
  }
  i64 slot = slots[token];
  if (slot < 0 || slot >= slot_end) return;
  u32 page = static_cast<u32>(page_size);
  i64 which = slot / page;
  u32 offset = static_cast<u32>(slot - which * page), wide = static_cast<u32>(x);
  u16* out = (keys ? key_cache : value_cache) + (which * h + head) * d * page;
  if (keys) {
    auto at = [&](u32 c) { return (c / wide * page + offset) * wide + c % wide; };
    if constexpr (!kAny) {
      *reinterpret_cast<vec<u16, 4>*>(out + at(own.first)) = {as_bits(e[0]), as_bits(e[1]), as_bits(e[2]),
                                                              as_bits(e[3])};
      *reinterpret_cast<vec<u16, 4>*>(out + at(own.second)) = {as_bits(e[4]), as_bits(e[5]), as_bits(e[6]),
                                                               as_bits(e[7])};
    } else {
#pragma unroll
      for (u32 k = 0; k < 8; ++k)
        if (own.valid(k)) out[at(own.at(k))] = as_bits(e[k]);
    }
    return;
  }
  out += offset / wide * d * wide + offset % wide;
#pragma unroll
  for (u32 k = 0; k < 8; ++k)
    if (own.valid(k)) out[own.at(k) * wide] = as_bits(e[k]);
}
