// MXFP4 and MXFP8 numbers as bf16 or fp16: x * 2^(scale - 127) for each 32 of a row, computed in fp32, rounded once.
//
// A scale of 0 is 0, one of 255 NaN. Of fp4 a byte has two codes, the lower half first.
//
// Build:  T = bf16, f16          of what is written
//         Q = u8                 two fp4 in a byte
//             e4m3fn, e5m2       OCP's, on both targets
//         WIDE = 1               a thread has eight that lie together: rows are of whole eights, codes at 4 bytes (fp8: 8), the others at 16
//                0               eight that lie BLOCK apart
//         BLOCK = 256            threads of a block
// Launch: grid x = cdiv(rows * columns, BLOCK * 8), block x = BLOCK, no LDS.
#include "common.hpp"

namespace ap {

struct e5m2 {};
using elem = T;
inline constexpr u32 kEach = 8;
inline constexpr bool kFp4 = same<Q, u8>;

AP_INLINE float of_bits(u32 x) { return __builtin_bit_cast(float, x); }

// The number with a code, of which fp4 has four bits. Each is a number of fp32.
AP_INLINE float number(u32 x) {
  if constexpr (kFp4) {
    u32 size = x & 7, bits = size < 2 ? (size ? 0x3f000000u : 0u) : ((size >> 1) + 126) << 23 | (size & 1) << 22;
    return of_bits(bits | (x & 8) << 28);
  } else if constexpr (same<Q, e5m2>) {  // the upper half of an fp16
    return static_cast<float>(__builtin_bit_cast(f16, static_cast<u16>(x << 8)));
  } else {  // an exponent of 0 is one of fp32, too: multiplied it is a normal number
    u32 size = x & 0x7f, sign = (x & 0x80) << 24;
    return size == 0x7f ? of_bits(0x7fc00000u) : of_bits(sign | size << 20) * 0x1p120f;
  }
}

AP_INLINE float power(u8 scale) { return of_bits(scale == 255 ? 0x7fc00000u : static_cast<u32>(scale) << 23); }

}  // namespace ap

// out[rows, columns]; codes; scales[rows, cdiv(columns, 32)]. `total`: rows * columns.
AP_KERNEL(BLOCK)
void upcast_from_mxfp(ap::elem* out, const ap::u8* codes, const ap::u8* scales, ap::i32 total, ap::i32 columns) {
  using namespace ap;
  u32 end = static_cast<u32>(total), width = static_cast<u32>(columns), groups = (width + 31) / 32;
#if WIDE
  u32 at = (block_x() * BLOCK + thread_x()) * kEach;
  if (at >= end) return;
  float s = power(scales[at / width * groups + at % width / 32]);
  vec<elem, kEach> found;
  if constexpr (kFp4) {
    u32 word = *reinterpret_cast<const u32*>(codes + at / 2);
#pragma unroll
    for (u32 i = 0; i < kEach; ++i) found[i] = to_elem<elem>(number(word >> (4 * i) & 15) * s);
  } else {
    vec<u32, 2> words = *reinterpret_cast<const vec<u32, 2>*>(codes + at);
#pragma unroll
    for (u32 i = 0; i < kEach; ++i) found[i] = to_elem<elem>(number(words[i / 4] >> (8 * (i % 4)) & 255) * s);
  }
  *reinterpret_cast<vec<elem, kEach>*>(out + at) = found;
#else
  for (u32 i = 0; i < kEach; ++i) {
    u32 at = block_x() * BLOCK * kEach + i * BLOCK + thread_x();
    if (at >= end) return;
    u32 x = kFp4 ? codes[at / 2] >> (at % 2 * 4) & 15u : codes[at];
    out[at] = to_elem<elem>(number(x) * power(scales[at / width * groups + at % width / 32]));
  }
#endif
}
