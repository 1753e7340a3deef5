// The activation functions, in fp32. The including source sets ACT = silu | gelu | gelu_tanh | swiglu.
#pragma once
#include "common.hpp"

namespace ap {

enum class act { silu, gelu, gelu_tanh, swiglu };
inline constexpr act kAct = act::ACT;

extern "C" __device__ __attribute__((const)) float __ocml_erf_f32(float);

// x * sigmoid(ax). exp2 and rcp are each within 1 ulp, far inside the 2^-9 or 2^-12 of the rounding to `elem`; v_rcp_f32
// has no subnormal results, so a sigmoid below 2^-126 is 0.
AP_INLINE float times_sigmoid(float x, float ax) {
  return x * __builtin_amdgcn_rcpf(1.0f + __builtin_amdgcn_exp2f(ax * -1.44269504088896341f));
}

AP_INLINE float activate(float x) {
  if constexpr (kAct == act::silu) {
    return times_sigmoid(x, x);
  } else if constexpr (kAct == act::swiglu) {
    return times_sigmoid(x, 1.702f * x);
  } else if constexpr (kAct == act::gelu_tanh) {
    // 0.5 * (1 + tanh(y)) = sigmoid(2 * y), y = sqrt(2 / pi) * (x + 0.044715 * x^3)
    constexpr float a = 1.59576912160573071f;
    return times_sigmoid(x, a * __builtin_fmaf(0.044715f * x * x, x, x));
  } else {
    float h = 0.5f * x;
    return __builtin_fmaf(h, __ocml_erf_f32(x * 0.70710678118654752f), h);
  }
}

}  // namespace ap
