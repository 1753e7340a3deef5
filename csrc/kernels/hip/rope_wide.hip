// rope.hip where everything lies in runs of 16 bytes: a lane takes eight pairs of a head at once, in two loads and two stores.
//
// The columns of a head are contiguous, what is turned and what is copied are multiples of 8 columns, all tensors and the rows of the
// table begin at 16 bytes, and the table has one entry for each pair.
//
// Build:  T = bf16 | f16          element type of what is turned
//         F = bf16 | f16 | f32    element type of the table
//         BLOCK = 128             threads of a block
// Launch: grid x = cdiv(tokens * cdiv(heads_x + heads_y, kPasses) << log2_lanes, BLOCK); block x = BLOCK, no LDS. A head has
//         1 << log2_lanes lanes. Work is numbered across tokens: a block for each would leave lanes idle where heads do not fill it.
#include "rope.hpp"

namespace ap {

using pack = vec<elem, kVec>;
inline constexpr u32 kEntries = 16 / sizeof(entry);

AP_INLINE void entries(float (&to)[kVec], const entry* from) {
#pragma unroll
  for (u32 i = 0; i < kVec; i += kEntries) {
    auto line = *reinterpret_cast<const vec<entry, kEntries>*>(from + i);
#pragma unroll
    for (u32 j = 0; j < kEntries; ++j) to[i + j] = static_cast<float>(line[j]);
  }
}

// Eight pairs in two runs: x[i] and y[i] with apart, else neighbours, the first four of them in x.
AP_INLINE void turn_pairs(pack& x, pack& y, const float (&cosine)[kVec], const float (&sine)[kVec], bool apart) {
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) {
    u32 low = i % 4 * 2;
    float a = static_cast<float>(apart ? x[i] : i < 4 ? x[low] : y[low]);
    float b = static_cast<float>(apart ? y[i] : i < 4 ? x[low + 1] : y[low + 1]);
    elem first = to_elem<elem>(a * cosine[i] - b * sine[i]), second = to_elem<elem>(b * cosine[i] + a * sine[i]);
    if (apart)
      x[i] = first, y[i] = second;
    else if (i < 4)
      x[low] = first, x[low + 1] = second;
    else
      y[low] = first, y[low + 1] = second;
  }
}

// Where a token's heads begin.
template <typename E>
AP_INLINE E* at_token(E* of, const strides& by, u32 s, u32 b) {
  return of + s * by.token + b * by.batch;
}

}  // namespace ap

// positions: null, then a token's row of the table is its place in the sequence. Tokens: those of all `batch` sequences.
AP_KERNEL(BLOCK)
void rope(ap::elem* out_x, ap::elem* out_y, const ap::elem* in_x, const ap::elem* in_y, const ap::entry* cosines,
          const ap::entry* sines, const ap::i64* positions, ap::strides to_x, ap::strides to_y, ap::strides from_x,
          ap::strides from_y, ap::pairs by, ap::i32 rows, ap::i32 tokens, ap::i32 batch, ap::i32 heads_x, ap::i32 heads_y,
          ap::i32 width, ap::i32 log2_lanes) {
  using namespace ap;
  u32 of_x = static_cast<u32>(heads_x), heads = of_x + static_cast<u32>(heads_y);
  u32 groups = (heads + kPasses - 1) / kPasses, lanes = 1u << log2_lanes;
  u32 at = block_x() * BLOCK + thread_x(), lane = at & (lanes - 1), group = at >> log2_lanes;
  u32 token = group / groups, head = group - token * groups;
  if (token >= static_cast<u32>(tokens)) return;
  u32 s = token / static_cast<u32>(batch), b = token - s * static_cast<u32>(batch);
  i64 row = row_of(positions, nullptr, nullptr, {0, 0, rows}, token, s);
  if (row < 0) return;
  cosines += row * width;
  sines += row * width;
  in_x = at_token(in_x, from_x, s, b), in_y = at_token(in_y, from_y, s, b);
  out_x = at_token(out_x, to_x, s, b), out_y = at_token(out_y, to_y, s, b);
  bool apart = by.step == 1;

  for (u32 pair = lane * kVec; pair < static_cast<u32>(by.half); pair += lanes * kVec) {
    u32 first = static_cast<u32>(by.start) + pair * static_cast<u32>(by.step);
    u32 second = first + (apart ? static_cast<u32>(by.apart) : kVec);
    pack x[kPasses], y[kPasses];
#pragma unroll
    for (u32 k = 0; k < kPasses; ++k) {
      u32 h = head + k * groups;
      if (h >= heads) continue;
      const elem* in = h < of_x ? in_x + h * from_x.head : in_y + (h - of_x) * from_y.head;
      x[k] = *reinterpret_cast<const pack*>(in + first);
      y[k] = *reinterpret_cast<const pack*>(in + second);
    }
    float cosine[kVec], sine[kVec];
    entries(cosine, cosines + pair);
    entries(sine, sines + pair);
#pragma unroll
    for (u32 k = 0; k < kPasses; ++k) {
      u32 h = head + k * groups;
      if (h >= heads) continue;
      elem* out = h < of_x ? out_x + h * to_x.head : out_y + (h - of_x) * to_y.head;
      if (apart)
        turn_pairs(x[k], y[k], cosine, sine, true);
      else
        turn_pairs(x[k], y[k], cosine, sine, false);
      *reinterpret_cast<pack*>(out + first) = x[k];
      *reinterpret_cast<pack*>(out + second) = y[k];
    }
  }
  for (u32 copy = lane * kVec; copy < static_cast<u32>(by.copied); copy += lanes * kVec) {
    u32 from = static_cast<u32>(by.copy_start) + copy;
    for (u32 h = head; h < heads; h += groups) {
      const elem* in = h < of_x ? in_x + h * from_x.head : in_y + (h - of_x) * from_y.head;
      elem* out = h < of_x ? out_x + h * to_x.head : out_y + (h - of_x) * to_y.head;
      if (in == out) continue;
      *reinterpret_cast<pack*>(out + from) = *reinterpret_cast<const pack*>(in + from);
    }
  }
}
