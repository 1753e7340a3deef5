// What the kernels of rotary embeddings share: the structs that they take, the row of a token, the place of a head.
//
// The including source sets T and F, the element types of what is turned and of the table.
#pragma once
#include "common.hpp"

namespace ap {

using f32 = float;
using elem = T;
using entry = F;

inline constexpr u32 kPasses = 4;  // heads of a lane: their loads are under way at the same time

// Of one tensor, in elements: a token begins at s * token + b * batch.
struct strides {
  i64 token, batch, head, column;
};

// How pairs lie in a head and in a row of the table: of pair i the first is at `start + i * step`, its partner `apart` behind it.
struct pairs {
  i32 half, start, step, apart, second_start;
  i32 table_step, table_apart, transposed;
  i32 copied, copy_start;
};

// Which row of the table a token has: by position, by its place in its sequence, by row or column of an image that is `width`
// wide, or s.
struct places {
  i32 sequences, width, rows;
};

AP_INLINE bool second_half() { return __builtin_amdgcn_workgroup_id_z() != 0; }

// -1: none, the token stays as it is.
AP_INLINE i64 row_of(const i64* positions, const i64* offsets, const i32* cu_seqlens, places at, u32 token, u32 s) {
  if (positions) {
    i64 row = positions[token];
    if (offsets) row += offsets[token];
    return row < at.rows ? row : -1;
  }
  if (cu_seqlens) {
    // How many sequences begin at the token or before it: empty ones begin where the next one does.
    i32 low = 0, high = at.sequences + 1;
    while (low < high) {
      i32 middle = (low + high) >> 1;
      if (cu_seqlens[middle] <= static_cast<i32>(s))
        low = middle + 1;
      else
        high = middle;
    }
    if (low == 0 || low > at.sequences) return -1;
    i32 row = static_cast<i32>(s) - cu_seqlens[low - 1];
    return row < at.rows ? row : -1;
  }
  u32 width = static_cast<u32>(at.width);
  if (width == 0) return s;
  return second_half() ? s % width : s / width;
}

// The head of either tensor; the heads of y come behind those of x.
template <typename E>
AP_INLINE E* at_head(E* x, E* y, const strides& of_x, const strides& of_y, u32 heads_x, u32 head, u32 s, u32 b) {
  if (head < heads_x) return x + s * of_x.token + b * of_x.batch + head * of_x.head;
  return y + s * of_y.token + b * of_y.batch + (head - heads_x) * of_y.head;
}

}  // namespace ap
