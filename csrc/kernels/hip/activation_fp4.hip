// A gated activation and MXFP4: v = act(input[m, j]) * input[m, d + j] in fp32, a power of two for each group of columns, and codes
// of 4 bits, v / scale rounded to nearest even and cut at 6; the first of two codes is the lower half of their byte.
//
// A lane has eight neighbouring columns, a group GROUP / 8 lanes beside each other, which a few DPP steps ask for their largest.
//
// Build:  T = bf16 | f16               element type of input
//         ACT = silu | gelu | gelu_tanh  see `activate`
//         GROUP = 32 | 64 | 128        columns of a group; the last one may have fewer
//         UP = 0 | 1                   the scale: see `scale_of`
//         ALIGNED = 1 | 0              1: d a multiple of 8, rows of input begin at 16 bytes, those of out at 4
//         BLOCK = 64 | 256             threads of a block; a block covers BLOCK * 8 columns of one row
// Launch: grid x = rows * cdiv(span, BLOCK * 8), block x = BLOCK, no LDS.
#include "activation.hpp"

namespace ap {

using elem = T;
using pack = vec<elem, kVec>;
inline constexpr u32 kTile = BLOCK * kVec, kInfinity = 0x7F800000, kNaN = 255, kOne = 127;

AP_INLINE u32 bits(float x) { return __builtin_bit_cast(u32, x); }
AP_INLINE u32 larger(u32 a, u32 b) { return a > b ? a : b; }

template <int CTRL>
AP_INLINE u32 largest(u32 x) {
  return larger(x, static_cast<u32>(__builtin_amdgcn_update_dpp(0, static_cast<int>(x), CTRL, 0xf, 0xf, false)));
}

// Largest of the lanes of a group, in each of them.
AP_INLINE u32 group_max(u32 x) {
  x = largest<0xb1>(x);                             // quad_perm: lanes 1, 0, 3, 2
  x = largest<0x4e>(x);                             // quad_perm: lanes 2, 3, 0, 1
  if constexpr (GROUP > 32) x = largest<0x141>(x);  // row_half_mirror
  if constexpr (GROUP > 64) x = largest<0x140>(x);  // row_mirror
  return x;
}

// The scale of a group as e8m0 (b is 2^(b - 127)), from the bits of its largest size: the smallest power of two of which it is at
// most 6 (UP; 1e-10 counts for less), or a quarter of it, rounded to a power of two, from 1.75 of one on to the next.
AP_INLINE u32 scale_of(u32 top) {
  if constexpr (UP) {
    float sixth = __builtin_bit_cast(float, larger(top, bits(1e-10f))) * (1.0f / 6.0f);
    return (bits(sixth) + 0x7FFFFF) >> 23;
  } else {
    u32 power = (top + 0x200000) >> 23;
    return power == 255 ? 254 : larger(power, 2) - 2;
  }
}

// 1 / 2^(b - 127); 2^-127 has a bit of its own.
AP_INLINE float inverse_of(u32 b) { return __builtin_bit_cast(float, b == 254 ? 0x400000 : (254 - b) << 23); }

// Eight numbers, already scaled, to eight codes.
AP_INLINE u32 pack8(const float (&q)[kVec]) {
  u32 w = 0;
#if defined(__gfx950__)
  w = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(w, q[0], q[1], 1.0f, 0);
  w = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(w, q[2], q[3], 1.0f, 1);
  w = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(w, q[4], q[5], 1.0f, 2);
  w = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(w, q[6], q[7], 1.0f, 3);
#else
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) {
    // One is the smallest normal number of fp4, and 2^-126 that of fp32, whose bits are those of fp4 then, and more behind them.
    u32 x = bits(q[i] * 0x1p-126f), size = x & 0x7FFFFFFF;
    u32 code = (size + 0x1FFFFF + (size >> 22 & 1)) >> 22;
    w |= ((code < 7 ? code : 7) | (x >> 28 & 8)) << (4 * i);
  }
#endif
  return w;
}

// Eight columns of a row that has `left` more; what is past its end is read as the last one.
AP_INLINE void load(elem (&e)[kVec], const elem* __restrict__ in, u32 column, u32 width) {
#if ALIGNED
  *reinterpret_cast<pack*>(e) = *reinterpret_cast<const pack*>(in + (column < width ? column : width - kVec));
#else
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) e[i] = in[column + i < width ? column + i : width - 1];
#endif
}

AP_INLINE void store(u8* __restrict__ out, u32 codes, u32 column, u32 width) {
#if ALIGNED
  *reinterpret_cast<u32*>(out + column / 2) = codes;
#else
#pragma unroll
  for (u32 i = 0; i < kVec; i += 2)
    if (column + i < width) out[(column + i) / 2] = static_cast<u8>(codes >> (4 * i));
#endif
}

// Of 32 rows and 8 groups scale (r, g) stands at [g % 4][r % 16][g / 4][r / 16]; so AITER's products read them.
AP_INLINE i64 place(u32 row, u32 group, u32 width, bool shuffled) {
  if (!shuffled) return static_cast<i64>(row) * width + group;
  u32 inner = group % 4 * 64 + row % 16 * 4 + group % 8 / 4 * 2 + row % 32 / 16;
  return static_cast<i64>(row / 32) * (32 * width) + group / 8 * 256 + inner;
}

}  // namespace ap

// out[rows, d / 2], input[rows, 2d]; strides are the distances of rows, in bytes and in elements. The groups of `span` columns of
// each row of the grid get a scale, and those that there are not get 1: scale_width of them are a row of scales. limit > 0: the
// gate is cut at +limit, rounded to the element type, the other half at +-limit.
AP_KERNEL(BLOCK)
void act_and_mul_fp4(ap::u8* __restrict__ out, const ap::elem* __restrict__ input, ap::u8* __restrict__ scales,
                     ap::i32 d, ap::i32 rows, ap::i32 span, ap::i32 scale_width, ap::i32 shuffled, ap::i64 out_stride,
                     ap::i64 in_stride, float limit) {
  using namespace ap;
  u32 width = static_cast<u32>(d), reach = static_cast<u32>(span);
  u32 tiles = (reach + kTile - 1) / kTile;
  u32 row = block_x() / tiles;
  u32 column = (block_x() - row * tiles) * kTile + thread_x() * kVec, group = column / GROUP;
  // Whole groups leave.
  if (group * GROUP >= reach) return;
  bool there = row < static_cast<u32>(rows);
  float v[kVec] = {};
  u32 top = 0;
  if (there) {
    alignas(16) elem g[kVec], u[kVec];
    const elem* gate = input + row * in_stride;
    load(g, gate, column, width);
    load(u, gate + width, column, width);
    float bound = static_cast<float>(to_elem<elem>(limit));
#pragma unroll
    for (u32 i = 0; i < kVec; ++i) {
      float x = static_cast<float>(g[i]), y = static_cast<float>(u[i]);
      if (limit > 0.0f) {
        x = min_keep_nan(x, bound);
        y = clamp_keep_nan(y, -limit, limit);
      }
      float a = activate(x);
      // Its own sum of -1 and 1 is +0.
      if constexpr (kAct == act::gelu) a = __builtin_copysignf(a, x);
      v[i] = column + i < width ? a * y : 0.0f;
      top = larger(top, bits(v[i]) & 0x7FFFFFFF);
    }
  }
  top = group_max(top);
  bool lost = top >= kInfinity;
  u32 scale = scale_of(lost ? 0 : top);
  if (column % GROUP == 0) {
    bool exists = there && column < width;
    scales[place(row, group, static_cast<u32>(scale_width), shuffled != 0)] = static_cast<u8>(!exists ? kOne
                                                                                              : lost  ? kNaN
                                                                                                      : scale);
  }
  if (!there || column >= width) return;
  float inverse = inverse_of(scale);
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) v[i] *= inverse;
  store(out + row * out_stride, lost ? 0 : pack8(v), column, width);
}
