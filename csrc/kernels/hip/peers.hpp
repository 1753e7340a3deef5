// What the kernels of several ranks share: how a workgroup tells and hears the others, its part of a call, and the arguments.
// `peers.hip` says what blocks, steps and halves are. A source that includes it is compiled with T and WORLD.
#pragma once
#include "common.hpp"

namespace ap {

using f32 = float;
using elem = T;
inline constexpr u32 kPack = 16 / sizeof(elem);
inline constexpr u32 kBlock = 512;
using pack = vec<elem, kPack>;

struct Peers {
  pack* data[8];
  i32* signals[8];
};

// A constant index for the compiler: an array that is indexed by a register would live in scratch.
template <typename P>
AP_INLINE P* of_rank(P* const (&all)[8], i32 rank) {
  P* found = all[0];
#pragma unroll
  for (i32 r = 1; r < WORLD; ++r) found = r == rank ? all[r] : found;
  return found;
}

// Tells workgroup `group` of every other rank that what this one wrote is there. Each wave's stores have left the device's caches
// (the fence) before any wave passes the barrier: a barrier alone does not wait for stores.
AP_INLINE void tell(const Peers& peers, i32 rank, i32 groups, u32 group, i32 step) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
  __builtin_amdgcn_s_barrier();
  const i32 to = static_cast<i32>(thread_x());
  if (to >= WORLD || to == rank) return;
  i32* flag = of_rank(peers.signals, to) + static_cast<i64>(rank) * groups + group;
  __hip_atomic_store(flag, step, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

// Waits until every other rank has told this one. The difference, not the order, is compared: steps may wrap.
AP_INLINE void hear(i32* signals, i32 rank, i32 groups, u32 group, i32 step) {
  const i32 from = static_cast<i32>(thread_x());
  if (from < WORLD && from != rank) {
    i32* flag = signals + static_cast<i64>(from) * groups + group;
    while (static_cast<i32>(static_cast<u32>(__hip_atomic_load(flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM)) -
                            static_cast<u32>(step)) < 0)
      __builtin_amdgcn_s_sleep(1);
  }
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "");
}

AP_INLINE pack rounded(const float (&acc)[kPack]) {
  pack out;
#pragma unroll
  for (u32 k = 0; k < kPack; ++k) out[k] = to_elem<elem>(acc[k]);
  return out;
}

// This workgroup's part: its first pack and how many there are, where they lie in a region, and the calls before this one.
struct Part {
  i64 first, here, base;
  i32 calls;
};

AP_INLINE Part part_of(const i32* signals, i32 groups, i64 region, i64 packs, i64 share) {
  const i64 group = block_x();
  const i64 first = group * share;
  const i32 calls = signals[static_cast<i64>(WORLD) * groups + group];
  return {first, packs - first < share ? packs - first : share,
          ((calls & 1) * static_cast<i64>(groups) + group) * region, calls};
}

// Step 1: the part into this rank's region.
AP_INLINE void offer(pack* region, const pack* input, i64 here) {
  for (i64 i = thread_x(); i < here; i += kBlock) region[i] = input[i];
}

}  // namespace ap

#define AP_PEERS                                                                                                    \
  ap::pack *data0, ap::pack *data1, ap::pack *data2, ap::pack *data3, ap::pack *data4, ap::pack *data5,             \
      ap::pack *data6, ap::pack *data7, ap::i32 *signals0, ap::i32 *signals1, ap::i32 *signals2, ap::i32 *signals3, \
      ap::i32 *signals4, ap::i32 *signals5, ap::i32 *signals6, ap::i32 *signals7, ap::i32 rank, ap::i32 groups,     \
      ap::i64 region, ap::i64 packs, ap::i64 share
#define AP_BEGIN                                                                                       \
  using namespace ap;                                                                                  \
  const Peers peers{{data0, data1, data2, data3, data4, data5, data6, data7},                          \
                    {signals0, signals1, signals2, signals3, signals4, signals5, signals6, signals7}}; \
  i32* const signals = of_rank(peers.signals, rank);                                                   \
  const Part part = part_of(signals, groups, region, packs, share);                                    \
  pack* const own = of_rank(peers.data, rank) + part.base;                                             \
  const i32 step = 2 * part.calls + 1
#define AP_EXCHANGE(step)                     \
  tell(peers, rank, groups, block_x(), step); \
  hear(signals, rank, groups, block_x(), step)
#define AP_END \
  if (thread_x() == 0) signals[static_cast<i64>(WORLD) * groups + block_x()] = part.calls + 1
