// Attention of prompts shared out over compute units: a list of works for each, and the tiles of queries that are made of parts.
//
// Launch: grid x = 1, block x = 64. One wave goes through the tiles in order; each of its lanes writes the works of its own heads.
//
// Units are clusters of equal size, each of which has its share of the heads and goes through all tiles for each of them. A batch's
// tiles come from both its ends in turn, so that under a causal mask long and short ones alternate.
#include "common.hpp"

namespace ap {

using four = vec<i32, 4>;
// Each unit leaves one tile to the next at most.
inline constexpr i32 kMostUnits = 1024;

struct Lists {
  const i32* queries;
  const i32* pages;
  const i32* lengths;
  i32 batches;
  i32 step;   // queries of a tile
  i32 unit;   // blocks that are not taken apart
  i32 block;  // keys of a block
  i32 is_causal;
};

struct Tile {
  i32 first, end;  // queries
  i32 keys;        // that its last query sees, which may be less than none
  i32 blocks;
};

// Where the sharing out stands: a tile by its batch and its number there, the blocks of it that were given away, and parts so far.
struct State {
  i32 batch, tile, done, parts, first_part;
};

struct Split {
  i32 first, end, part, count;
};

static __shared__ Split splits[kMostUnits];

AP_INLINE i32 low(i32 a, i32 b) { return a < b ? a : b; }
AP_INLINE i32 high(i32 a, i32 b) { return a > b ? a : b; }
AP_INLINE i32 divided_up(i32 a, i32 b) { return (a + b - 1) / b; }

AP_INLINE i32 tiles_of(const Lists& lists, i32 batch) {
  return divided_up(high(lists.queries[batch + 1] - lists.queries[batch], 0), lists.step);
}

AP_INLINE Tile tile_of(const Lists& lists, i32 batch, i32 number, i32 count) {
  const i32 start = lists.queries[batch], length = lists.queries[batch + 1] - start, keys = lists.lengths[batch];
  const i32 place = number % 2 == 0 ? number / 2 : count - 1 - number / 2;
  const i32 end = low((place + 1) * lists.step, length);
  Tile made;
  made.first = start + place * lists.step;
  made.end = start + end;
  made.keys = lists.is_causal ? low(keys - length + end, keys) : keys;
  made.blocks = divided_up(high(made.keys, 0), lists.unit * lists.block) * lists.unit;
  return made;
}

// The next tile that there is, if any.
AP_INLINE bool found(const Lists& lists, State& at) {
  while (at.batch < lists.batches && at.tile >= tiles_of(lists, at.batch)) {
    ++at.batch;
    at.tile = 0;
  }
  return at.batch < lists.batches;
}

// What a unit that has room for `left` blocks does for one head, from `at` on; `last`: it takes all that is left. Its works go to
// `works` if there is any; what they leave of `room` rows is not written. Tiles that end here and have parts go to `splits`.
AP_INLINE i32 fill(const Lists& lists, State& at, i32 left, bool last, i32* works, i32 room, i32 heads,
                   i32* made_splits) {
  i32 count = 0;
  while ((left > 0 || last) && found(lists, at)) {
    const Tile tile = tile_of(lists, at.batch, at.tile, tiles_of(lists, at.batch));
    const i32 begin = lists.pages[at.batch], start = begin + at.done;
    const bool whole = last || tile.keys - at.done * lists.block <= left * lists.block;
    const i32 used = whole ? tile.blocks - at.done : left;
    const i32 stop = low(start + used, lists.pages[at.batch + 1]);
    const i32 part = whole && at.done == 0 ? -1 : lists.step * at.parts++;
    if (works != nullptr && count < room) {
      four* made = reinterpret_cast<four*>(works) + 2 * count;
      made[0] = four{at.batch, part, tile.first, tile.end};
      made[1] = four{start, stop, whole ? 0 : lists.lengths[at.batch] - (stop - begin) * lists.block, heads};
    }
    if (at.done == 0) at.first_part = at.parts - 1;
    if (whole) {
      if (part >= 0 && made_splits != nullptr) {
        splits[*made_splits] = Split{tile.first, tile.end, at.first_part, at.parts - at.first_part};
        ++*made_splits;
      }
      ++at.tile;
      at.done = 0;
    } else {
      at.done += used;
    }
    left -= used;
    ++count;
  }
  return count;
}

}  // namespace ap

// works[n, 8]: batch, row of its part or -1, queries [first, end), blocks [start, stop), keys behind, heads (first + end * 65536).
AP_KERNEL(64)
void mla_prefill_works(ap::i32* borders, ap::i32* works, ap::i32* sums, ap::i32* targets, ap::i32* sources,
                       const ap::i32* queries, const ap::i32* pages, const ap::i32* lengths, ap::i32 batches,
                       ap::i32 heads, ap::i32 heads_each, ap::i32 step, ap::i32 unit, ap::i32 block, ap::i32 is_causal,
                       ap::i32 units, ap::i32 room, ap::i32 room_tiles, ap::i32 room_parts) {
  using namespace ap;
  const Lists lists = {queries, pages, lengths, batches, step, unit, block, is_causal};
  const i32 lane = static_cast<i32>(thread_x());
  i32 clusters = heads, rest = units;
  while (rest != 0) {
    const i32 next = clusters % rest;
    clusters = rest;
    rest = next;
  }
  const i32 own_units = units / clusters, own_heads = heads / clusters;

  i32 shares = 0;
  for (State at = {0, 0, 0, 0, 0}; found(lists, at); ++at.tile) {
    shares += tile_of(lists, at.batch, at.tile, tiles_of(lists, at.batch)).blocks / unit;
  }
  const i32 mean = shares / own_units, more = shares % own_units;
  i32 each = 0;  // works of a head
  State at = {0, 0, 0, 0, 0};
  for (i32 i = 0; i < own_units; ++i) {
    each += fill(lists, at, (mean + (i < more)) * unit, i == own_units - 1, nullptr, 0, 0, nullptr);
  }

  at = {0, 0, 0, 0, 0};
  if (lane == 0) borders[0] = 0;
  i32 before = 0, split = 0;
  for (i32 i = 0; i < own_units; ++i) {
    const i32 left = (mean + (i < more)) * unit;
    const bool last = i == own_units - 1;
    const State from = at;
    const i32 count = fill(lists, at, left, last, nullptr, 0, 0, &split);
    for (i32 head = lane; head < heads; head += kWave) {
      const i32 cluster = head / own_heads;
      const i32 place = cluster * each * own_heads + before * own_heads + head % own_heads * count;
      State again = from;
      fill(lists, again, left, last, works + static_cast<i64>(low(place, room)) * 8, high(room - place, 0),
           head * heads_each | (head + 1) * heads_each << 16, nullptr);
    }
    before += count;
    for (i32 cluster = lane; cluster < clusters; cluster += kWave) {
      borders[cluster * own_units + i + 1] = low((cluster * each + before) * own_heads, room);
    }
  }

  block_sync();
  i32 total = 0;
  for (i32 other = 0; other < split; ++other) total += splits[other].count;
  for (i32 i = lane; i < split; i += kWave) {
    const Split own = splits[i];
    i32 rank = 0, sum = 0;  // those of earlier queries come first
    for (i32 other = 0; other < split; ++other) {
      const bool earlier = splits[other].first < own.first;
      rank += earlier;
      sum += earlier ? splits[other].count : 0;
    }
    if (rank < room_tiles) {
      sums[rank + 1] = low(sum + own.count, room_parts);
      targets[2 * rank] = own.first;
      targets[2 * rank + 1] = own.end;
    }
    for (i32 part = 0; part < own.count && sum + part < room_parts; ++part)
      sources[sum + part] = (own.part + part) * step;
  }
  if (lane == 0) sums[0] = 0;
  for (i32 i = low(split, room_tiles) + lane; i < room_tiles; i += kWave) sums[i + 1] = low(total, room_parts);
}
