// Dynamic quantisation of a whole tensor: scale = amax(|input|) / qmax, out[m, n] = input[m, n] / scale, rounded to nearest
// even and saturated. Two launches: the first leaves the maximum of each block in scratch, the second reduces those and
// quantises. Nothing is expected in the scratch or in `scale`: no launch clears them, and no atomic has to be waited for.
//
// Build:  T = bf16 | f16     input element type
//         Q = fp8 | i8       output, as in quant.hip; the first launch does not look at it
//         STEP = 1 | 2       which launch
//         ALIGNED = 1 | 0    1: N and both strides multiples of 8; input 16-byte, out 8-byte aligned
//         BLOCK, ITERS       a tile is BLOCK * 8 * ITERS columns of one row
// Launch: both with the same grid x = blocks <= BLOCK * 4, at most one for each tile; block x = BLOCK, static LDS only.
//         tiles = M * cdiv(N, BLOCK * 8 * ITERS). Dense rows are best launched as one row of M * N columns.
//
// Block b takes the tiles b, b + blocks, ... in both launches, forwards in the first and backwards in the second: where blocks
// go to the XCDs round robin, it finds what the first launch read last in the L2 of its own XCD.
#include "quant.hpp"

namespace ap {

inline constexpr u32 kTile = ITERS * kStep;

struct place {
  u32 row, first;
};

AP_INLINE place place_of(u32 tile, u32 columns) {
  u32 per_row = (columns + kTile - 1) / kTile;
  u32 row = tile / per_row;
  return {row, (tile - row * per_row) * kTile};
}

AP_INLINE void load_tile(pack (&held)[ITERS], const elem* input, place at, u32 columns, i64 stride) {
  load_steps(held, input + at.row * stride + at.first, columns - at.first);
}

}  // namespace ap

#if STEP == 1
// partial[blocks] written: the largest |input| of each block's tiles, NaN left out.
AP_KERNEL(BLOCK)
void tensor_amax(float* __restrict__ partial, const ap::elem* __restrict__ input, ap::i32 n, ap::i32 tiles, ap::i32 blocks,
                 ap::i64 in_stride) {
  using namespace ap;
  __shared__ float waves[BLOCK / kWave];
  u32 columns = static_cast<u32>(n);
  float amax = 0.0f;
  for (u32 t = block_x(); t < static_cast<u32>(tiles); t += static_cast<u32>(blocks)) {
    pack held[ITERS];
    load_tile(held, input, place_of(t, columns), columns, in_stride);
#pragma unroll
    for (u32 i = 0; i < ITERS; ++i) amax = amax8(held[i], amax);
  }
  amax = block_max_nonneg<BLOCK>(amax, waves);
  if (thread_x() == 0) partial[block_x()] = amax;
}
#else
// out[M, N], input[M, N] with row strides in elements; scale[1] f32 written; partial[blocks] from the first launch.
AP_KERNEL(BLOCK)
void tensor_quantise(ap::u8* __restrict__ out, const ap::elem* __restrict__ input, float* __restrict__ scale,
                     const float* __restrict__ partial, ap::i32 n, ap::i32 tiles, ap::i32 blocks, ap::i64 out_stride,
                     ap::i64 in_stride) {
  using namespace ap;
  __shared__ float waves[BLOCK / kWave];
  u32 columns = static_cast<u32>(n), stride = static_cast<u32>(blocks);
  // The maxima are asked for first and the first tile after them: memory answers in order, so that the reduction waits for the
  // maxima alone and runs while the tile is on its way. Lanes without a maximum take the last one again.
  float maxima[4];
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    u32 b = thread_x() + i * BLOCK;
    maxima[i] = partial[b < stride ? b : stride - 1];
  }
  u32 t = block_x() + (static_cast<u32>(tiles) - 1 - block_x()) / stride * stride;  // the last tile of this block
  place at = place_of(t, columns);
  pack held[ITERS];
  load_tile(held, input, at, columns, in_stride);
  float amax = max_num(max_num(maxima[0], maxima[1]), max_num(maxima[2], maxima[3]));
  quant_scale s = scale_of(block_max_nonneg<BLOCK>(amax, waves), nullptr);
  if (block_x() == 0 && thread_x() == 0) *scale = s.scale;
  for (;;) {
    u8* to = out + at.row * out_stride + at.first;
    // A whole tile has no lane to leave out. Behind a branch for each step a store would wait for the one before it: there the
    // compiler no longer knows how many are on their way.
    if (columns - at.first >= kTile) {
      store_steps(to, held, s.inverse, kTile);
    } else {
      store_steps(to, held, s.inverse, columns - at.first);
    }
    if (t < stride) break;
    t -= stride;
    at = place_of(t, columns);
    load_tile(held, input, at, columns, in_stride);
  }
}
#endif
