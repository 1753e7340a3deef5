// Scatter of new keys and values into the paged KV cache (vLLM's layouts), by slot = block * block_size + offset.
//
// key, value [tokens, h, d] with a stride per token; key_cache [blocks, h, d / x, block_size, x], x = 16 / itemsize;
// value_cache [blocks, h, d, block_size], or with ASM_LAYOUT [blocks, h, block_size / x, d, x]. Negative slots are skipped.
//
// Build:  T = bf16 | f16                    element type of key and value
//         C = T | e4m3fnuz | e4m3fn         cache type: T (bits are moved) or the target's fp8 (x / scale, saturating)
//         S = i64 | i32                     type of slot_mapping
//         ASM_LAYOUT = 0 | 1
//         TILED = 0                         one block takes 256 columns of one token; any alignment if ALIGNED = 0
//         TILED = 1                         one block takes 64 columns of 64 tokens, so that runs of x neighbouring slots
//                                           become whole 16-byte writes; implies ALIGNED = 1
//         ALIGNED = 1                       all four tensors 16-byte aligned, token strides multiples of 8
// Launch: grid x = tokens * cdiv(h * d, 256), or TILED: cdiv(tokens, 64) * cdiv(h * d, 64); block x = 256; static LDS only.
// Limits: blocks * block_size < 2^32 (slots), h * d * block_size < 2^31 (offsets inside one cache block).
#include "common.hpp"

namespace ap {

using elem = T;
using slot_t = S;
inline constexpr bool kFp8 = !same<C, T>;
static_assert(!kFp8 || same<C, fp8>, "the cache holds the target's own fp8");

template <bool BYTES>
struct cell_of {
  using type = u16;
};
template <>
struct cell_of<true> {
  using type = u8;
};
using cell = cell_of<kFp8>::type;  // one cache element, as bits

inline constexpr u32 kThreads = 256;
inline constexpr u32 kX = 16 / sizeof(cell);  // cache elements in 16 bytes
using raw8 = vec<u16, 8>;                     // eight elements of key or value, as bits
using line = vec<u32, 4>;                     // 16 bytes of cache

struct sizes {
  u32 d, columns, block_size;  // columns = h * d
};

// A scale is null when absent. AITER multiplies by the fp32 reciprocal; so does this, to give the same bytes.
AP_INLINE float scale_at(const float* scale) {
  if constexpr (!kFp8) return 1.0f;
  return scale ? *scale : 1.0f;
}

// Four floats to fp8. The conversion of sm_90 saturates by itself, and keeps NaN.
AP_INLINE u32 codes4(float a, float b, float c, float d) {
#if defined(__NVPTX__)
  u32 low = __builtin_amdgcn_cvt_pk_fp8_f32(a, b, 0, false);
  return __builtin_amdgcn_cvt_pk_fp8_f32(c, d, low, true);
#else
  return pack4<fp8>(a, b, c, d);
#endif
}

AP_INLINE float as_float(u16 bits) { return static_cast<float>(__builtin_bit_cast(elem, bits)); }

AP_INLINE cell to_cell(u16 bits, float inverse) {
  if constexpr (kFp8) return pack1<fp8>(as_float(bits) * inverse);
  else return bits;
}

// Eight elements (16 bytes) to eight cells: 16 bytes, or 8 bytes of fp8 in the first two words.
AP_INLINE line to_cells(line in, float inverse) {
  if constexpr (kFp8) {
    raw8 bits = __builtin_bit_cast(raw8, in);
    float f[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) f[i] = as_float(bits[i]) * inverse;
    return {codes4(f[0], f[1], f[2], f[3]), codes4(f[4], f[5], f[6], f[7]), 0, 0};
  } else {
    return in;
  }
}

// kX neighbouring elements of key, in one or two 16-byte loads, to one 16-byte unit of key_cache.
AP_INLINE line to_unit(const line* in, float inverse) {
  line a = to_cells(in[0], inverse);
  if constexpr (kFp8) {
    line b = to_cells(in[1], inverse);
    a.z = b.x, a.w = b.y;
  }
  return a;
}

// Where in a cache block an element of flattened column c = head * d + j lies, at `offset` slots into the block.
// d is a multiple of x, so the key's head and d / x indices are one: c / x.
AP_INLINE u32 key_place(u32 c, u32 offset, sizes n) { return (c / kX * n.block_size + offset) * kX + c % kX; }

#if ASM_LAYOUT
AP_INLINE u32 value_place(u32 c, u32 offset, sizes n) {
  u32 head = c / n.d;
  return head * n.d * (n.block_size - kX) + c * kX + offset / kX * n.d * kX + offset % kX;
}
#else
AP_INLINE u32 value_place(u32 c, u32 offset, sizes n) { return c * n.block_size + offset; }
#endif

struct place {
  i64 base;    // first cache element of the slot's block
  u32 offset;  // slot within the block
};

AP_INLINE place split_slot(u32 slot, sizes n) {
  u32 block = slot / n.block_size;
  u32 first = block * n.block_size;
  return {static_cast<i64>(static_cast<u64>(first) * n.columns), slot - first};
}

#if TILED
#include "kv_cache_tile.hpp"
#else
// One wave-uniform token; a lane takes one unit of the key and one column of the value. Lanes that follow each other write
// the value at the smallest stride the layout has (x cells, or block_size cells).
AP_INLINE void scatter(const u16* key, const u16* value, cell* key_cache, cell* value_cache, const slot_t* slots,
                       float k_inverse, float v_inverse, i64 k_stride, i64 v_stride, sizes n) {
  u32 slabs = (n.columns + kThreads - 1) / kThreads;
  u32 token = block_x() / slabs;
  u32 first = (block_x() - token * slabs) * kThreads;
  i64 slot = slots[token];
  if (slot < 0) return;
  place p = split_slot(static_cast<u32>(slot), n);
  const u16* k = key + token * k_stride;
  u32 c = first + thread_x();
#if ALIGNED
  u32 kc = first + thread_x() * kX;
  if (thread_x() < kThreads / kX && kc < n.columns) {
    *reinterpret_cast<line*>(key_cache + p.base + key_place(kc, p.offset, n)) =
        to_unit(reinterpret_cast<const line*>(k + kc), k_inverse);
  }
#else
  if (c < n.columns) key_cache[p.base + key_place(c, p.offset, n)] = to_cell(k[c], k_inverse);
#endif
  if (c < n.columns) {
    value_cache[p.base + value_place(c, p.offset, n)] = to_cell((value + token * v_stride)[c], v_inverse);
  }
}
#endif

}  // namespace ap

// k_scale, v_scale: f32[1] or null; read for fp8 caches only.
AP_KERNEL(256)
void reshape_and_cache(const ap::u16* __restrict__ key, const ap::u16* __restrict__ value, ap::cell* __restrict__ key_cache,
                       ap::cell* __restrict__ value_cache, const ap::slot_t* __restrict__ slots,
                       const float* __restrict__ k_scale, const float* __restrict__ v_scale, ap::i32 tokens, ap::i32 h,
                       ap::i32 d, ap::i32 block_size, ap::i64 k_stride, ap::i64 v_stride) {
  using namespace ap;
  sizes n = {static_cast<u32>(d), static_cast<u32>(h * d), static_cast<u32>(block_size)};
#if TILED
  scatter_tile(key, value, key_cache, value_cache, slots, scale_at(k_scale), scale_at(v_scale),
               static_cast<u32>(tokens), k_stride, v_stride, n);
#else
  static_cast<void>(tokens);
  scatter(key, value, key_cache, value_cache, slots, 1.0f / scale_at(k_scale), 1.0f / scale_at(v_scale), k_stride, v_stride, n);
#endif
}
