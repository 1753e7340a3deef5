// Collectives of 2 to 8 devices of one host that can touch each other's memory: all-reduce, all-reduce with add and RMS norm,
// all-gather, reduce-scatter.
//
// Each rank has a block that all ranks have mapped: `data` [2, groups, region] and `signals` [WORLD + 1, groups]. Workgroup g of
// every rank does the same part of the call and talks to workgroup g of the others alone:
//   1. it copies its part of the input into its region of its own data, and writes `step` to signals[rank][g] of every other rank;
//   2. it waits until signals[r][g] of its own are `step` for all r, and reads what it needs of the others' regions.
// signals[WORLD][g] counts the calls that workgroup g was in; call n uses half n % 2 of the data. A half is written again two calls
// later: the call between saw a signal of every other rank, whose workgroup had begun it, so that its earlier launch, and with it
// all its reads of this half, was over. Calls of one communicator must therefore follow each other (one stream).
// Steps only grow: 2n + 1, and 2n + 2 where parts are exchanged a second time.
//
// The block must be fine-grained or uncached memory: other devices' stores to ordinary memory are seen at a launch's end only. Sums
// are in the order of the ranks, in fp32, rounded once: every rank has the same bits.
//
// Build:  T = bf16 | f16 | f32   element type; PACK of them are 16 bytes. WORLD = 2 | 4 | 6 | 8
//         OP = reduce1 | reduce2 | norm | gather | scatter
//           reduce1  every rank adds everything: (WORLD - 1) times the input is read
//           reduce2  rank r adds part r of WORLD, then all fetch the sums: twice (WORLD - 1) / WORLD times the input
// Launch: grid x = workgroups in use (at most groups), block x = 512, no dynamic LDS. All pointers at 16 bytes.
#include "peers.hpp"

#define AP_OP_reduce1 1
#define AP_OP_reduce2 2
#define AP_OP_norm 3
#define AP_OP_gather 4
#define AP_OP_scatter 5
#define AP_JOIN_(a, b) a##b
#define AP_JOIN(a, b) AP_JOIN_(a, b)
#define AP_OP AP_JOIN(AP_OP_, OP)

namespace ap {

// The sum of pack `at` of all ranks' regions, this rank's own from `mine`.
AP_INLINE void sum(float (&acc)[kPack], const Peers& peers, i32 rank, i64 base, const pack* mine, i64 at) {
  pack all[WORLD];
#pragma unroll
  for (i32 r = 0; r < WORLD; ++r) all[r] = *(r == rank ? mine + at : peers.data[r] + base + at);
#pragma unroll
  for (u32 k = 0; k < kPack; ++k) {
    float total = static_cast<float>(all[0][k]);
#pragma unroll
    for (i32 r = 1; r < WORLD; ++r) total += static_cast<float>(all[r][k]);
    acc[k] = total;
  }
}

// Sum of a block, the same in every lane. `shared` may be used again after the next barrier.
AP_INLINE float block_sum(float x, float* shared) {
#pragma unroll
  for (i32 step = 32; step > 0; step /= 2)
    x += __builtin_bit_cast(
        float, __builtin_amdgcn_ds_bpermute(static_cast<i32>((thread_x() ^ static_cast<u32>(step)) % kWave) * 4,
                                            __builtin_bit_cast(i32, x)));
  if (thread_x() % kWave == 0) shared[thread_x() / kWave] = x;
  block_sync();
  float total = 0.0f;
#pragma unroll
  for (u32 w = 0; w < kBlock / kWave; ++w) total += shared[w];
  return total;
}

}  // namespace ap

#if AP_OP == 1
AP_KERNEL(512) void peer_all_reduce(ap::pack* out, const ap::pack* input, AP_PEERS) {
  AP_BEGIN;
  offer(own, input + part.first, part.here);
  AP_EXCHANGE(step);
  for (i64 i = thread_x(); i < part.here; i += kBlock) {
    float acc[kPack];
    sum(acc, peers, rank, part.base, input + part.first, i);
    out[part.first + i] = rounded(acc);
  }
  AP_END;
}
#elif AP_OP == 2
// `share` is WORLD equal parts; the sums go where this rank's own part lay, which no other rank reads before.
AP_KERNEL(512) void peer_all_reduce(ap::pack* out, const ap::pack* input, AP_PEERS) {
  AP_BEGIN;
  offer(own, input + part.first, part.here);
  AP_EXCHANGE(step);
  const i64 each = share / WORLD, last = part.here - 1;
  const i64 begin = rank * each, end = begin + each < part.here ? begin + each : part.here;
  for (i64 i = begin + thread_x(); i < end; i += kBlock) {
    float acc[kPack];
    sum(acc, peers, rank, part.base, input + part.first, i);
    own[i] = out[part.first + i] = rounded(acc);
  }
  AP_EXCHANGE(step + 1);
  for (i64 i = thread_x(); i < each; i += kBlock) {
    pack all[WORLD];
#pragma unroll
    for (i32 r = 0; r < WORLD; ++r) {
      const i64 at = r * each + i;
      all[r] = peers.data[r][part.base + (at < part.here ? at : last)];
    }
#pragma unroll
    for (i32 r = 0; r < WORLD; ++r)
      if (r != rank && r * each + i < part.here) out[part.first + r * each + i] = all[r];
  }
  AP_END;
}
#elif AP_OP == 3
// A part is whole rows of `row` packs. The norm is of the rounded sum, which the lane that wrote it reads again.
AP_KERNEL(512)
void peer_all_reduce_rmsnorm(ap::pack* out, ap::pack* residual_out, const ap::pack* input, const ap::pack* residual_in,
                             const ap::pack* weight, AP_PEERS, ap::i64 row, float inverse_width, float epsilon,
                             ap::i32 gemma_norm) {
  AP_BEGIN;
  __shared__ float shared[kBlock / kWave];
  offer(own, input + part.first, part.here);
  AP_EXCHANGE(step);
  const float more = gemma_norm ? 1.0f : 0.0f;
  for (i64 start = 0; start < part.here; start += row) {
    float squares = 0.0f;
    for (i64 i = thread_x(); i < row; i += kBlock) {
      float acc[kPack];
      sum(acc, peers, rank, part.base, input + part.first, start + i);
      const pack add = residual_in[part.first + start + i];
#pragma unroll
      for (u32 k = 0; k < kPack; ++k) acc[k] += static_cast<float>(add[k]);
      const pack total = rounded(acc);
      residual_out[part.first + start + i] = total;
#pragma unroll
      for (u32 k = 0; k < kPack; ++k) squares += static_cast<float>(total[k]) * static_cast<float>(total[k]);
    }
    const float scale = __builtin_amdgcn_rsqf(block_sum(squares, shared) * inverse_width + epsilon);
    for (i64 i = thread_x(); i < row; i += kBlock) {
      const pack total = residual_out[part.first + start + i], factor = weight[i];
      float normed[kPack];
#pragma unroll
      for (u32 k = 0; k < kPack; ++k)
        normed[k] = static_cast<float>(total[k]) * scale * (static_cast<float>(factor[k]) + more);
      out[part.first + start + i] = rounded(normed);
    }
    block_sync();
  }
  AP_END;
}
#elif AP_OP == 4
// out[row, r] = input of rank r, row by row: [rows, WORLD, row].
AP_KERNEL(512) void peer_all_gather(ap::pack* out, const ap::pack* input, AP_PEERS, ap::i64 row) {
  AP_BEGIN;
  offer(own, input + part.first, part.here);
  AP_EXCHANGE(step);
  for (i64 i = thread_x(); i < part.here; i += kBlock) {
    pack all[WORLD];
#pragma unroll
    for (i32 r = 0; r < WORLD; ++r) all[r] = *(r == rank ? input + part.first + i : peers.data[r] + part.base + i);
    const i64 at = part.first + i, line = at / row;
    pack* to = out + line * WORLD * row + (at - line * row);
#pragma unroll
    for (i32 r = 0; r < WORLD; ++r) to[r * row] = all[r];
  }
  AP_END;
}
#else
// out[row] = the sum of input[row, rank] of all ranks; `packs` and `share` count packs of the result, of which the input has WORLD times
// as many: a region holds the parts of all ranks, [WORLD, share].
AP_KERNEL(512) void peer_reduce_scatter(ap::pack* out, const ap::pack* input, AP_PEERS, ap::i64 row) {
  AP_BEGIN;
  for (i64 i = thread_x(); i < part.here; i += kBlock) {
    const i64 at = part.first + i, line = at / row;
    const pack* from = input + line * WORLD * row + (at - line * row);
#pragma unroll
    for (i32 r = 0; r < WORLD; ++r) own[r * share + i] = from[r * row];
  }
  AP_EXCHANGE(step);
  for (i64 i = thread_x(); i < part.here; i += kBlock) {
    float acc[kPack];
    sum(acc, peers, rank, part.base + rank * share, own + rank * share, i);
    out[part.first + i] = rounded(acc);
  }
  AP_END;
}
#endif
