// Which numbers of a row are its k largest, or smallest: a radix select by a block, in three steps (11, 11 and 10 bits); fewer where a
// step's digit is taken whole. NaN counts above infinity. Of equal numbers the first are taken.
//
// Define before the include:
//   BLOCK         threads of a block: 1024
//   ZEROS_DIFFER  0: -0 equals 0; 1: -0 is below 0
#pragma once

#include "common.hpp"

namespace ap {

inline constexpr u32 kWaves = BLOCK / kWave;
inline constexpr u32 kBins = 2048;  // of one step
inline constexpr u32 kEach = kBins / BLOCK;

// As large as the number is, in unsigned order; with `turned` all bits set, as small as it is. No number gives 0, which stands for none.
AP_INLINE u32 rank_of(float x, u32 turned) {
  u32 bits = __builtin_bit_cast(u32, x);
#if !ZEROS_DIFFER
  if (x == 0.0f) bits = 0;
#endif
  u32 rank = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return __builtin_isnan(x) ? (turned ? 1u : 0xffffffffu) : rank ^ turned;
}

template <typename E>
struct row {
  static constexpr u32 kGroup = 16 / sizeof(E);  // numbers of one access
  const E* first;
  u32 size;
  u32 head;    // numbers between the last multiple of 16 bytes and the first number
  u32 turned;  // all bits set for the smallest

  static __device__ __attribute__((always_inline)) row of(const E* first, u32 size, u32 turned = 0) {
    return {first, size, static_cast<u32>(reinterpret_cast<u64>(first) / sizeof(E)) % kGroup, turned};
  }
  __device__ u32 groups() const { return (head + size + kGroup - 1) / kGroup; }

  // Group g as ranks: one access where all of it lies in the row.
  __device__ __attribute__((always_inline)) vec<u32, kGroup> ranks(u32 g) const {
    vec<u32, kGroup> found = 0;
    i32 at = static_cast<i32>(g * kGroup) - static_cast<i32>(head);
    if (at >= 0 && at + kGroup <= size) {
      vec<E, kGroup> x = *reinterpret_cast<const vec<E, kGroup>*>(first + at);
#pragma unroll
      for (u32 i = 0; i < kGroup; ++i) found[i] = rank_of(static_cast<float>(x[i]), turned);
    } else {
#pragma unroll
      for (u32 i = 0; i < kGroup; ++i) {
        i32 own = at + static_cast<i32>(i);
        if (own >= 0 && own < static_cast<i32>(size)) found[i] = rank_of(static_cast<float>(first[own]), turned);
      }
    }
    return found;
  }
};

template <int CTRL, int ROWS>
AP_INLINE u32 dpp_add(u32 x) {
  return x + static_cast<u32>(__builtin_amdgcn_update_dpp(0, static_cast<int>(x), CTRL, ROWS, 0xf, false));
}

// Sum of the lanes up to this one. Lanes that a step leaves out add 0.
AP_INLINE u32 wave_sums(u32 x) {
  x = dpp_add<0x111, 0xf>(x);  // row_shr:1
  x = dpp_add<0x112, 0xf>(x);  // row_shr:2
  x = dpp_add<0x114, 0xf>(x);  // row_shr:4
  x = dpp_add<0x118, 0xf>(x);  // row_shr:8
  x = dpp_add<0x142, 0xa>(x);  // row_bcast:15 into rows 1 and 3
  x = dpp_add<0x143, 0xc>(x);  // row_bcast:31 into rows 2 and 3
  return x;
}

struct sums {
  u32 before, all;
};
// Sum of the threads before this one, and of all. Whoever calls it twice gives it other words of LDS, or puts a barrier between.
AP_INLINE sums block_sums(u32 x, u32* waves) {
  u32 upto = wave_sums(x), wave = thread_x() / kWave;
  if (thread_x() % kWave == kWave - 1) waves[wave] = upto;
  block_sync();
  sums found = {upto - x, 0};
#pragma unroll
  for (u32 w = 0; w < kWaves; ++w) {
    u32 of = waves[w];
    found.before += w < wave ? of : 0;
    found.all += of;
  }
  return found;
}

struct shared_words {
  u32 bins[kBins];
  u32 waves[2][kWaves];
  u32 digit, left, count;
};

// What a number must have above bit `shift` to be the last one taken, and how many of those that have it are.
struct threshold {
  u32 digits, shift, left;
};

template <typename E>
AP_INLINE threshold select(const row<E>& all, u32 k, shared_words& lds) {
  constexpr u32 kGroup = row<E>::kGroup;
  threshold found = {0, 32, k};
#pragma unroll
  for (u32 step = 0; step < 3; ++step) {
    const u32 shift = step == 0 ? 21 : step == 1 ? 10 : 0, bits = step == 2 ? 10 : 11;
    for (u32 b = thread_x(); b < kBins; b += BLOCK) lds.bins[b] = 0;
    block_sync();
    for (u32 g = thread_x(); g < all.groups(); g += BLOCK) {
      vec<u32, kGroup> ranks = all.ranks(g);
#pragma unroll
      for (u32 i = 0; i < kGroup; ++i) {
        bool in = step == 0 || ranks[i] >> (shift + bits) == found.digits;
        u32 digit = ranks[i] >> shift & ((1u << bits) - 1);
        if (in) __hip_atomic_fetch_add(&lds.bins[digit], 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
      }
    }
    block_sync();
    // From the largest digit down, some for each thread: whose count reaches what is left, has the last one taken.
    u32 own[kEach], total = 0;
#pragma unroll
    for (u32 i = 0; i < kEach; ++i) {
      own[i] = lds.bins[kBins - 1 - (thread_x() * kEach + i)];
      total += own[i];
    }
    u32 above = block_sums(total, lds.waves[step % 2]).before;
#pragma unroll
    for (u32 i = 0; i < kEach; ++i) {
      if (above < found.left && found.left <= above + own[i]) {
        lds.digit = kBins - 1 - (thread_x() * kEach + i);
        lds.left = found.left - above;
        lds.count = own[i];
      }
      above += own[i];
    }
    block_sync();
    found = {found.digits << bits | lds.digit, shift, lds.left};
    if (lds.count == lds.left) break;  // all that have these digits
  }
  return found;
}

// What is taken, in order, a group a thread at once: put(its number among them, its place, its rank).
template <typename E, typename F>
AP_INLINE void emit(const row<E>& all, threshold last, u32 k, shared_words& lds, F put) {
  constexpr u32 kGroup = row<E>::kGroup;
  u32 above = 0, equal = 0;
  for (u32 step = 0; step < all.groups(); step += BLOCK) {
    u32 g = step + thread_x();
    vec<u32, kGroup> ranks = all.ranks(g);
    u32 count = 0;  // those above in the low half, equal ones in the high half
#pragma unroll
    for (u32 i = 0; i < kGroup; ++i) {
      u32 digits = ranks[i] >> last.shift;
      count += digits > last.digits ? 1u : digits == last.digits ? 0x10000u : 0u;
    }
    sums of = block_sums(count, lds.waves[step / BLOCK % 2]);
    u32 more = above + (of.before & 0xffffu), same = equal + (of.before >> 16);
#pragma unroll
    for (u32 i = 0; i < kGroup; ++i) {
      u32 digits = ranks[i] >> last.shift;
      bool is_more = digits > last.digits, is_same = digits == last.digits;
      if (is_more || (is_same && same < last.left)) {
        put(more + (same < last.left ? same : last.left), g * kGroup + i - all.head, ranks[i]);
      }
      more += is_more;
      same += is_same;
    }
    above += of.all & 0xffffu;
    equal += of.all >> 16;
    if (above + (equal < last.left ? equal : last.left) == k) break;
  }
}

}  // namespace ap
