// Places in the order of their experts, each expert's padded to whole blocks: which place stands where, whose each block is, and how
// many of its expert's places are left from it on. What is padding keeps its value.
//
// A workgroup has an expert. It counts all ids, so that it knows where its own begin without a second launch; each of its waves has a
// run of places, and writes those of its expert behind those of the waves before it: no order is left to chance. Ids that are no
// expert's are left out.
//
// Build:  I        element type of ids
//         WAVES    waves of a workgroup
// Launch: grid x = experts, block x = 64 * WAVES, dynamic LDS experts * 4 bytes.
#include "common.hpp"

namespace ap {

inline constexpr u32 kThreads = WAVES * kWave;

extern __shared__ u32 counts[];

template <int CTRL, int ROWS>
AP_INLINE u32 dpp_plus(u32 x) {
  return x + static_cast<u32>(__builtin_amdgcn_update_dpp(0, static_cast<int>(x), CTRL, ROWS, 0xf, false));
}

AP_INLINE u32 wave_total(u32 x) {
  x = dpp_plus<0x111, 0xf>(x);  // row_shr:1
  x = dpp_plus<0x112, 0xf>(x);  // row_shr:2
  x = dpp_plus<0x114, 0xf>(x);  // row_shr:4
  x = dpp_plus<0x118, 0xf>(x);  // row_shr:8   lane 15 of each row of 16 holds its row
  x = dpp_plus<0x142, 0xa>(x);  // row_bcast:15 into rows 1 and 3
  x = dpp_plus<0x143, 0xc>(x);  // row_bcast:31 into rows 2 and 3
  return static_cast<u32>(__builtin_amdgcn_readlane(static_cast<int>(x), 63));
}

// How many of these lanes are before this one.
AP_INLINE u32 before(u64 lanes) {
  u32 part = __builtin_amdgcn_mbcnt_lo(static_cast<u32>(lanes), 0);
  return __builtin_amdgcn_mbcnt_hi(static_cast<u32>(lanes >> 32), part);
}

// Calls with each tile of a wave's run: the place of this lane, and its id; -1 behind the end. Four tiles are on their way together.
template <typename Each>
AP_INLINE void for_run(const I* __restrict__ ids, i64 begin, i64 end, Each each) {
  constexpr i32 tiles = 4;
  i64 lane = thread_x() % kWave;
  for (i64 from = begin; from < end; from += tiles * kWave) {
    I id[tiles];
#pragma unroll
    for (i32 t = 0; t < tiles; ++t) {
      i64 place = from + t * kWave + lane;
      id[t] = ids[place < end ? place : end - 1];
    }
#pragma unroll
    for (i32 t = 0; t < tiles; ++t) {
      i64 place = from + t * kWave + lane;
      each(static_cast<u32>(place), place < end ? static_cast<i64>(id[t]) : -1);
    }
  }
}

}  // namespace ap

AP_KERNEL(64 * WAVES)
void moe_align(const ap::I* __restrict__ ids, ap::i32* __restrict__ sorted, ap::i32* __restrict__ owners,
               ap::i32* __restrict__ left, ap::i32* __restrict__ total, ap::i32 experts, ap::i32 block,
               ap::i64 places) {
  using namespace ap;
  __shared__ u32 own_of[WAVES], blocks_of[WAVES];
  u32 expert = block_x(), size = static_cast<u32>(block), all = static_cast<u32>(experts);
  u32 wave = static_cast<u32>(__builtin_amdgcn_readfirstlane(static_cast<i32>(thread_x() / kWave)));
  i64 share = (places + WAVES - 1) / WAVES, begin = wave * share, end = begin + share;
  begin = begin < places ? begin : places;
  end = end < places ? end : places;
  for (u32 e = thread_x(); e < all; e += kThreads) counts[e] = 0;
  block_sync();
  u32 own = 0;
  for_run(ids, begin, end, [&](u32, i64 id) {
    if (static_cast<u64>(id) < all) {
      __hip_atomic_fetch_add(counts + id, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    }
    own += static_cast<u32>(__builtin_popcountll(__builtin_amdgcn_ballot_w64(id == expert)));
  });
  block_sync();
  // Blocks of the experts before this one; the first workgroup adds up all, and begins at 0.
  u32 blocks = 0;
  for (u32 e = thread_x(); e < (expert == 0 ? all : expert); e += kThreads) blocks += (counts[e] + size - 1) / size;
  blocks = wave_total(blocks);
  if (thread_x() % kWave == 0) {
    own_of[wave] = own;
    blocks_of[wave] = blocks;
  }
  block_sync();
  u32 first = 0, at = 0;
#pragma unroll
  for (u32 w = 0; w < WAVES; ++w) {
    first += blocks_of[w];
    at += w < wave ? own_of[w] : 0;
  }
  if (expert == 0) {
    if (thread_x() == 0) *total = static_cast<i32>(first * size);
    first = 0;
  }
  at += first * size;
  if (own != 0) {
    for_run(ids, begin, end, [&](u32 place, i64 id) {
      u64 those = __builtin_amdgcn_ballot_w64(id == expert);
      if (id == expert) sorted[at + before(those)] = static_cast<i32>(place);
      at += static_cast<u32>(__builtin_popcountll(those));
    });
  }
  u32 count = counts[expert];
  for (u32 b = thread_x(); b < (count + size - 1) / size; b += kThreads) {
    owners[first + b] = static_cast<i32>(expert);
    left[first + b] = static_cast<i32>(count - b * size);
  }
}
