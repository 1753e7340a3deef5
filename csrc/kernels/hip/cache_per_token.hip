// Write of new keys and values into the paged cache as fp8 or int8, with a scale for each head of a token.
//
//   scale = amax(|head|) / qmax                  NaN is left out of amax
//   code  = head * (1 / max(scale, floor))       fp8: to nearest even, saturating; int8: cut off towards 0
//
// key, value [tokens, h, d] with a stride per token; key_cache [blocks, h, d / 16, block_size, 16]; value_cache
// [blocks, h, d, block_size], or with ASM_LAYOUT [blocks, h, block_size / 16, d, 16]. Negative slots are skipped.
//
// Build:  T = bf16 | f16     element type of key and value
//         C = fp8 | i8       cache type: the target's e4m3 (qmax 240 on gfx942, 448 on gfx950), or int8 (qmax 127)
//         ASM_LAYOUT = 0 | 1 layout of values and scales
//         LANES = 16 | 64    lanes of a head: d is at most 8 * LANES
// Launch: grid x = cdiv(2 * tokens * h, 256 / LANES); block x = 256.
// Limits: d a multiple of 16; h * d * block_size < 2^31; 2 * tokens * h < 2^32.
#include "rope_head.hpp"

namespace ap {

using quant = C;
using pack = vec<elem, kVec>;
inline constexpr u32 kX = 16;  // codes in 16 bytes

AP_INLINE u32 cut(float x) {
  return static_cast<u32>(static_cast<i32>(__builtin_amdgcn_fmed3f(x, -128.0f, 127.0f))) & 0xffu;
}

// Four numbers to four codes, low byte first.
AP_INLINE u32 codes4(float a, float b, float c, float d) {
  if constexpr (same<quant, fp8>)
    return pack4<fp8>(a, b, c, d);
  else
    return cut(a) | cut(b) << 8 | cut(c) << 16 | cut(d) << 24;
}

}  // namespace ap

// Scales: f32 [h, blocks * block_size], or with ASM_LAYOUT [blocks, h, block_size]. With `fast` rows begin at multiples of 16 bytes,
// and the key's cache at one of 8.
AP_KERNEL(256)
void cache_per_token(const ap::elem* __restrict__ key, const ap::elem* __restrict__ value,
                     ap::u8* __restrict__ key_cache, ap::u8* __restrict__ value_cache, float* __restrict__ k_scales,
                     float* __restrict__ v_scales, const ap::i64* __restrict__ slots, ap::i32 tokens, ap::i32 heads,
                     ap::i32 d, ap::i32 block_size, ap::i32 fast, float floor, ap::i64 blocks, ap::i64 k_row,
                     ap::i64 v_row) {
  using namespace ap;
  u32 h = static_cast<u32>(heads), n = static_cast<u32>(d), page = static_cast<u32>(block_size);
  u32 place = block_x() * (256 / kLanes) + thread_x() / kLanes;
  u32 line = place / h, head = place - line * h, token = line / 2;
  if (token >= static_cast<u32>(tokens)) return;
  i64 slot = slots[token];
  if (slot < 0) return;
  i64 block = slot / page;
  u32 offset = static_cast<u32>(slot - block * page), c = thread_x() % kLanes * kVec;
  bool keys = line % 2 == 0;
  const elem* in = (keys ? key + token * k_row : value + token * v_row) + head * n;
  float f[kVec] = {};
  if (c < n) {
    pack p;
    if (fast) {
      p = *reinterpret_cast<const pack*>(in + c);
    } else {
#pragma unroll
      for (u32 j = 0; j < kVec; ++j)
        p[j] = in[c + j < n ? c + j : n - 1];  // stays eight reads: no wider one is aligned
    }
#pragma unroll
    for (u32 j = 0; j < kVec; ++j) f[j] = static_cast<float>(p[j]);
  }
  float amax = 0.0f;
#pragma unroll
  for (u32 j = 0; j < kVec; ++j) amax = max_num(amax, abs_f(f[j]));
  amax = over_head(amax, [](float a, float b) { return max_num(a, b); });
  float scale = amax / quant_traits<quant>::max, inverse = 1.0f / max_num(scale, floor);
  if (c == 0) {
#if ASM_LAYOUT
    i64 at = (block * h + head) * page + offset;
#else
    i64 at = (head * blocks + block) * page + offset;
#endif
    (keys ? k_scales : v_scales)[at] = scale;
  }
  if (c >= n) return;
  vec<u32, 2> codes = {codes4(f[0] * inverse, f[1] * inverse, f[2] * inverse, f[3] * inverse),
                       codes4(f[4] * inverse, f[5] * inverse, f[6] * inverse, f[7] * inverse)};
  u8* out = (keys ? key_cache : value_cache) + (block * h + head) * n * page;
  if (keys) {
    out += (c / kX * page + offset) * kX + c % kX;
    if (fast) {
      *reinterpret_cast<vec<u32, 2>*>(out) = codes;
      return;
    }
  }
#if ASM_LAYOUT
  u32 step = keys ? 1 : kX;
  if (!keys) out += offset / kX * n * kX + c * kX + offset % kX;
#else
  u32 step = keys ? 1 : page;
  if (!keys) out += c * page + offset;
#endif
#pragma unroll
  for (u32 j = 0; j < kVec; ++j) out[j * step] = static_cast<u8>(codes[j / 4] >> (8 * (j % 4)));
}
