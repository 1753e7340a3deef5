// Places of tokens in the order of their experts, each expert's padded to whole blocks: the lists of a fused mixture of experts.
//
// Launch: `moe_sorting_place`, grid x = blocks + those that zero `moe_buf`, block x = 64 * WAVES,
//         dynamic LDS (WAVES + 3) * experts * 4 bytes. With more blocks than one `moe_sorting_count` goes before it: grid x = blocks.
//
// A place is a token and one of its experts, in that order. A block has a run of them, each of its waves a part of the run, so a
// place is behind those of earlier blocks, of earlier waves, and of earlier lanes: no order is left to chance.
// Ids that are no expert's, and experts that are not here, are left out.
#include "common.hpp"

#ifndef WAVES
#error "WAVES is not set"
#endif

namespace ap {

inline constexpr i32 kThreads = WAVES * kWave;

// Places of a wave: `share` of them, fewer at the end.
struct Run {
  i32 begin, end;
};

struct Sizes {
  i32 tokens, topk, experts, share, blocks;
};

extern __shared__ i32 lds[];

AP_INLINE i32 low(i32 a, i32 b) { return a < b ? a : b; }

AP_INLINE i32 lane_of() { return static_cast<i32>(thread_x() % kWave); }
// The same in all lanes, which the compiler cannot know.
AP_INLINE i32 wave_of() { return __builtin_amdgcn_readfirstlane(static_cast<i32>(thread_x() / kWave)); }

AP_INLINE Run run_of(const Sizes& sizes, i32 block, i32 wave) {
  const i64 places = static_cast<i64>(sizes.tokens) * sizes.topk;
  const i64 begin = (static_cast<i64>(block) * WAVES + wave) * sizes.share;
  const i64 end = begin + sizes.share;
  return {static_cast<i32>(begin < places ? begin : places), static_cast<i32>(end < places ? end : places)};
}

AP_INLINE i32 tokens_of(const i32* given, i32 tokens) {
  if (given == nullptr) return tokens;
  const i32 found = *given;
  return found < 0 ? 0 : low(found, tokens);
}

// LDS written by a lane is seen by the others of its wave after this.
AP_INLINE void wave_sync() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront", "local");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront", "local");
}

// counters[expert] of this wave, from nothing.
AP_INLINE void count_run(const i32* ids, const Sizes& sizes, Run run, i32* counters) {
  const i32 lane = lane_of();
  for (i32 e = lane; e < sizes.experts; e += kWave) counters[e] = 0;
  wave_sync();
  for (i32 i = run.begin + lane; i < run.end; i += kWave) {
    const i32 e = ids[i];
    if (static_cast<u32>(e) < static_cast<u32>(sizes.experts)) {
      __hip_atomic_fetch_add(counters + e, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    }
  }
}

// Sum of the lanes up to this one.
AP_INLINE i32 wave_prefix(i32 x) {
  const i32 lane = lane_of();
#pragma unroll
  for (i32 step = 1; step < kWave; step *= 2) {
    const i32 other = __builtin_amdgcn_ds_bpermute((lane - step) * 4, x);
    if (lane >= step) x += other;
  }
  return x;
}

// Where each expert's places begin, padded to whole units; `local`: its number among those that are here, or -1. One wave.
// Returns where the last one ends.
AP_INLINE i32 starts_of(const i32* totals, const i32* mask, i32 experts, i32 unit, i32* starts, i32* local) {
  const i32 lane = lane_of();
  i32 units = 0, here = 0;
  for (i32 from = 0; from < experts; from += kWave) {
    const i32 e = from + lane;
    const bool inside = e < experts;
    const i32 kept = inside && (mask == nullptr || mask[e] != 0) ? 1 : 0;
    const i32 own = kept != 0 ? (totals[e] + unit - 1) / unit : 0;
    const i32 own_end = units + wave_prefix(own), kept_end = here + wave_prefix(kept);
    if (inside) {
      starts[e] = (own_end - own) * unit;
      local[e] = kept != 0 ? kept_end - 1 : -1;
    }
    units = __builtin_amdgcn_readlane(own_end, kWave - 1);
    here = __builtin_amdgcn_readlane(kept_end, kWave - 1);
  }
  return units * unit;
}

// Lanes with the same number of `bits` bits.
AP_INLINE u64 alike(i32 number, i32 bits, bool inside) {
  u64 found = __builtin_amdgcn_ballot_w64(inside);
  for (i32 bit = 0; bit < bits; ++bit) {
    const bool set = (number >> bit & 1) != 0;
    const u64 those = __builtin_amdgcn_ballot_w64(set);
    found &= set ? those : ~those;
  }
  return found;
}

// How many of them are lanes before this one.
AP_INLINE i32 before(u64 lanes) {
  const u32 part = __builtin_amdgcn_mbcnt_lo(static_cast<u32>(lanes), 0);
  return static_cast<i32>(__builtin_amdgcn_mbcnt_hi(static_cast<u32>(lanes >> 32), part));
}

// `next[expert]`: where this wave's next place goes, negative for an expert that is not here.
AP_INLINE void place_run(i32* sorted_ids, float* sorted_weights, const i32* ids, const float* weights,
                         const Sizes& sizes, Run run, i32 bits, i32* next) {
  const i32 lane = lane_of();
  for (i32 from = run.begin; from < run.end; from += kWave) {
    const i32 i = from + lane;
    const i32 e = i < run.end ? ids[i] : -1;
    const bool inside = static_cast<u32>(e) < static_cast<u32>(sizes.experts);
    const u64 same = alike(e, bits, inside);
    const i32 first = inside ? next[e] : -1;
    const i32 rank = before(same);
    wave_sync();
    if (first >= 0) {
      if (rank == 0) next[e] = first + __builtin_popcountll(same);
      const u32 token = static_cast<u32>(i) / static_cast<u32>(sizes.topk);
      const u32 choice = static_cast<u32>(i) - token * static_cast<u32>(sizes.topk);
      sorted_ids[first + rank] = static_cast<i32>(choice << 24 | token);
      sorted_weights[first + rank] = weights[i];
    }
    wave_sync();
  }
}

// Block `index` of `count` that fill `bytes` with 0.
AP_INLINE void zero_part(u8* out, i64 bytes, i32 index, i32 count) {
  const i64 first = static_cast<i64>(index) * kThreads + thread_x(), step = static_cast<i64>(count) * kThreads;
  const i64 wide = reinterpret_cast<u64>(out) % 16 == 0 ? bytes / 16 : 0;
  for (i64 at = first; at < wide; at += step) reinterpret_cast<vec<u32, 4>*>(out)[at] = vec<u32, 4>{0, 0, 0, 0};
  for (i64 at = wide * 16 + first; at < bytes; at += step) out[at] = 0;
}

}  // namespace ap

// counts[block, expert]. LDS: WAVES * experts words.
AP_KERNEL(WAVES * 64)
void moe_sorting_count(ap::i32* counts, const ap::i32* topk_ids, const ap::i32* num_local_tokens, ap::i32 tokens,
                       ap::i32 topk, ap::i32 experts, ap::i32 share) {
  using namespace ap;
  const Sizes sizes = {tokens_of(num_local_tokens, tokens), topk, experts, share, 0};
  const i32 block = static_cast<i32>(block_x()), wave = wave_of();
  count_run(topk_ids, sizes, run_of(sizes, block, wave), lds + wave * experts);
  block_sync();
  for (i32 e = static_cast<i32>(thread_x()); e < experts; e += kThreads) {
    i32 total = 0;
    for (i32 w = 0; w < WAVES; ++w) total += lds[w * experts + e];
    counts[static_cast<i64>(block) * experts + e] = total;
  }
}

// `counts` is read where `blocks` is more than 1. `bits`: of experts - 1. `zeros`: blocks that fill moe_buf, `row`: bytes of one of its rows.
AP_KERNEL(WAVES * 64)
void moe_sorting_place(ap::i32* sorted_ids, float* sorted_weights, ap::i32* sorted_experts, ap::i32* num_valid,
                       ap::u8* moe_buf, const ap::i32* counts, const ap::i32* topk_ids, const float* topk_weights,
                       const ap::i32* mask, const ap::i32* num_local_tokens, ap::i32 tokens, ap::i32 topk,
                       ap::i32 experts, ap::i32 unit, ap::i32 share, ap::i32 blocks, ap::i32 bits, ap::i32 zeros,
                       ap::i64 row) {
  using namespace ap;
  const Sizes sizes = {tokens_of(num_local_tokens, tokens), topk, experts, share, blocks};
  const i32 block = static_cast<i32>(block_x()), wave = wave_of(), thread = static_cast<i32>(thread_x());
  if (block >= blocks) {
    zero_part(moe_buf, sizes.tokens * row, block - blocks, zeros);
    return;
  }
  i32* const next = lds;
  i32* const totals = lds + WAVES * experts;
  i32* const starts = totals + experts;
  i32* const local = starts + experts;
  const Run run = run_of(sizes, block, wave);
  count_run(topk_ids, sizes, run, next + wave * experts);
  block_sync();
  for (i32 e = thread; e < experts; e += kThreads) {
    i32 earlier = 0, total = 0;
    for (i32 b = 0; b < blocks && blocks > 1; ++b) {
      const i32 found = counts[static_cast<i64>(b) * experts + e];
      earlier += b < block ? found : 0;
      total += found;
    }
    for (i32 w = 0; w < WAVES; ++w) {
      const i32 found = next[w * experts + e];
      next[w * experts + e] = earlier;
      earlier += found;
    }
    totals[e] = blocks > 1 ? total : earlier;
  }
  block_sync();
  if (wave == 0) {
    const i32 end = starts_of(totals, mask, experts, unit, starts, local);
    if (block == 0 && thread == 0) {
      num_valid[0] = end;
      num_valid[1] = sizes.tokens;
    }
  }
  block_sync();
  for (i32 e = thread; e < experts; e += kThreads) {
    for (i32 w = 0; w < WAVES; ++w) {
      next[w * experts + e] = local[e] < 0 ? -1 : next[w * experts + e] + starts[e];
    }
  }
  // Padding, and whose each unit is: a wave an expert.
  const i32 lane = lane_of();
  for (i32 e = block * WAVES + wave; e < experts; e += blocks * WAVES) {
    if (local[e] < 0) continue;
    const i32 units = (totals[e] + unit - 1) / unit;
    for (i32 i = totals[e] + lane; i < units * unit; i += kWave) {
      sorted_ids[starts[e] + i] = static_cast<i32>(static_cast<u32>(topk) << 24 | static_cast<u32>(sizes.tokens));
      sorted_weights[starts[e] + i] = 0.0f;
    }
    for (i32 i = lane; i < units; i += kWave) sorted_experts[starts[e] / unit + i] = local[e];
  }
  block_sync();
  place_run(sorted_ids, sorted_weights, topk_ids, topk_weights, sizes, run, bits, next + wave * experts);
}
