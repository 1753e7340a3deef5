// The functions that gates of the gated delta rule are made of, in fp32.
#pragma once
#include "common.hpp"

namespace ap {

inline constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.693147180559945309f;

AP_INLINE float exp_of(float x) { return __builtin_amdgcn_exp2f(x * kLog2E); }

// Where exp(x) is small, log(1 + exp(x)) is exp(x) * (1 - exp(x) / 2 + ...): what 1 + exp(x) would lose.
AP_INLINE float log1p_exp(float x) {
  float power = exp_of(x);
  if (power < 0x1p-12f) return power * (1.0f - 0.5f * power);
  return __builtin_amdgcn_logf(1.0f + power) * kLn2;
}

}  // namespace ap
