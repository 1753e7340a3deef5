// e8m0 scales of rows in the order of a mixture's sorted ids, and in the layout that matrix products read: blocks of 32 rows and 8 groups,
// (r, g) of a block at place ((g % 4 * 16 + r % 16) * 2 + g / 4) * 2 + r / 16.
//
// A sorted id is choice << 24 | token. Blocks in which no place is below *valid stay as they are; of the others every byte is written:
// 0 where there is no token, from *valid on, behind the last group, and where the place's weight is 0.
//
// A lane reads the eight scales of its row, swaps them with the lane of the row 16 further, and writes two dwords of the four.
//
// Build:  WHOLE = 1 | 0   1: rows of scales are whole eights, at 8 bytes
// Launch: grid x = blocks of 32 places, y = cdiv(groups, 64), block x = 256, no LDS.
#include "common.hpp"

namespace ap {

inline constexpr u32 kRows = 32, kGroups = 8, kBytes = kRows * kGroups;

AP_INLINE u32 block_y() { return __builtin_amdgcn_workgroup_id_y(); }

// The value of the lane 16 further, or 16 before: rows r and r + 16 of a block.
AP_INLINE u32 of_partner(u32 x) { return static_cast<u32>(__builtin_amdgcn_ds_swizzle(static_cast<int>(x), 0x401F)); }

// Eight scales of a row from `first` on; 0 behind the last group.
AP_INLINE vec<u32, 2> scales8(const u8* __restrict__ row, u32 first, u32 groups) {
#if WHOLE
  return *reinterpret_cast<const vec<u32, 2>*>(row + first);
#else
  vec<u32, 2> w = {0, 0};
#pragma unroll
  for (u32 i = 0; i < kGroups; ++i) {
    u32 g = first + i;
    if (g < groups) w[i / 4] |= static_cast<u32>(row[g]) << (8 * (i % 4));
  }
  return w;
#endif
}

AP_INLINE u32 byte_of(u32 x, u32 i) { return x >> (8 * i) & 0xFF; }

}  // namespace ap

// scales[tokens, choices, groups], ids[places] and weights[places] (or null: none is 0) are dense; out holds whole blocks.
AP_KERNEL(256)
void mx_sort(ap::u8* __restrict__ out, const ap::u8* __restrict__ scales, const ap::i32* __restrict__ ids,
             const ap::i32* __restrict__ valid, const float* __restrict__ weights, ap::i32 tokens, ap::i32 choices,
             ap::i32 groups, ap::i32 places) {
  using namespace ap;
  u32 wide = (static_cast<u32>(groups) + kGroups - 1) / kGroups;  // blocks beside each other
  u32 row = thread_x() % kRows, column = block_y() * kGroups + thread_x() / kRows;
  i32 place = static_cast<i32>(block_x() * kRows + row), counted = *valid < places ? *valid : places;
  if (column >= wide || static_cast<i32>(block_x() * kRows) >= counted) return;  // whole halves of waves
  vec<u32, 2> own = {0, 0};
  if (place < counted && (!weights || weights[place] != 0.0f)) {
    u32 id = static_cast<u32>(ids[place]);
    i32 token = static_cast<i32>(id & 0xFFFFFF), choice = static_cast<i32>(id >> 24);
    choice = choices == 1 ? 0 : choice;  // a row a token: all of its choices share it
    if (token < tokens && choice < choices) {
      i64 from = (static_cast<i64>(token) * choices + choice) * groups;
      own = scales8(scales + from, column * kGroups, static_cast<u32>(groups));
    }
  }
  vec<u32, 2> other = {of_partner(own[0]), of_partner(own[1])};
  bool upper = row >= kRows / 2;
  vec<u32, 2> a = upper ? other : own, b = upper ? own : other;
  u8* to = out + (static_cast<i64>(block_x()) * wide + column) * kBytes + row % 16 * 4;
#pragma unroll
  for (u32 i = 0; i < 2; ++i) {
    u32 g = i + (upper ? 2 : 0);
    u32 packed = byte_of(a[0], g) | byte_of(b[0], g) << 8 | byte_of(a[1], g) << 16 | byte_of(b[1], g) << 24;
    *reinterpret_cast<u32*>(to + g * 64) = packed;
  }
}
