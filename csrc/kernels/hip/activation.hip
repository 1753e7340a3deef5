// Gated activations: out[m, j] = act(input[m, j]) * input[m, d + j], computed in fp32, rounded once.
//
// Build:  T = bf16 | f16 | f32                   element type of out
//         X = bf16 | f16 | f32                   of input
//         ACT = silu | gelu | gelu_tanh | swiglu see `activate`
//         LIMIT = 0 | 1                          1: the kernel has a last argument `limit` (silu)
//         ALIGNED = 1 | 0                        1: d and both strides multiples of 8, both pointers of 16 bytes
//         BLOCK = 64 | 256                       threads of a block; a block covers BLOCK * 8 columns of one row
// Launch: grid x = M * cdiv(d, BLOCK * 8), block x = BLOCK, no LDS.
#include "activation.hpp"

namespace ap {

using f32 = float;
using elem = T;
using from = X;
inline constexpr u32 kTile = BLOCK * kVec;

// Where gate and up are cut: gate at +gate, up at +-up. Nothing is cut unless gate > 0 (a scalar branch).
struct bounds {
  float gate, up;
};

AP_INLINE void gated(elem* out, const from* gate, const from* up, bounds b) {
  float g[kVec], u[kVec];
#pragma unroll
  for (int i = 0; i < kVec; ++i) g[i] = static_cast<float>(gate[i]), u[i] = static_cast<float>(up[i]);
  if (b.gate > 0.0f) {
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      g[i] = min_keep_nan(g[i], b.gate);
      u[i] = clamp_keep_nan(u[i], -b.up, b.up);
    }
  }
  constexpr float up_bias = kAct == act::swiglu ? 1.0f : 0.0f;
#pragma unroll
  for (int i = 0; i < kVec; ++i) out[i] = to_elem<elem>(activate(g[i]) * (up_bias == 0.0f ? u[i] : u[i] + up_bias));
}

// Neighbouring elements, 16 bytes at a time.
template <typename E>
AP_INLINE void copy(E* __restrict__ to, const E* __restrict__ from) {
  constexpr int each = 16 / sizeof(E);
#pragma unroll
  for (int i = 0; i < kVec; i += each)
    *reinterpret_cast<vec<E, each>*>(to + i) = *reinterpret_cast<const vec<E, each>*>(from + i);
}

// One tile of one row: pointers at its first column, `d` columns from there to the row's end.
AP_INLINE void row_tile(elem* __restrict__ out, const from* __restrict__ gate, const from* __restrict__ up, u32 d,
                        bounds b) {
  alignas(16) from g[kVec] = {}, u[kVec] = {};
  alignas(16) elem r[kVec];
#if ALIGNED
  u32 j = thread_x() * kVec;
  if (j >= d) return;
  copy(g, gate + j);
  copy(u, up + j);
  gated(r, g, u, b);
  copy(out + j, r);
#else
  // Lanes take neighbouring elements, so that 2-byte accesses of a wave still fill a 128-byte line.
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) {
    u32 c = thread_x() + i * BLOCK;
    if (c < d) g[i] = gate[c], u[i] = up[c];
  }
  gated(r, g, u, b);
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) {
    u32 c = thread_x() + i * BLOCK;
    if (c < d) out[c] = r[i];
  }
#endif
}

}  // namespace ap

// out[M, d], input[M, 2d]; strides are the distances of rows in elements.
// limit > 0: the gate is cut at +limit, rounded to the type of input, the other half at +-limit; else nothing is cut.
// swiglu always cuts at 7 and adds 1 to the other half.
AP_KERNEL(BLOCK)
void act_and_mul(ap::elem* __restrict__ out, const ap::from* __restrict__ input, ap::i32 d, ap::i64 out_stride,
                 ap::i64 in_stride
#if LIMIT
                 , float limit
#endif
) {
  using namespace ap;
  u32 width = static_cast<u32>(d);
  u32 tiles = (width + kTile - 1) / kTile;
  u32 row = block_x() / tiles;
  u32 first = (block_x() - row * tiles) * kTile;
  const from* gate = input + row * in_stride + first;
  elem* to = out + row * out_stride + first;
#if LIMIT
  // min(x, limit) rounded to the type of input equals min(x, rounded limit), because x is of that type already.
  bounds b = {static_cast<float>(to_elem<from>(limit)), limit};
#else
  bounds b = {kAct == act::swiglu ? 7.0f : 0.0f, 7.0f};
#endif
  row_tile(to, gate, gate + width, width - first, b);
}
