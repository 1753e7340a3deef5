// Dynamic quantisation per row ("token"): scales[m] = amax(|input[m]|) / qmax, out[m, n] = input[m, n] / scales[m], rounded
// to nearest even and saturated.
//
// Build:  T = bf16 | f16     input element type
//         Q = fp8 | i8       output: the target's e4m3 (qmax 240 on gfx942, 448 on gfx950), or int8 (qmax 127)
//         ALIGNED = 1 | 0    1: N and in_stride multiples of 8; input 16-byte, out 8-byte aligned, out_stride multiple of 8
//         BLOCK              threads, a multiple of 64
//         ITERS              n > 0: the row stays in registers, needs N <= BLOCK * 8 * n; 0: any N, the row is read twice
// Launch: grid x = M, block x = BLOCK, static LDS only.
#include "common.hpp"

namespace ap {

using elem = T;
using quant = Q;
using pack = vec<elem, kVec>;
inline constexpr u32 kStep = BLOCK * kVec;  // columns that a block takes at once
inline constexpr float kMinNormal = 0x1p-126f;

struct row_scale {
  float scale, inverse;
};

// A row of zeros gets scale 1 and zeros, as AITER's own torch reference has it. The floor keeps 1 / scale finite.
AP_INLINE row_scale scale_of(float amax, const float* scale_ub) {
  if (scale_ub) amax = __builtin_fminf(amax, *scale_ub);
  float scale = amax > 0.0f ? max_num(amax * (1.0f / quant_traits<quant>::max), kMinNormal) : 1.0f;
  return {scale, 1.0f / scale};
}

// Eight columns of one lane: 8 neighbours when aligned, else 8 that lie BLOCK apart. The pointer is at the step's first
// column, `n` columns from there to the row's end; columns past it read as 0.
AP_INLINE pack load8(const elem* __restrict__ in, u32 n) {
  pack p = {};
#if ALIGNED
  u32 c = thread_x() * kVec;
  if (c < n) p = *reinterpret_cast<const pack*>(in + c);
#else
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) {
    u32 c = thread_x() + i * BLOCK;
    if (c < n) p[i] = in[c];
  }
#endif
  return p;
}

AP_INLINE void store8(u8* __restrict__ out, pack p, float inverse, u32 n) {
  float f[kVec];
#pragma unroll
  for (int i = 0; i < kVec; ++i) f[i] = static_cast<float>(p[i]) * inverse;
#if ALIGNED
  u32 c = thread_x() * kVec;
  vec<u32, 2> w = {pack4<quant>(f[0], f[1], f[2], f[3]), pack4<quant>(f[4], f[5], f[6], f[7])};
  if (c < n) *reinterpret_cast<vec<u32, 2>*>(out + c) = w;
#else
#pragma unroll
  for (u32 i = 0; i < kVec; i += 4) {
    u32 w = pack4<quant>(f[i], f[i + 1], f[i + 2], f[i + 3]);
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      u32 c = thread_x() + (i + k) * BLOCK;
      if (c < n) out[c] = static_cast<u8>(w >> (8 * k));
    }
  }
#endif
}

AP_INLINE float amax8(pack p, float amax) {
#pragma unroll
  for (int i = 0; i < kVec; ++i) amax = max_num(amax, abs_f(static_cast<float>(p[i])));
  return amax;
}

}  // namespace ap

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
  const elem* from = input + row * in_stride;
  u8* to = out + row * out_stride;
  float amax = 0.0f;
#if ITERS > 0
  // A column past the row's end must not wrap around: `left` is 0 there.
  auto left = [cols](u32 first) { return cols > first ? cols - first : 0; };
  pack held[ITERS];
#pragma unroll
  for (u32 i = 0; i < ITERS; ++i) held[i] = load8(from + i * kStep, left(i * kStep));
#pragma unroll
  for (u32 i = 0; i < ITERS; ++i) amax = amax8(held[i], amax);
#else
#pragma unroll 4
  for (u32 first = 0; first < cols; first += kStep) amax = amax8(load8(from + first, cols - first), amax);
#endif
  row_scale s = scale_of(block_max_nonneg<BLOCK>(amax, partial), scale_ub);
  if (thread_x() == 0) scales[row] = s.scale;
#if ITERS > 0
#pragma unroll
  for (u32 i = 0; i < ITERS; ++i) store8(to + i * kStep, held[i], s.inverse, left(i * kStep));
#else
#pragma unroll 4
  for (u32 first = 0; first < cols; first += kStep) {
    store8(to + first, load8(from + first, cols - first), s.inverse, cols - first);
  }
#endif
}
