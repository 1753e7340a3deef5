// The gates of the gated delta rule, of each token and head of values.
//
//   g    = -exp(a_log) * softplus(a + bias)          softplus(x) = log(1 + exp(slope * x)) / slope, x where slope * x > threshold
//   beta = 1 / (1 + exp(-b))                         all in fp32
//
// Build:  T = bf16 | f16 | f32     element type of a and b
//         D = f32 | bf16 | f16     of bias
// Launch: grid cdiv(tokens * heads, 256), block x = 256.
#include "delta_gates.hpp"

namespace ap {

using f32 = float;
using elem = T;
using bias_t = D;

}  // namespace ap

// a, b [tokens, heads], rows a_row and b_row elements apart; a_log f32 and bias [heads]; g, beta f32 [tokens, heads].
AP_KERNEL(256)
void gdn_gating(float* __restrict__ g, float* __restrict__ beta, const float* __restrict__ a_log,
                const ap::elem* __restrict__ a, const ap::elem* __restrict__ b, const ap::bias_t* __restrict__ bias,
                ap::i32 count, ap::i32 heads, float slope, float threshold, ap::i64 a_row, ap::i64 b_row) {
  using namespace ap;
  u32 at = block_x() * 256 + thread_x();
  if (at >= static_cast<u32>(count)) return;
  u32 token = at / static_cast<u32>(heads), head = at % static_cast<u32>(heads);
  float x = static_cast<float>(a[token * a_row + head]) + static_cast<float>(bias[head]), y = slope * x;
  float soft = y <= threshold ? log1p_exp(y) / slope : x;
  g[at] = -exp_of(a_log[head]) * soft;
  beta[at] = __builtin_amdgcn_rcpf(1.0f + exp_of(-static_cast<float>(b[token * b_row + head])));
}
