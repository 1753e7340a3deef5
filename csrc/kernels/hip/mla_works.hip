// Attention over a latent cache shared out over compute units: a list of works for each, and the tiles that are made of parts.
//
// Launch: grid x = 1, block x = 64, no LDS. One wave goes through the contexts in order; what they are is read for 64 of them at once.
#include "common.hpp"

namespace ap {

// A work has so many rows of queries at most, heads included, unless one query has more.
inline constexpr i32 kRows = 128;

using four = vec<i32, 4>;

struct Lists {
  const i32* queries;
  const i32* pages;
  const i32* lasts;  // keys of each batch's last page
  i32 batches;       // without heads that are contexts of their own
  i32 fold;          // contexts that the heads of one are
  i32 uniform;       // queries of each batch; 0: `queries` says it, or there is none and `topk` is at least 0
  i32 topk;          // at least 0: each query is a context, of so many pages at most
  i32 page_size;
};

// Without queries it has no pages.
struct Context {
  i32 first, end, start, stop;  // queries, pages
  i32 last;                     // keys of the last page
};

AP_INLINE i32 low(i32 a, i32 b) { return a < b ? a : b; }
AP_INLINE i32 high(i32 a, i32 b) { return a > b ? a : b; }
AP_INLINE i32 divided_up(i32 a, i32 b) { return (a + b - 1) / b; }

AP_INLINE i32 count_of(const Lists& lists) {
  return lists.batches * lists.fold * (lists.topk >= 0 ? lists.uniform : 1);
}

AP_INLINE Context context_of(const Lists& lists, i32 index) {
  const bool apart = lists.topk >= 0;
  const i32 batch = (apart ? index / lists.uniform : index) / lists.fold;
  const i32 each = apart ? 1 : lists.uniform;
  const i32 length = high(lists.pages[batch + 1] - lists.pages[batch], 0);
  const bool short_of = apart && length > lists.topk;
  Context made;
  made.first = each > 0 ? index * each : lists.queries[batch];
  made.end = each > 0 ? made.first + each : high(lists.queries[batch + 1], made.first);
  made.start = apart ? index / lists.fold * lists.topk : lists.pages[batch];
  made.stop = made.start + (made.end == made.first ? 0 : short_of ? lists.topk : length);
  made.last = lists.page_size;
  if (lists.page_size > 1 && !short_of) made.last = high(low(lists.lasts[batch], lists.page_size), 1);
  return made;
}

// Keys from page `from` on of a context that ends with page `stop`.
AP_INLINE i32 keys_from(i32 from, i32 stop, i32 page_size, i32 last) {
  const i64 keys = static_cast<i64>(stop - from - 1) * page_size + last;
  return stop <= from ? 0 : keys > 0x7fffffff ? 0x7fffffff : static_cast<i32>(keys);
}

AP_INLINE i32 from_lane(i32 value, i32 lane) { return __builtin_amdgcn_readlane(value, lane); }

template <int CTRL, int ROWS>
AP_INLINE i32 dpp_add(i32 x) {
  return x + __builtin_amdgcn_update_dpp(0, x, CTRL, ROWS, 0xf, false);
}

// Sum of 64 lanes, in a scalar register.
AP_INLINE i32 wave_sum(i32 x) {
  x = dpp_add<0x111, 0xf>(x);  // row_shr:1
  x = dpp_add<0x112, 0xf>(x);
  x = dpp_add<0x114, 0xf>(x);
  x = dpp_add<0x118, 0xf>(x);
  x = dpp_add<0x142, 0xa>(x);  // row_bcast:15
  x = dpp_add<0x143, 0xc>(x);  // row_bcast:31
  return from_lane(x, 63);
}

}  // namespace ap

// works[n, 8]: context, row of its part or -1, queries [first, end), pages [start, stop), keys behind, 0. What is behind `room`,
// `room_tiles` and `room_parts` is not written. A work costs its blocks of 2^log2_block pages and `overhead` more. `shares`: units
// that the budget counts, fewer where the lists have no room. Under a causal mask works of single keys end with the last key that a
// query of theirs sees. With `topk` every batch has as many queries as the first, whatever `uniform` says; works name the batch, and
// count the batch's queries behind theirs as keys where neither heads are contexts nor pages have several keys.
AP_KERNEL(64)
void mla_works(ap::i32* units, ap::i32* works, ap::i32* sums, ap::i32* targets, ap::i32* sources,
               const ap::i32* queries, const ap::i32* pages, const ap::i32* lasts, ap::i32 batches, ap::i32 fold,
               ap::i32 heads, ap::i32 page_size, ap::i32 log2_block, ap::i32 overhead, ap::i32 causal, ap::i32 uniform,
               ap::i32 topk, ap::i32 count_units, ap::i32 shares, ap::i32 room, ap::i32 room_tiles,
               ap::i32 room_parts) {
  using namespace ap;
  const bool apart = topk >= 0;
  const i32 each = apart ? high(queries[1] - queries[0], 0) : uniform;
  const Lists lists = {queries, pages, lasts, batches, fold, each, topk, page_size};
  const i32 lane = static_cast<i32>(thread_x());
  const i32 count = count_of(lists), block = 1 << log2_block;
  if (apart) {
    const i32 fit = low(room - count, high(room_parts / 2, room_parts - count)) + 1;
    shares = low(shares, high(fit, 1));
  }
  i32 blocks = 0;
  for (i32 i = lane; i < count; i += kWave) {
    const Context own = context_of(lists, i);
    blocks += (own.stop - own.start + block - 1) >> log2_block;
  }
  const i32 budget = divided_up(wave_sum(blocks) + count * overhead, shares) + overhead;

  Context held = {0, 0, 0, 0, 1};  // of this lane, of the 64 from `from`
  i32 from = -kWave;
  i32 batch = 0, done = 0, part = 0, first_row = 0;  // the context that is shared out, its blocks and parts so far
  i32 work = 0, row = 0, tiles_made = 0, sources_made = 0;  // what was written
  for (i32 unit = 0; unit < count_units; ++unit) {
    i32 left = budget;
    while (batch < count) {
      if (batch - from >= kWave) {
        from = batch;
        if (from + lane < count) held = context_of(lists, from + lane);
      }
      const i32 place = batch - from;
      const i32 first = from_lane(held.first, place), end = from_lane(held.end, place);
      const i32 start = from_lane(held.start, place), stop = from_lane(held.stop, place);
      const i32 last_keys = from_lane(held.last, place);
      const i32 tokens = end - first, length = stop - start;
      const i32 step = divided_up(tokens, high(low(divided_up(tokens * heads, kRows), tokens), 1));
      const i32 tiles = high(divided_up(tokens, high(step, 1)), 1);
      const i32 rest = ((length + block - 1) >> log2_block) - done;
      const i32 here = start + (done << log2_block);
      const i32 cut = here + ((left - overhead) << log2_block);
      const bool whole =
          left >= rest + overhead || (left > overhead && keys_from(cut, stop, page_size, last_keys) < tokens);
      if (!whole && left <= overhead) break;
      const bool split = part > 0 || !whole;
      if (part == 0) first_row = row;
      // Tiles that see no key are no works: all without keys, else the first where there are more queries than keys.
      const i32 length_keys = keys_from(start, stop, page_size, last_keys);
      const i32 blind = causal != 0 ? high(tokens - length_keys, 0) : 0;
      const i32 named = apart ? batch / each / fold : batch;
      const i32 later = apart && fold == 1 && page_size == 1 ? each - 1 - batch % each : 0;
      const i32 none = tokens == 0 || length <= 0 ? tiles : blind / step;
      for (i32 tile = none + lane; tile < tiles; tile += kWave) {
        const i32 own = first + tile * step, last = low(own + step, end), to = work + tile - none;
        const i32 behind = causal != 0 && page_size == 1 ? end - last : 0;
        const i32 close = low(whole ? stop : cut, stop - behind);
        if (to < room) {
          four* made = reinterpret_cast<four*>(works) + 2 * static_cast<i64>(to);
          made[0] = four{named, split ? row + tile * step : -1, own, last};
          made[1] = four{here, close, keys_from(close, stop, page_size, last_keys) + later, 0};
        }
      }
      work += tiles - none;
      if (split) {
        row += tiles * step;
        ++part;
      }
      if (!whole) {
        done += left - overhead;
        break;
      }
      for (i32 tile = lane; tile < tiles; tile += kWave) {
        const i32 own = first + tile * step, to = tiles_made + tile;
        if (to >= room_tiles) continue;
        sums[to + 1] = low(sources_made + (tile + 1) * part, room_parts);
        if (part > 0) {
          targets[2 * to] = own;
          targets[2 * to + 1] = low(own + step, end);
        }
      }
      for (i32 i = lane; i < tiles * part; i += kWave) {
        const i32 tile = i / part, to = sources_made + i;
        if (to < room_parts) sources[to] = first_row + ((i - tile * part) * tiles + tile) * step;
      }
      tiles_made += tiles;
      sources_made += tiles * part;
      left -= rest + overhead;
      ++batch;
      done = part = 0;
    }
    if (lane == 0) units[unit + 1] = low(work, room);
  }
  for (i32 tile = tiles_made + lane; tile < room_tiles; tile += kWave) sums[tile + 1] = low(sources_made, room_parts);
  if (lane == 0) units[0] = sums[0] = 0;
}
