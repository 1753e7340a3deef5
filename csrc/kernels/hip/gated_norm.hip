// RMSNorm of heads, times SiLU of a gate, as fp8 codes with a scale for each head of a token, or one for all heads of a token.
//
// Of a head x of 128 and its gate z: y = x * weight * rsqrt(mean(x^2) + epsilon) * z / (1 + exp(-z)); scale = amax(|y|) / qmax where amax
// is above 1e-10, else 1e-10; code = y / scale, saturating; all in fp32.
//
// Build:  T = bf16 | f16          element type of x, z and weight
//         ROUNDS = 0              each head has a scale of its own
//                = 2 | 8          a token has one; at most 16 * ROUNDS heads
// Launch: block x = 256; grid x = cdiv(tokens * heads, 16), or one for each token.
#define LANES 16
#include "rope_head.hpp"

namespace ap {

inline constexpr u32 kSize = 128, kHeads = 256 / kLanes;
inline constexpr u32 kRounds = ROUNDS ? ROUNDS : 1;

// Eight neighbouring elements of a head, gated.
AP_INLINE void gated(const u16* x, const u16* z, const float* w, float epsilon, const share& own, float* e) {
  float gate[8];
  load(x, own, e);
  load(z, own, gate);
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += e[i] * e[i];
  sum = over_head(sum, [](float a, float b) { return a + b; });
  float root = __builtin_amdgcn_rsqf(sum / kSize + epsilon);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float sigmoid = 1.0f / (1.0f + __builtin_amdgcn_exp2f(gate[i] * -1.44269504088896340736f));
    e[i] = e[i] * w[i] * root * (gate[i] * sigmoid);
  }
}

AP_INLINE float largest(const float* e, float amax) {
#pragma unroll
  for (int i = 0; i < 8; ++i) amax = max_num(amax, abs_f(e[i]));
  return over_head(amax, [](float a, float b) { return max_num(a, b); });
}

AP_INLINE float scale_of(float amax) { return amax > 1e-10f ? amax / quant_traits<fp8>::max : 1e-10f; }

AP_INLINE void store_codes(u8* out, const share& own, const float* e, float scale) {
  float inverse = 1.0f / scale;
  vec<u32, 2> codes = {pack4<fp8>(e[0] * inverse, e[1] * inverse, e[2] * inverse, e[3] * inverse),
                       pack4<fp8>(e[4] * inverse, e[5] * inverse, e[6] * inverse, e[7] * inverse)};
  *reinterpret_cast<vec<u32, 2>*>(out + own.first) = codes;
}

}  // namespace ap

// A token's codes lie side by side. Scales of heads lie at token * scale_token + head * scale_head.
AP_KERNEL(256)
void gated_norm(ap::u8* __restrict__ out, float* __restrict__ scales, const ap::u16* __restrict__ x,
                const ap::u16* __restrict__ z, const ap::u16* __restrict__ weight, ap::i32 tokens, ap::i32 heads,
                ap::i64 x_token, ap::i64 x_head, ap::i64 z_token, ap::i64 z_head, ap::i64 scale_token,
                ap::i64 scale_head, float epsilon) {
  using namespace ap;
  share own = share_of(thread_x() % kLanes, 0, kSize, false, false);
  u32 of_token = static_cast<u32>(heads), group = thread_x() / kLanes;
  float w[8], e[kRounds][8];
  load(weight, own, w);
#if ROUNDS
  __shared__ float shared[256 / kWave];
  u32 token = block_x();
  float amax = 0.0f;
#pragma unroll
  for (u32 r = 0; r < kRounds; ++r) {
    u32 head = r * kHeads + group;
    if (head >= of_token) continue;
    gated(x + token * x_token + head * x_head, z + token * z_token + head * z_head, w, epsilon, own, e[r]);
    amax = largest(e[r], amax);
  }
  float scale = scale_of(block_max_nonneg<256>(amax, shared));
  if (thread_x() == 0) scales[token] = scale;
#pragma unroll
  for (u32 r = 0; r < kRounds; ++r) {
    u32 head = r * kHeads + group;
    if (head < of_token) store_codes(out + (static_cast<i64>(token) * of_token + head) * kSize, own, e[r], scale);
  }
#else
  u32 place = block_x() * kHeads + group;
  u32 token = place / of_token, head = place - token * of_token;
  if (token >= static_cast<u32>(tokens)) return;
  gated(x + token * x_token + head * x_head, z + token * z_token + head * z_head, w, epsilon, own, e[0]);
  float scale = scale_of(largest(e[0], 0.0f));
  if (own.pair == 0) scales[token * scale_token + head * scale_head] = scale;
  store_codes(out + static_cast<i64>(place) * kSize, own, e[0], scale);
#endif
}
