// MXFP4 numbers as bf16 or fp16: x * 2^(scale - 127) for each 32 of a row, computed in fp32, rounded once.
//
// A scale of 0 is 0, one of 255 infinity. A byte has two codes, the lower half first.
//
// Build:  T = bf16, f16          of what is written
//         WIDE = 1               a thread has eight that lie together: rows are of whole eights, codes at 4 bytes, the others at 16
//                0               eight that lie BLOCK apart
//         BLOCK = 256            threads of a block
// Launch: grid x = cdiv(rows * columns, BLOCK * 8), block x = BLOCK, no LDS.
#include "common.hpp"

namespace ap {

using elem = T;
inline constexpr u32 kEach = 8;

// The number with a code of four bits.
AP_INLINE float number(u32 x) {
  u32 size = x & 7, bits = size < 2 ? (size ? 0x3f000000u : 0u) : ((size >> 1) + 126) << 23 | (size & 1) << 22;
  return __builtin_bit_cast(float, bits | (x & 8) << 28);
}

AP_INLINE float power(u8 scale) { return __builtin_bit_cast(float, static_cast<u32>(scale) << 23); }

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
  u32 word = *reinterpret_cast<const u32*>(codes + at / 2);
#pragma unroll
  for (u32 i = 0; i < kEach; ++i) found[i] = to_elem<elem>(number(word >> (4 * i) & 15) * s);
  *reinterpret_cast<vec<elem, kEach>*>(out + at) = found;
#else
  for (u32 i = 0; i < kEach; ++i) {
    u32 at = block_x() * BLOCK * kEach + i * BLOCK + thread_x();
    if (at >= end) return;
    u32 x = codes[at / 2] >> (at % 2 * 4) & 15u;
    out[at] = to_elem<elem>(number(x) * power(scales[at / width * groups + at % width / 32]));
  }
#endif
}
