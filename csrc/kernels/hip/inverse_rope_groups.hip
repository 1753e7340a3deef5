// Rotary embedding undone in the last elements of each head, and heads as fp8 with a power of two for each group, in one launch.
//
// Neighbours of the last 2 * half elements of a head are pairs: x' = x * cos + y * sin, y' = y * cos - x * sin, in fp32. All elements
// then become fp8: each group has the scale 2^(b - 127), the smallest power of two of which the group's largest size, 1e-8 at least,
// is at most the largest code. NaN is left out of the largest size, and its code is NaN; of a group with an infinity b is 255,
// and the codes of its finite numbers are 0.
//
// A wave takes a head of a token, each lane eight neighbouring elements.
//
// Build:  T = bf16 | f16   element type of heads and tables
// Launch: grid x = cdiv(tokens * heads, 4); block x = 256.
// guarantee   size <= 512; size and strides of heads are multiples of 8, half and that of tables of 4; groups 32, 64 or 128 and divide
//             size; heads at 16 bytes, codes and tables at 8.
#include "group_powers.hpp"

namespace ap {

enum : i32 { kRows, kPairs, kTiles, kRuns };

// Where scale k of a row (token, part) lies. kRows: anywhere. The others have blocks of 32 tokens: kPairs of 2 scales, kTiles of 8, each
// part after the other; kRuns of 4, the parts of 32 tokens side by side.
struct scales {
  i64 a, b, c;  // strides
  u32 width;    // scales of a row, rounded up
  i32 layout;

  __device__ i64 place(u32 token, u32 part, u32 k) const {
    if (layout == kRows) return token * a + part * b + k * c;
    u32 block = token / 32, low = token % 16, second = token % 32 / 16;
    if (layout == kPairs)
      return part * a + static_cast<i64>(block) * width * 32 + k / 2 * 64 + low * 4 + k % 2 * 2 + second;
    if (layout == kTiles)
      return part * a + static_cast<i64>(block) * width * 32 + k / 8 * 256 + (k % 4 * 16 + low) * 4 + second +
             k % 8 / 4 * 2;
    return block * a + part * b + k / 4 * 128 + token % 32 * 4 + k % 4;
  }
};

}  // namespace ap

// o [tokens, heads, size]; out [tokens, heads * size], of which each `columns` are a part with scales of its own.
AP_KERNEL(256)
void inverse_rope_groups(const ap::u16* __restrict__ o, const ap::i64* __restrict__ positions,
                         const ap::u16* __restrict__ cosines, const ap::u16* __restrict__ sines,
                         ap::u8* __restrict__ out, ap::u8* __restrict__ scale_bytes, ap::i32 tokens, ap::i32 heads,
                         ap::i32 size, ap::i32 half, ap::i32 table_rows, ap::i32 columns, ap::i32 group_size,
                         ap::i32 layout, ap::i32 width, ap::i64 o_token, ap::i64 o_head, ap::i64 table_stride,
                         ap::i64 scale_a, ap::i64 scale_b, ap::i64 scale_c) {
  using namespace ap;
  u32 place = static_cast<u32>(__builtin_amdgcn_readfirstlane(static_cast<i32>(block_x() * 4 + thread_x() / kWave)));
  u32 units = static_cast<u32>(heads), token = place / units, head = place - token * units;
  if (token >= static_cast<u32>(tokens)) return;
  u32 first = thread_x() % kWave * kVec, length = static_cast<u32>(size), rest = length - 2 * static_cast<u32>(half);
  if (first >= length) return;  // whole groups leave
  i64 position = positions[token], last = static_cast<i64>(table_rows) - 1;
  i64 row = position < 0 ? 0 : position > last ? last : position;
  pack x = load(o + token * o_token + head * o_head + first);
  float v[kVec];
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) v[i] = as_float(x[i]);
  if (first >= rest) {
    i64 at = row * table_stride + (first - rest) / 2;
    vec<u16, 4> cos = *reinterpret_cast<const vec<u16, 4>*>(cosines + at);
    vec<u16, 4> sin = *reinterpret_cast<const vec<u16, 4>*>(sines + at);
#pragma unroll
    for (u32 i = 0; i < kVec; i += 2) {
      float c = as_float(cos[i / 2]), s = as_float(sin[i / 2]);
      float a = v[i] * c + v[i + 1] * s;
      v[i + 1] = v[i + 1] * c - v[i] * s;
      v[i] = a;
    }
  }
  u32 group = static_cast<u32>(group_size);
  u32 power = power_of(group_top(v, group));
  u32 column = head * length + first;
  *reinterpret_cast<vec<u32, 2>*>(out + static_cast<i64>(token) * units * length + column) = codes_of(v, power);
  if (first % group == 0) {
    scales to = {scale_a, scale_b, scale_c, static_cast<u32>(width), layout};
    u32 part = column / static_cast<u32>(columns), k = (column - part * static_cast<u32>(columns)) / group;
    scale_bytes[to.place(token, part, k)] = static_cast<u8>(power);
  }
}
