// What the quantising kernels share: the scale of an absolute maximum, and eight columns to eight codes.
//
// The including source sets Q beside T, ALIGNED and BLOCK of columns.hpp. Codes are rounded to nearest even and saturated.
#pragma once
#include "columns.hpp"

namespace ap {

using quant = Q;
inline constexpr float kMinNormal = 0x1p-126f;

struct quant_scale {
  float scale, inverse;
};

// Nothing but zeros gets scale 1 and zeros, as AITER's own torch reference has it. The floor keeps 1 / scale finite.
// scale_ub: null, or what caps amax.
AP_INLINE quant_scale scale_of(float amax, const float* scale_ub) {
  if (scale_ub) amax = __builtin_fminf(amax, *scale_ub);
  float scale = amax > 0.0f ? max_num(amax * (1.0f / quant_traits<quant>::max), kMinNormal) : 1.0f;
  return {scale, 1.0f / scale};
}

// NaN is left out.
AP_INLINE float amax8(pack p, float amax) {
#pragma unroll
  for (int i = 0; i < kVec; ++i) amax = max_num(amax, abs_f(static_cast<float>(p[i])));
  return amax;
}

// Eight numbers, of the columns that `load8` reads, as codes.
AP_INLINE void store_codes(u8* __restrict__ out, const float (&f)[kVec], u32 n) {
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

// The columns that `load8` read, times `inverse`, as codes.
AP_INLINE void store_codes(u8* __restrict__ out, pack p, float inverse, u32 n) {
  float f[kVec];
#pragma unroll
  for (int i = 0; i < kVec; ++i) f[i] = static_cast<float>(p[i]) * inverse;
  store_codes(out, f, n);
}

template <u32 PACKS>
AP_INLINE void store_steps(u8* __restrict__ out, const pack (&held)[PACKS], float inverse, u32 n) {
#pragma unroll
  for (u32 i = 0; i < PACKS; ++i) store_codes(out + i * kStep, held[i], inverse, columns_left(n, i * kStep));
}

}  // namespace ap
