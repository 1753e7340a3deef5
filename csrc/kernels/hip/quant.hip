// Dynamic quantisation per row ("token"): scales[m] = amax(|input[m]|) / qmax, out[m, n] = input[m, n] / scales[m], rounded
// to nearest even and saturated.
//
// Build:  T = bf16 | f16     input element type
//         Q = fp8 | i8       output: the target's e4m3 (qmax 240 on gfx942, 448 on gfx950), or int8 (qmax 127)
//         ALIGNED = 1 | 0    1: N and in_stride multiples of 8; input 16-byte, out 8-byte aligned, out_stride multiple of 8
//         BLOCK              threads, a multiple of 64
//         ITERS              n > 0: the row stays in registers, needs N <= BLOCK * 8 * n; 0: any N, the row is read twice
// Launch: grid x = M, block x = BLOCK, static LDS only.
#include "quant.hpp"

// out[M, N], input[M, N] with row strides in elements; scales[M] f32 written. scale_ub: f32[1] that caps amax, or null.
// num_rows: i32[1] or null; rows from *num_rows * num_rows_factor on are left alone.
AP_KERNEL(BLOCK)
void dynamic_per_token_scaled_quant(ap::u8* __restrict__ out, const ap::elem* __restrict__ input, float* __restrict__ scales,
                                    const float* __restrict__ scale_ub, const ap::i32* __restrict__ num_rows,
                                    ap::i32 num_rows_factor, ap::i32 n, ap::i64 out_stride, ap::i64 in_stride) {
  using namespace ap;
  __shared__ float partial[BLOCK / kWave];
  u32 row = block_x();
  if (num_rows && static_cast<i64>(row) >= static_cast<i64>(*num_rows) * num_rows_factor) return;
  u32 cols = static_cast<u32>(n);
  if (cols == 0) {
    if (thread_x() == 0) scales[row] = scale_of(0.0f, scale_ub).scale;
    return;
  }
  const elem* from = input + row * in_stride;
  u8* to = out + row * out_stride;
  float amax = 0.0f;
#if ITERS > 0
  pack held[ITERS];
  load_steps(held, from, cols);
#pragma unroll
  for (u32 i = 0; i < ITERS; ++i) amax = amax8(held[i], amax);
#else
#pragma unroll 4
  for (u32 first = 0; first < cols; first += kStep) amax = amax8(load8(from + first, 0, cols - first), amax);
#endif
  quant_scale s = scale_of(block_max_nonneg<BLOCK>(amax, partial), scale_ub);
  if (thread_x() == 0) scales[row] = s.scale;
#if ITERS > 0
  store_steps(to, held, s.inverse, cols);
#else
#pragma unroll 4
  for (u32 first = 0; first < cols; first += kStep) {
    store_codes(to + first, load8(from + first, 0, cols - first), s.inverse, cols - first);
  }
#endif
}
