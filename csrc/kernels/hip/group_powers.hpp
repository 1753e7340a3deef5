// What kernels share that make fp8 of 32, 64 or 128 neighbouring elements with a power of two as their scale: its byte, and the codes.
//
// The including source sets T, the element type of 16 bits. A lane holds eight neighbouring elements of a group.
#pragma once
#include "common.hpp"

namespace ap {

using elem = T;
using pack = vec<u16, kVec>;

AP_INLINE u32 bits(float x) { return __builtin_bit_cast(u32, x); }
AP_INLINE float number(u32 x) { return __builtin_bit_cast(float, x); }
AP_INLINE float as_float(u16 x) { return static_cast<float>(__builtin_bit_cast(elem, x)); }
AP_INLINE u16 as_bits(float x) { return __builtin_bit_cast(u16, to_elem<elem>(x)); }
AP_INLINE pack load(const u16* at) { return *reinterpret_cast<const pack*>(at); }

template <int CTRL>
AP_INLINE float moved(float x) {
  i32 own = __builtin_bit_cast(i32, x);
  return __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(own, own, CTRL, 0xf, 0xf, false));
}

// The largest size in the group, 1e-8 at least, in each of its lanes. NaN is left out.
AP_INLINE float group_top(const float (&v)[kVec], u32 group) {
  float top = 1e-8f;
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) top = max_num(top, abs_f(v[i]));
  top = max_num(top, moved<0xb1>(top));                   // quad_perm: lanes 1, 0, 3, 2
  top = max_num(top, moved<0x4e>(top));                   // quad_perm: lanes 2, 3, 0, 1
  if (group > 32) top = max_num(top, moved<0x141>(top));  // row_half_mirror
  if (group > 64) top = max_num(top, moved<0x140>(top));  // row_mirror
  return top;
}

// b of the smallest 2^(b - 127) of which `top` is at most the largest code; 255 of infinity.
AP_INLINE u32 power_of(float top) { return (bits(top * (1.0f / quant_traits<fp8>::max)) + 0x7FFFFF) >> 23; }

// Eight codes of numbers / 2^(power - 127), which is not above the largest code. With 255 finite numbers become 0, infinities NaN.
AP_INLINE vec<u32, 2> codes_of(const float (&v)[kVec], u32 power) {
  float inverse = power == 255 ? 0.0f : number((254 - power) << 23);
  u32 low = __builtin_amdgcn_cvt_pk_fp8_f32(v[0] * inverse, v[1] * inverse, 0, false);
  low = __builtin_amdgcn_cvt_pk_fp8_f32(v[2] * inverse, v[3] * inverse, low, true);
  u32 high = __builtin_amdgcn_cvt_pk_fp8_f32(v[4] * inverse, v[5] * inverse, 0, false);
  high = __builtin_amdgcn_cvt_pk_fp8_f32(v[6] * inverse, v[7] * inverse, high, true);
  return {low, high};
}

}  // namespace ap
