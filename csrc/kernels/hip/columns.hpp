// Eight columns of one lane: how the kernels that go along rows of 16-bit elements read and write them.
//
// The including source sets T, ALIGNED and BLOCK: 8 neighbours in one 16-byte access when ALIGNED, else 8 that lie BLOCK
// apart, so that 2-byte accesses of a wave still fill a 128-byte line.
#pragma once
#include "common.hpp"

namespace ap {

using elem = T;
using pack = vec<elem, kVec>;
inline constexpr u32 kStep = BLOCK * kVec;  // columns that a block takes at once

// Columns from `first` to the row's end; past it 0, and no wrap around.
AP_INLINE u32 columns_left(u32 columns, u32 first) { return columns > first ? columns - first : 0; }

// The step that starts `first` columns after `in`, where the row has `n` columns left, at least one. A lane past the row's end
// reads its last columns again: they do no harm to a maximum, and what is not stored may be anything. So no load stands in a
// branch, and all that a kernel asks for are on their way together, each waited for by number.
AP_INLINE pack load8(const elem* __restrict__ in, u32 first, u32 n) {
#if ALIGNED
  u32 c = first + thread_x() * kVec;
  return *reinterpret_cast<const pack*>(in + (c < n ? c : n - kVec));
#else
  pack p;
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) {
    u32 c = first + thread_x() + i * BLOCK;
    p[i] = in[c < n ? c : n - 1];
  }
  return p;
#endif
}

// The pointer is at the step's first column, `n` columns from there to the row's end.
AP_INLINE void store8(elem* __restrict__ out, pack p, u32 n) {
#if ALIGNED
  u32 c = thread_x() * kVec;
  if (c < n) *reinterpret_cast<pack*>(out + c) = p;
#else
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) {
    u32 c = thread_x() + i * BLOCK;
    if (c < n) out[c] = p[i];
  }
#endif
}

// PACKS steps one after the other, all loads before the first use: a lane has PACKS * 16 bytes in flight.
template <u32 PACKS>
AP_INLINE void load_steps(pack (&held)[PACKS], const elem* __restrict__ in, u32 n) {
#pragma unroll
  for (u32 i = 0; i < PACKS; ++i) held[i] = load8(in, i * kStep, n);
}

}  // namespace ap
