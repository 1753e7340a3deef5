// Gated activations behind a bias of the row's expert: v = input[m] + bias[expert_ids[m]], out[m, j] = act(v[j]) * v[d + j],
// computed in fp32, rounded once. Rows of an expert that there is not, -1 among them, are zeros.
//
// Build:  X = bf16 | f16 | f32            element type of input
//         T = bf16 | f16 | f32            of out
//         ACT = silu | gelu | swiglu      see `activate`; swiglu cuts gate at 7 and up at +-7, and adds 1 to up
//         ALIGNED = 1 | 0                 1: d and both strides multiples of 8, all pointers of 16 bytes
//         BLOCK = 64 | 256                threads of a block; a block covers BLOCK * 8 columns of one row
// Launch: grid x = M * cdiv(d, BLOCK * 8), block x = BLOCK, no LDS.
#include "activation.hpp"

namespace ap {

using f32 = float;
using from = X;
using elem = T;
inline constexpr u32 kTile = BLOCK * kVec;

// The lane's i-th column: eight neighbours, or columns BLOCK apart, so that narrow accesses of a wave still fill a line.
AP_INLINE u32 column(u32 i) { return ALIGNED ? thread_x() * kVec + i : thread_x() + i * BLOCK; }

// Its eight columns of the `left` that there are; no load past the end.
template <typename E>
AP_INLINE void load(float (&f)[kVec], const E* __restrict__ in, u32 left) {
#if ALIGNED
  constexpr u32 each = 16 / sizeof(E);
  E e[kVec];
#pragma unroll
  for (u32 i = 0; i < kVec; i += each) {
    auto p = *reinterpret_cast<const vec<E, each>*>(in + column(i));
#pragma unroll
    for (u32 k = 0; k < each; ++k) e[i + k] = p[k];
  }
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) f[i] = static_cast<float>(e[i]);
#else
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) f[i] = static_cast<float>(in[column(i) < left ? column(i) : left - 1]);
#endif
}

AP_INLINE void store(elem* __restrict__ out, const float (&f)[kVec], u32 left) {
#if ALIGNED
  constexpr u32 each = 16 / sizeof(elem);
#pragma unroll
  for (u32 i = 0; i < kVec; i += each) {
    vec<elem, each> p;
#pragma unroll
    for (u32 k = 0; k < each; ++k) p[k] = to_elem<elem>(f[i + k]);
    *reinterpret_cast<vec<elem, each>*>(out + column(i)) = p;
  }
#else
#pragma unroll
  for (u32 i = 0; i < kVec; ++i)
    if (column(i) < left) out[column(i)] = to_elem<elem>(f[i]);
#endif
}

AP_INLINE float gated(float gate, float up) {
  if constexpr (kAct == act::swiglu) {
    gate = min_keep_nan(gate, 7.0f);
    up = clamp_keep_nan(up, -7.0f, 7.0f) + 1.0f;
  }
  return activate(gate) * up;
}

}  // namespace ap

// out[M, d], input[M, 2d], expert_ids[M], bias[experts, 2d]; strides are the distances of rows in elements.
AP_KERNEL(BLOCK)
void act_and_mul_bias(ap::elem* __restrict__ out, const ap::from* __restrict__ input,
                      const ap::i32* __restrict__ expert_ids, const float* __restrict__ bias, ap::i32 d,
                      ap::i32 experts, ap::i64 out_stride, ap::i64 in_stride) {
  using namespace ap;
  u32 width = static_cast<u32>(d);
  u32 tiles = (width + kTile - 1) / kTile;
  u32 row = block_x() / tiles;
  u32 first = (block_x() - row * tiles) * kTile;
  u32 left = width - first;
#if ALIGNED
  if (column(0) >= left) return;
#endif
  i32 expert = expert_ids[row];
  float r[kVec] = {};
  if (expert >= 0 && expert < experts) {
    const from* gate = input + row * in_stride + first;
    const float* add = bias + static_cast<i64>(expert) * 2 * width + first;
    float g[kVec], u[kVec], more_g[kVec], more_u[kVec];
    load(g, gate, left);
    load(u, gate + width, left);
    load(more_g, add, left);
    load(more_u, add + width, left);
#pragma unroll
    for (u32 i = 0; i < kVec; ++i) r[i] = gated(g[i] + more_g[i], u[i] + more_u[i]);
  }
  store(out + row * out_stride + first, r, left);
}
