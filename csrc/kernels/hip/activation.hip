// Gated activations: out[m, j] = act(input[m, j]) * input[m, d + j], computed in fp32, rounded once.
//
// Build:  AP_T = bf16 | f16          element type of input and out
//         AP_ACT_SILU | AP_ACT_GELU  x * sigmoid(x), or the exact (erf) GELU
//         AP_ALIGNED = 1 | 0         1: d and both strides are multiples of 8, both pointers of 16 bytes
//         AP_BLOCK = 64 | 256        threads of a block; a block covers AP_BLOCK * 8 columns of one row
// Launch: grid x = M * cdiv(d, AP_BLOCK * 8), block x = AP_BLOCK, no LDS.
#include "common.hpp"

namespace ap {

using elem = AP_T;
inline constexpr u32 kTile = AP_BLOCK * kVec;

#if defined(AP_ACT_GELU)
extern "C" __device__ __attribute__((const)) float __ocml_erf_f32(float);
#endif

AP_INLINE float activate(float x) {
#if defined(AP_ACT_SILU)
  // exp2 and rcp are each within 1 ulp, far inside the 2^-9 or 2^-12 of the rounding to `elem`.
  float e = __builtin_amdgcn_exp2f(x * -1.44269504088896341f);
  return x * __builtin_amdgcn_rcpf(1.0f + e);
#elif defined(AP_ACT_GELU)
  float h = 0.5f * x;
  return __builtin_fmaf(h, __ocml_erf_f32(x * 0.70710678118654752f), h);
#else
#error "define AP_ACT_SILU or AP_ACT_GELU"
#endif
}

// gate_hi and up_hi are +inf or unused without LIMIT.
template <bool LIMIT>
AP_INLINE elem gated(elem gate, elem up, float gate_hi, float up_hi) {
  float g = static_cast<float>(gate);
  float u = static_cast<float>(up);
  if constexpr (LIMIT) {
    g = min_keep_nan(g, gate_hi);
    u = clamp_keep_nan(u, -up_hi, up_hi);
  }
  return to_elem<elem>(activate(g) * u);
}

template <bool LIMIT>
AP_INLINE void row_tile(elem* __restrict__ out, const elem* __restrict__ gate, const elem* __restrict__ up, u32 first, u32 d,
                        float gate_hi, float up_hi) {
#if AP_ALIGNED
  using pack = vec<elem, kVec>;
  u32 j = first + thread_x() * kVec;
  if (j >= d) return;
  pack g = *reinterpret_cast<const pack*>(gate + j);
  pack u = *reinterpret_cast<const pack*>(up + j);
  pack r;
#pragma unroll
  for (int i = 0; i < kVec; ++i) r[i] = gated<LIMIT>(g[i], u[i], gate_hi, up_hi);
  *reinterpret_cast<pack*>(out + j) = r;
#else
  // Lanes take neighbouring elements, so that 2-byte accesses of a wave still fill a 128-byte line.
  u32 j = first + thread_x();
  elem g[kVec] = {}, u[kVec] = {};
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) {
    u32 c = j + i * AP_BLOCK;
    if (c < d) g[i] = gate[c], u[i] = up[c];
  }
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) {
    u32 c = j + i * AP_BLOCK;
    if (c < d) out[c] = gated<LIMIT>(g[i], u[i], gate_hi, up_hi);
  }
#endif
}

}  // namespace ap

// out[M, d], input[M, 2d]; strides are the distances of rows in elements.
// limit > 0 (SiLU only): the gate is cut at +limit, rounded to the element type; the other half at +-limit. Else no cut.
AP_KERNEL(AP_BLOCK)
void act_and_mul(ap::elem* __restrict__ out, const ap::elem* __restrict__ input, ap::i32 d, ap::i64 out_stride,
                 ap::i64 in_stride, float limit) {
  using namespace ap;
  u32 width = static_cast<u32>(d);
  u32 tiles = (width + kTile - 1) / kTile;
  u32 row = block_x() / tiles;
  u32 first = (block_x() - row * tiles) * kTile;
  const elem* gate = input + row * in_stride;
  elem* to = out + row * out_stride;
#if defined(AP_ACT_SILU)
  if (limit > 0.0f) {
    // min(x, limit) rounded to elem equals min(x, rounded limit), because x is an elem already.
    float gate_hi = static_cast<float>(to_elem<elem>(limit));
    row_tile<true>(to, gate, gate + width, first, width, gate_hi, limit);
    return;
  }
#endif
  row_tile<false>(to, gate, gate + width, first, width, 0.0f, 0.0f);
}
