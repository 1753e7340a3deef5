// Gated activations: out[m, j] = act(input[m, j]) * input[m, d + j], computed in fp32, rounded once.
//
// Build:  T = bf16 | f16                         element type of input and out
//         ACT = silu | gelu | gelu_tanh | swiglu see `activate`
//         LIMIT = 0 | 1                          1: the kernel has a last argument `limit` (silu)
//         ALIGNED = 1 | 0                        1: d and both strides multiples of 8, both pointers of 16 bytes
//         BLOCK = 64 | 256                       threads of a block; a block covers BLOCK * 8 columns of one row
// Launch: grid x = M * cdiv(d, BLOCK * 8), block x = BLOCK, no LDS.
#include "activation.hpp"

namespace ap {

using elem = T;
inline constexpr u32 kTile = BLOCK * kVec;

// Where gate and up are cut: gate at +gate, up at +-up. Nothing is cut unless gate > 0 (a scalar branch).
struct bounds {
  float gate, up;
};

AP_INLINE void gated(elem* out, const elem* gate, const elem* up, bounds b) {
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

// One tile of one row: pointers at its first column, `d` columns from there to the row's end.
AP_INLINE void row_tile(elem* __restrict__ out, const elem* __restrict__ gate, const elem* __restrict__ up, u32 d,
                        bounds b) {
  alignas(16) elem g[kVec] = {}, u[kVec] = {}, r[kVec];
#if ALIGNED
  using pack = vec<elem, kVec>;
  u32 j = thread_x() * kVec;
  if (j >= d) return;
  *reinterpret_cast<pack*>(g) = *reinterpret_cast<const pack*>(gate + j);
  *reinterpret_cast<pack*>(u) = *reinterpret_cast<const pack*>(up + j);
  gated(r, g, u, b);
  *reinterpret_cast<pack*>(out + j) = *reinterpret_cast<pack*>(r);
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
// limit > 0: the gate is cut at +limit, rounded to the element type, the other half at +-limit; else nothing is cut.
// swiglu always cuts at 7 and adds 1 to the other half.
AP_KERNEL(BLOCK)
void act_and_mul(ap::elem* __restrict__ out, const ap::elem* __restrict__ input, ap::i32 d, ap::i64 out_stride,
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
  const elem* gate = input + row * in_stride + first;
  elem* to = out + row * out_stride + first;
#if LIMIT
  // min(x, limit) rounded to elem equals min(x, rounded limit), because x is an elem already.
  bounds b = {static_cast<float>(to_elem<elem>(limit)), limit};
#else
  bounds b = {kAct == act::swiglu ? 7.0f : 0.0f, 7.0f};
#endif
  row_tile(to, gate, gate + width, width - first, b);
}
