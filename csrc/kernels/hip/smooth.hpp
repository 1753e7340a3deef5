// What the kernels share that multiply a row by smooth scales before they quantise it.
//
// The including source sets ITERS beside T, Q, ALIGNED and BLOCK of quant.hpp: n > 0: a row stays in registers, needs columns <= BLOCK *
// 8 * n; 0: any number, a row is read twice. ALIGNED asks for smooth scales at 16 bytes, too.
#pragma once
#include "quant.hpp"

namespace ap {

using numbers = vec<float, kVec>;

// Eight smooth scales: of the columns that `load8` reads.
AP_INLINE numbers smooth8(const float* __restrict__ smooth, u32 first, u32 n) {
#if ALIGNED
  u32 c = first + thread_x() * kVec;
  return *reinterpret_cast<const numbers*>(smooth + (c < n ? c : n - kVec));
#else
  numbers s;
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) {
    u32 c = first + thread_x() + i * BLOCK;
    s[i] = smooth[c < n ? c : n - 1];
  }
  return s;
#endif
}

AP_INLINE numbers smoothed(pack p, numbers smooth) {
  numbers v;
#pragma unroll
  for (int i = 0; i < kVec; ++i) v[i] = static_cast<float>(p[i]) * smooth[i];
  return v;
}

AP_INLINE float amax_of(numbers v, float amax) {
#pragma unroll
  for (int i = 0; i < kVec; ++i) amax = max_num(amax, abs_f(v[i]));
  return amax;
}

AP_INLINE void store_cut(u8* __restrict__ out, numbers v, float inverse, u32 n) {
  constexpr float most = quant_traits<quant>::max;
  float f[kVec];
#pragma unroll
  for (int i = 0; i < kVec; ++i) f[i] = __builtin_fminf(max_num(v[i] * inverse, -most), most);  // NaN: -most
  store_codes(out, f, n);
}

// A row as codes, with its scale: amax(|v|) / qmax of v = from * by. NaN is left out of amax, and its code is -qmax.
// least: what amax is at least; 0: a row of zeros has the scale 1.
AP_INLINE void quantise_smoothed(u8* __restrict__ to, const elem* __restrict__ from, const float* __restrict__ by,
                                 float* __restrict__ scale, u32 cols, float least) {
  __shared__ float partial[BLOCK / kWave];
  float amax = least;
#if ITERS > 0
  pack held[ITERS];
  numbers scaled[ITERS];
  load_steps(held, from, cols);
#pragma unroll
  for (u32 i = 0; i < ITERS; ++i) scaled[i] = smooth8(by, i * kStep, cols);
#pragma unroll
  for (u32 i = 0; i < ITERS; ++i) {
    scaled[i] = smoothed(held[i], scaled[i]);
    amax = amax_of(scaled[i], amax);
  }
#else
#pragma unroll 2
  for (u32 first = 0; first < cols; first += kStep) {
    amax = amax_of(smoothed(load8(from, first, cols), smooth8(by, first, cols)), amax);
  }
#endif
  quant_scale s = scale_of(block_max_nonneg<BLOCK>(amax, partial), nullptr);
  if (thread_x() == 0) *scale = s.scale;
#if ITERS > 0
#pragma unroll
  for (u32 i = 0; i < ITERS; ++i) store_cut(to + i * kStep, scaled[i], s.inverse, columns_left(cols, i * kStep));
#else
#pragma unroll 2
  for (u32 first = 0; first < cols; first += kStep) {
    numbers v = smoothed(load8(from, first, cols), smooth8(by, first, cols));
    store_cut(to + first, v, s.inverse, cols - first);
  }
#endif
}

}  // namespace ap
