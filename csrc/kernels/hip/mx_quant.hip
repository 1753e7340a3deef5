// Rows of 16-bit floats as codes with a scale for each group of 32, 64 or 128 columns: fp8 with a float or a power of two, int8 with a
// float, fp4 with a power of two. Codes are rounded to nearest even and cut at the largest one.
//
// A lane has eight neighbouring columns, a group GROUP / 8 lanes beside each other, which a few DPP steps ask for their largest.
//
// Build:  T = bf16 | f16           element type of input
//         Q = fp8 | i8 | u8        of out: the target's e4m3, int8, bytes of two fp4, the first in the lower half
//         S = f32 | u8             of scales: floats, or e8m0 (b is 2^(b - 127), 255 is NaN); fp4 has e8m0, int8 floats
//         ALIGNED = 1 | 0          1: rows of input begin at 16 bytes, out at 8 (fp4: 4)
//         BLOCK = 256              threads of a block, which has BLOCK * 8 elements of the tensor, one row behind the other
// Launch: grid x = cdiv(rows * columns, BLOCK * 8), block x = BLOCK, no LDS. Columns are a multiple of the group.
//
// Powers of two, by `mode`: 0 a quarter of the largest size (fp4), its power rounded down; 1 the smallest of which the largest size is at
// most the largest code; 2 a quarter, rounded to a power from 1.75 of one on to the next; 3 a quarter, rounded up; 4 as 2, but from
// 1.5 on; 5 as 2, and codes are rounded away from zero halfway; 6 as 1. For 4, 6 and floats 1e-10 counts for less, with the others a
// group of zeros has the byte 0. Where a number is infinite or NaN, the scale is NaN, and so are codes of fp8; those of fp4 are 0. With
// floats NaN counts for nothing, and its code is fp8's NaN, or 0.
#include "common.hpp"

namespace ap {

using elem = T;
using f32 = float;
using pack = vec<elem, kVec>;
inline constexpr bool kFp4 = same<Q, u8>, kFp8 = same<Q, fp8>, kPower = same<S, u8>;
inline constexpr float kMost = kFp8 ? quant_traits<fp8>::max : quant_traits<i8>::max;
inline constexpr u32 kInfinity = 0x7F800000, kNaN = 255;
enum : i32 { kRows, kShuffled, kColumns };

AP_INLINE u32 bits(float x) { return __builtin_bit_cast(u32, x); }
AP_INLINE float number(u32 x) { return __builtin_bit_cast(float, x); }
AP_INLINE u32 larger(u32 a, u32 b) { return a > b ? a : b; }

template <int CTRL>
AP_INLINE u32 largest(u32 x) {
  return larger(x, static_cast<u32>(__builtin_amdgcn_update_dpp(0, static_cast<int>(x), CTRL, 0xf, 0xf, false)));
}

// Largest of the lanes of a group, in each of them.
AP_INLINE u32 group_max(u32 x, i32 group) {
  x = largest<0xb1>(x);                   // quad_perm: lanes 1, 0, 3, 2
  x = largest<0x4e>(x);                   // quad_perm: lanes 2, 3, 0, 1
  if (group > 32) x = largest<0x141>(x);  // row_half_mirror
  if (group > 64) x = largest<0x140>(x);  // row_mirror
  return x;
}

// e8m0 of a group from the bits of its largest size.
AP_INLINE u32 power_of(u32 top, i32 mode) {
  if (mode == 4 || mode == 6) top = larger(top, bits(1e-10f));
  if constexpr (kFp8) {
    return (bits(number(top) * (1.0f / kMost)) + 0x7FFFFF) >> 23;
  } else {
    if (mode == 1 || mode == 6) return (bits(number(top) * (1.0f / 6.0f)) + 0x7FFFFF) >> 23;
    u32 up = mode == 0 ? 0 : mode == 2 || mode == 5 ? 0x200000 : mode == 3 ? 0x7FFFFF : 0x400000;
    u32 power = (top + up) >> 23;
    return power == 255 && (mode == 2 || mode == 5) ? 254 : larger(power, 2) - 2;
  }
}

// 1 / 2^(b - 127); 2^-127 has a bit of its own.
AP_INLINE float inverse_of(u32 b) { return number(b == 254 ? 0x400000 : (254 - b) << 23); }

// Eight numbers, already scaled, to eight codes of fp4.
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

#if !ALIGNED
// One, which the compiler does not know: it would make one access of several that lie together at no whole address.
AP_INLINE u32 one() {
  u32 step = 1;
  asm("" : "+s"(step));
  return step;
}
#endif

AP_INLINE pack load(const elem* __restrict__ in) {
#if ALIGNED
  return *reinterpret_cast<const pack*>(in);
#else
  pack p;
  u32 step = one();
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) p[i] = in[i * step];
  return p;
#endif
}

template <typename W>
AP_INLINE void store(u8* __restrict__ out, W codes) {
#if ALIGNED
  *reinterpret_cast<W*>(out) = codes;
#else
  u64 left;
  if constexpr (sizeof(W) == 8) {
    left = __builtin_bit_cast(u64, codes);
  } else {
    left = __builtin_bit_cast(u32, codes);
  }
  u32 step = one();
#pragma unroll
  for (u32 i = 0; i < sizeof(W); ++i) out[i * step] = static_cast<u8>(left >> (8 * i));
#endif
}

// Of 32 rows and 8 groups scale (r, g) stands at [g % 4][r % 16][g / 4][r / 16]; so AITER's products read them.
AP_INLINE i64 shuffled(u32 row, u32 group, u32 width) {
  u32 inner = group % 4 * 64 + row % 16 * 4 + group % 8 / 4 * 2 + row % 32 / 16;
  return static_cast<i64>(row / 32) * (32 * width) + group / 8 * 256 + inner;
}

}  // namespace ap

// input[rows, columns] with its distance of rows in elements; out, of the same shape, is contiguous; the first *num_rows * factor rows
// are done (num_rows null: all). `layout` of scales: kRows [rows, width], kShuffled the above of rows of `width`, kColumns [groups, rows
// that are done]. tiled: 16 bytes of 16 rows of out lie together, so that shuffle_weight need not. half: row i of the first half of the
// rows and that of the second are neighbours of 16 by 16 there and in kShuffled; 0: each where it is.
AP_KERNEL(BLOCK)
void mx_quant(ap::u8* __restrict__ out, const ap::elem* __restrict__ input, ap::S* __restrict__ scales,
              const ap::i32* __restrict__ num_rows, ap::i32 factor, ap::i32 rows, ap::i32 columns, ap::i64 in_stride,
              ap::i32 group_size, ap::i32 layout, ap::i32 scale_width, ap::i32 mode, ap::i32 tiled, ap::i32 half) {
  using namespace ap;
  u32 width = static_cast<u32>(columns), end = static_cast<u32>(rows) * width;
  u32 at = (block_x() * BLOCK + thread_x()) * kVec;
  // Whole groups leave.
  if (at >= end) return;
  u32 row = at / width, column = at - row * width;
  i64 done = rows;
  if (num_rows) {
    i64 asked = static_cast<i64>(*num_rows) * factor;
    done = asked < done ? asked : done;
  }
  if (static_cast<i64>(row) >= done) return;
  pack p = load(input + row * in_stride + column);
  float v[kVec];
  u32 top = 0;
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) {
    v[i] = static_cast<float>(p[i]);
    u32 size = bits(v[i]) & 0x7FFFFFFF;
    if (!kPower && size > kInfinity) size = 0;
    top = larger(top, size);
  }
  top = group_max(top, group_size);
  u32 power = 0;
  float scale = 1.0f, inverse = 1.0f;
  if constexpr (kPower) {
    bool lost = top >= kInfinity;
    power = power_of(lost ? 0 : top, mode);
    inverse = lost ? (kFp8 ? number(kInfinity | 1u << 22) : 0.0f) : inverse_of(power);
    if (lost) power = kNaN;
#pragma unroll
    for (u32 i = 0; i < kVec; ++i) v[i] = kFp4 && lost ? 0.0f : v[i] * inverse;
    // A number of 16 bits times a power of two has 11 bits at most: 2^-13 of it more takes what is halfway to the larger code, no other.
    u32 more = kFp4 && mode == 5 && !lost ? 0x400 : 0;
#pragma unroll
    for (u32 i = 0; i < kVec; ++i) v[i] = number(bits(v[i]) + more);
  } else {
    scale = max_num(number(top), 1e-10f) * (1.0f / kMost);
    inverse = 1.0f / scale;
#pragma unroll
    for (u32 i = 0; i < kVec; ++i) v[i] *= inverse;
  }
  u32 group = column / static_cast<u32>(group_size);
  u32 placed = row;
  if (half) {
    u32 first = static_cast<u32>(half), second = row >= first ? 1 : 0, rest = row - second * first;
    placed = rest / 16 * 32 + second * 16 + rest % 16;
  }
  if (column == group * static_cast<u32>(group_size)) {
    i64 place = layout == kShuffled ? shuffled(placed, group, static_cast<u32>(scale_width))
                : layout == kColumns ? static_cast<i64>(group) * done + row
                                     : static_cast<i64>(row) * scale_width + group;
    if constexpr (kPower) {
      scales[place] = static_cast<u8>(power);
    } else {
      scales[place] = scale;
    }
  }
  if constexpr (kFp4) {
    u32 half_width = width / 2, byte = column / 2;
    i64 to = tiled ? static_cast<i64>(placed / 16) * 16 * half_width + byte / 16 * 256 + placed % 16 * 16 + byte % 16
                   : static_cast<i64>(row) * half_width + byte;
    store(out + to, pack8(v));
  } else {
    vec<u32, 2> w = {pack4<Q>(v[0], v[1], v[2], v[3]), pack4<Q>(v[4], v[5], v[6], v[7])};
    store(out + static_cast<i64>(row) * width + column, w);
  }
}
