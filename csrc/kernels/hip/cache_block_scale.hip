// Write of new keys and values into the paged cache as fp8 or int8, with a scale for each head of a block of slots.
//
//   scale = max(amax(|what is new in the block|), least) / qmax      NaN is left out of amax
//   code  = element / scale                                          fp8: to nearest even, saturating; int8: cut off towards 0
//
// Where the new tokens begin behind the first slot of a block, its scale only grows, and codes of the slots before them are
// multiplied by the old scale over the new one. Tokens that have slots of one block lie behind one another, as their slots do: a run.
// The workgroup that finds where a run begins writes all of it; no other one reads or writes its block's head.
//
// Build:  T = bf16 | f16      element type of keys and values
//         C = fp8 | i8        cache type: the target's e4m3 (qmax 240 on gfx942, 448 on gfx950), or int8 (qmax 127)
//         ASM_LAYOUT = 0 | 1  values [pages, h, d, page] and scales [h, blocks], or [pages, h, page / 16, d, 16] and [blocks, h]
//         NORM = 1            queries and keys are normed and turned first, in place (turned_head.hpp): rows of q, k and v begin at
//                             `key`; d = 8 * LANES, or with LANES = 64 any up to 512
//         LANES               lanes of a head that is normed; 64 without NORM
// Launch: grid x = cdiv(tokens, span) * 2 * h, with NORM and cdiv(tokens * heads_q, 256 / LANES) more; block x = 256.
// Limits: d a multiple of 16; span at most 64; h * d * block_size < 2^31. A block is whole pages, of a multiple of 16 slots each where
// it is several or ASM_LAYOUT holds.
#include "turned_head.hpp"

#ifndef NORM
#define NORM 0
#endif

namespace ap {

using quant = C;
using pack = vec<elem, kVec>;
using line = vec<u32, 4>;
inline constexpr u32 kX = 16, kThreads = 256;

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

AP_INLINE u32 scaled4(u32 codes, float ratio) {
  float f[4];
  if constexpr (same<quant, fp8>) {
    f[0] = __builtin_amdgcn_cvt_f32_fp8(static_cast<int>(codes), 0),
    f[1] = __builtin_amdgcn_cvt_f32_fp8(static_cast<int>(codes), 1);
    f[2] = __builtin_amdgcn_cvt_f32_fp8(static_cast<int>(codes), 2),
    f[3] = __builtin_amdgcn_cvt_f32_fp8(static_cast<int>(codes), 3);
  } else {
#pragma unroll
    for (u32 j = 0; j < 4; ++j) f[j] = static_cast<float>(static_cast<i8>(codes >> (8 * j)));
  }
  return codes4(f[0] * ratio, f[1] * ratio, f[2] * ratio, f[3] * ratio);
}

// Place i of a table of rows of `width` places, and its next ones, kThreads further each.
struct walk {
  u32 width, row, column, rows, columns;

  __device__ explicit walk(u32 of) : width(of) {
    row = thread_x() / width, column = thread_x() - row * width;
    rows = kThreads / width, columns = kThreads - rows * width;
  }
  __device__ void next() {
    row += rows, column += columns;
    if (column >= width) column -= width, ++row;
  }
};

// All stores of the block's waves before are seen by its loads behind.
AP_INLINE void block_sync_memory() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// A head of one block of the cache: of keys or of values.
struct head_of_block {
  u8* base;  // the head in the block's first page
  i64 page_stride;
  u32 d, page, block;
  bool keys, wide;  // wide: 16 bytes lie at a multiple of 16

  // Slots and columns that share 16 bytes: of keys 16 columns of a slot, of values 16 slots of a column.
  __device__ u8* at(u32 slot, u32 column) const {
    u32 which = slot / page, within = slot - which * page;
    u8* own = base + which * page_stride;
    if (keys) return own + (column / kX * page + within) * kX + column % kX;
#if ASM_LAYOUT
    return own + (within / kX * d + column) * kX + within % kX;
#else
    return own + column * page + within;
#endif
  }
};

AP_INLINE void rescale(u8* at, u32 count, bool wide, float ratio) {
  if (wide && count == kX) {
    line l = *reinterpret_cast<line*>(at);
    *reinterpret_cast<line*>(at) = {scaled4(l.x, ratio), scaled4(l.y, ratio), scaled4(l.z, ratio), scaled4(l.w, ratio)};
  } else {
    for (u32 j = 0; j < count; ++j) at[j] = static_cast<u8>(scaled4(at[j], ratio));
  }
}

// Codes of the block's first `count` slots.
AP_INLINE void rescale_slots(const head_of_block& to, u32 count, float ratio) {
  if (to.keys) {
    for (walk w(to.d / kX); w.row < count; w.next()) {
      u32 left = to.d - w.column * kX;
      rescale(to.at(w.row, w.column * kX), left < kX ? left : kX, to.wide, ratio);
    }
  } else {
    for (walk w(to.d); w.row * kX < count; w.next()) {
      u32 left = count - w.row * kX;
      rescale(to.at(w.row * kX, w.column), left < kX ? left : kX, to.wide, ratio);
    }
  }
}

// Columns c to c + 7 of a row of d. Without `fast` they stay eight reads: no wider one is aligned.
AP_INLINE pack load8(const elem* row, u32 c, u32 d, bool fast) {
  if (fast) return *reinterpret_cast<const pack*>(row + c);
  pack p;
#pragma unroll
  for (u32 j = 0; j < kVec; ++j) p[j] = row[c + j < d ? c + j : d - 1];
  return p;
}

// `count` rows to the slots from `first` on.
AP_INLINE void store_keys(const head_of_block& to, const elem* in, i64 stride, u32 first, u32 count, float inverse,
                          bool fast) {
  for (walk w(to.d / kVec); w.row < count; w.next()) {
    u32 c = w.column * kVec;
    pack p = load8(in + w.row * stride, c, to.d, fast);
    float f[kVec];
#pragma unroll
    for (u32 j = 0; j < kVec; ++j) f[j] = static_cast<float>(p[j]) * inverse;
    vec<u32, 2> codes = {codes4(f[0], f[1], f[2], f[3]), codes4(f[4], f[5], f[6], f[7])};
    u8* out = to.at(first + w.row, c);
    if (to.wide) {
      *reinterpret_cast<vec<u32, 2>*>(out) = codes;
    } else {
#pragma unroll
      for (u32 j = 0; j < kVec; ++j)
        if (c + j < to.d) out[j] = static_cast<u8>(codes[j / 4] >> (8 * (j % 4)));
    }
  }
}

// A lane takes 16 slots of a column, which are one 16-byte write where all are new.
AP_INLINE void store_values(const head_of_block& to, const elem* in, i64 stride, u32 first, u32 count, float inverse) {
  u32 end = first + count, chunk = first / kX;
  for (walk w(to.d); (chunk + w.row) * kX < end; w.next()) {
    u32 from = (chunk + w.row) * kX, until = from + kX;
    u8* out = to.at(from, w.column);
    if (from >= first && until <= end && to.wide) {
      const elem* column = in + (from - first) * stride + w.column;
      float f[kX];
#pragma unroll
      for (u32 j = 0; j < kX; ++j) f[j] = static_cast<float>(column[j * stride]) * inverse;
      *reinterpret_cast<line*>(out) = {codes4(f[0], f[1], f[2], f[3]), codes4(f[4], f[5], f[6], f[7]),
                                       codes4(f[8], f[9], f[10], f[11]), codes4(f[12], f[13], f[14], f[15])};
    } else {
      u32 last = until < end ? until : end;
      for (u32 slot = from > first ? from : first; slot < last; ++slot)
        out[slot - from] = static_cast<u8>(
            codes4(static_cast<float>(in[(slot - first) * stride + w.column]) * inverse, 0.0f, 0.0f, 0.0f));
    }
  }
}

AP_INLINE float amax_of_rows(const elem* in, i64 stride, u32 count, u32 d, bool fast) {
  float amax = 0.0f;
  for (walk w(d / kVec); w.row < count; w.next()) {
    pack p = load8(in + w.row * stride, w.column * kVec, d, fast);
#pragma unroll
    for (u32 j = 0; j < kVec; ++j) amax = max_num(amax, abs_f(static_cast<float>(p[j])));
  }
  return amax;
}

}  // namespace ap

// `value` begins v_at elements behind its pointer, with NORM keys k_at behind `key`. slot_end: slots of the cache. span: tokens of
// which a workgroup takes the runs that begin there. fast: rows of keys and values begin at multiples of 16 bytes; wide: caches too, and
// page is a multiple of 16. With NORM a run is at least a token long: of one without a slot only the key is turned.
AP_KERNEL(256)
void cache_block_scale(ap::elem* key, const ap::elem* value, ap::u8* __restrict__ key_cache,
                       ap::u8* __restrict__ value_cache, float* __restrict__ k_scales, float* __restrict__ v_scales,
                       const ap::i64* __restrict__ slots, ap::i32 tokens, ap::i32 heads, ap::i32 size,
                       ap::i32 page_size, ap::i32 block_size, ap::i32 span, ap::i32 fast, ap::i32 wide, float least,
                       ap::i64 slot_end, ap::i64 k_row, ap::i64 v_row
#if NORM
                       ,
                       const ap::u16* __restrict__ q_weight, const ap::u16* __restrict__ k_weight,
                       const ap::u16* __restrict__ table, const ap::i64* __restrict__ positions, ap::i32 heads_q,
                       ap::i32 half, ap::i32 neox, ap::i32 max_position, float epsilon, ap::i64 k_at, ap::i64 v_at
#endif
) {
  using namespace ap;
  __shared__ float largest[4], before;
  u32 n = static_cast<u32>(tokens), h = static_cast<u32>(heads), d = static_cast<u32>(size),
      block = static_cast<u32>(block_size);
  u32 part = block_x() / (2 * h), place = block_x() - part * 2 * h, head = place / 2, lane = thread_x() % kWave;
  bool keys = place % 2 == 0;
#if NORM
  turning by = {q_weight, k_weight, table, positions, static_cast<u32>(half), d, neox != 0, max_position, epsilon};
  u32 parts = (n + static_cast<u32>(span) - 1) / static_cast<u32>(span);
  if (part >= parts) {
    u32 which = (block_x() - parts * 2 * h) * (kThreads / kLanes) + thread_x() / kLanes,
        queries = static_cast<u32>(heads_q);
    u32 token = which / queries;
    if (token < n)
      turn_in_place(reinterpret_cast<u16*>(key) + token * k_row + (which - token * queries) * d, q_weight, token, by);
    return;
  }
  elem* in = (keys ? key + k_at : key + v_at) + head * d;
  i64 stride = k_row;
  static_cast<void>(value), static_cast<void>(v_row);
#else
  const elem* in = (keys ? key : value) + head * d;
  i64 stride = keys ? k_row : v_row;
#endif
  u32 from = part * static_cast<u32>(span), token = from + lane;
  bool mine = lane < static_cast<u32>(span) && token < n;
  i64 own = mine ? slots[token] : -1, last = mine && token > 0 ? slots[token - 1] : -2;
  bool inside = mine && own >= 0 && own < slot_end;
#if NORM
  bool alone = mine && !inside && keys;
#else
  bool alone = false;
#endif
  u64 starts = __builtin_amdgcn_ballot_w64(alone || (inside && (own != last + 1 || own % block == 0)));
  while (starts) {
    u32 first = from + static_cast<u32>(__builtin_ctzll(starts));
    starts &= starts - 1;
    i64 slot = slots[first];
    const elem* rows = in + first * stride;
#if NORM
    if (slot < 0 || slot >= slot_end) {
      if (thread_x() < kLanes) turn_in_place(reinterpret_cast<u16*>(in + first * stride), k_weight, first, by);
      continue;
    }
#endif
    i64 which = slot / block;
    u32 offset = static_cast<u32>(slot - which * block), most = block - offset, count = 0;
    most = most < n - first ? most : n - first;
    for (bool more = true; more && count < most;) {
      u32 i = count + lane;
      u64 fits = __builtin_amdgcn_ballot_w64(i < most && slots[first + (i < most ? i : 0)] == slot + i);
      more = ~fits == 0;
      count += more ? kWave : static_cast<u32>(__builtin_ctzll(~fits));
    }
#if ASM_LAYOUT
    i64 at = which * h + head;
#else
    i64 at = head * (slot_end / block) + which;
#endif
    float* scales = keys ? k_scales : v_scales;
    float amax = 0.0f;
#if NORM
    if (keys) {
      for (u32 i = thread_x() / kLanes; i < count; i += kThreads / kLanes)
        amax = max_num(amax, turn_in_place(reinterpret_cast<u16*>(in + (first + i) * stride), k_weight, first + i, by));
    } else
#endif
      amax = amax_of_rows(rows, stride, count, d, fast != 0);
    amax = wave_max_nonneg(amax);
    if (lane == 0) largest[thread_x() / kWave] = amax;
    if (thread_x() == 0) before = offset ? scales[at] : 0.0f;
    block_sync_memory();
    amax = max_num(max_num(largest[0], largest[1]), max_num(largest[2], largest[3]));
    float old = before, scale = max_num(amax, least) / quant_traits<quant>::max;
    i64 pages = block / static_cast<u32>(page_size);
    head_of_block to = {(keys ? key_cache : value_cache) + (which * pages * h + head) * d * page_size,
                        static_cast<i64>(h) * d * page_size,
                        d,
                        static_cast<u32>(page_size),
                        block,
                        keys,
                        wide != 0};
    if (offset && !(old < scale)) {
      scale = old;
    } else {
      if (offset) rescale_slots(to, offset, old / scale);
      if (thread_x() == 0) scales[at] = scale;
    }
    float inverse = 1.0f / scale;
    if (keys)
      store_keys(to, rows, stride, offset, count, inverse, fast != 0);
    else
      store_values(to, rows, stride, offset, count, inverse);
    block_sync();  // what was shared is read before the next run writes it
  }
}
