// RMSNorm and rotary embedding of the heads of queries and keys of one tensor, and of an indexer's, in one launch; with a cache the
// write of keys, values and the indexer's key into it.
//
// Of a head x of 128: x * rsqrt(mean(x^2) + epsilon) * (1 + weight); then of each pair of its first 2 * half elements, i and i + half,
// x' = x * cos - y * sin, y' = y * cos + x * sin; in fp32. Codes are rounded twice, to T and then to fp8, as in AITER, whose tests
// compare them bit by bit. Slots that are not in the cache are skipped.
//
// Build:  T = bf16 | f16              element type of heads, weights and the table
//         C = T | e4m3fnuz | e4m3fn   type of the cache of keys and values
//         I = T | e4m3fnuz | e4m3fn   type of the indexer's cache
//         LANES = 16                  tensors at multiples of 16 bytes; strides and x multiples of 4
//               = 64                  any address
// Launch: grid x = cdiv(tokens * heads, 256 / LANES); block x = 256. `heads`: heads_q + heads_k, with a cache those of values, with an
// indexer its queries and 1.
//
// Where element d of a key lies: block * k_block + head * k_head + d / k_x * k_column + offset * k_slot + d % k_x,
// and of a value: block * v_block + head * v_head + d * v_column + offset / v_x * v_chunk + offset % v_x * v_slot.
#include "rope_head.hpp"

namespace ap {

inline constexpr u32 kSize = 128;

template <typename Cell>
inline constexpr bool kCodes = !same<Cell, T>;
static_assert(!kCodes<C> || same<C, fp8>, "the cache holds the target's own fp8");
static_assert(!kCodes<I> || same<I, fp8>, "the indexer's cache holds the target's own fp8");

template <bool BYTES>
struct cell_of {
  using type = u16;
};
template <>
struct cell_of<true> {
  using type = u8;
};
template <typename Cell>
using cell = cell_of<kCodes<Cell>>::type;
using cache_cell = cell<C>;
using index_cell = cell<I>;

// How a value is stored: codes are divided by the scale.
template <typename Cell>
AP_INLINE cell<Cell> stored(float value, float scale) {
  if constexpr (kCodes<Cell>)
    return pack1<fp8>(as_float(as_bits(value)) / scale);
  else
    return as_bits(value);
}

template <typename Cell>
AP_INLINE void store_four(cell<Cell>* out, const float* e, float scale) {
  if constexpr (kCodes<Cell>) {
    float q[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) q[j] = as_float(as_bits(e[j])) / scale;
    *reinterpret_cast<u32*>(out) = pack4<fp8>(q[0], q[1], q[2], q[3]);
  } else {
    *reinterpret_cast<vec<u16, 4>*>(out) = {as_bits(e[0]), as_bits(e[1]), as_bits(e[2]), as_bits(e[3])};
  }
}

// A head's elements in tiles of x, `column` apart.
template <typename Cell>
AP_INLINE void store_tiles(cell<Cell>* out, const share& own, const float* e, float scale, u32 x, i64 column) {
  if constexpr (kAny) {
#pragma unroll
    for (u32 k = 0; k < 8; ++k)
      if (own.valid(k)) out[own.at(k) / x * column + own.at(k) % x] = stored<Cell>(e[k], scale);
  } else {
    store_four<Cell>(out + own.first / x * column + own.first % x, e, scale);
    store_four<Cell>(out + own.second / x * column + own.second % x, e + 4, scale);
  }
}

// A head's elements, `column` apart.
template <typename Cell>
AP_INLINE void store_column(cell<Cell>* out, const share& own, const float* e, float scale, i64 column) {
  if (!kAny && column == 1) {
    store_tiles<Cell>(out, own, e, scale, kSize, 0);
  } else {
#pragma unroll
    for (u32 k = 0; k < 8; ++k)
      if (own.valid(k)) out[own.at(k) * column] = stored<Cell>(e[k], scale);
  }
}

AP_INLINE void turn_head(const share& own, float* e, const u16* row) {
  if constexpr (kAny) {
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
      u32 p = own.pair + j * kWave;
      if (p >= own.half) continue;
      float c = as_float(row[p]), s = as_float(row[own.half + p]);
      turn(e[j], e[4 + j], c, s, c, s);
    }
  } else {
    if (own.pair >= own.half) return;  // both are multiples of 4
    vec<u16, 4> cos = *reinterpret_cast<const vec<u16, 4>*>(row + own.pair);
    vec<u16, 4> sin = *reinterpret_cast<const vec<u16, 4>*>(row + own.half + own.pair);
#pragma unroll
    for (u32 j = 0; j < 4; ++j)
      turn(e[j], e[4 + j], as_float(cos[j]), as_float(sin[j]), as_float(cos[j]), as_float(sin[j]));
  }
}

}  // namespace ap

// A row of qkv has heads_q heads of queries, heads_k of keys, heads_k of values, and where heads_i is not 0 so many of the indexer's
// queries and one of its keys. What has no memory of its own (q_out or index_q_out null; keys, where `insert` is 0) is written in
// place. The caches have slot_end and index_end slots. With `scaled` each head of a token has a scale, amax / qmax or 1, which is
// written to k_scale and v_scale, block * scale_block + head * scale_head + offset.
AP_KERNEL(256)
void norm_rope_index(ap::u16* qkv, ap::u16* q_out, ap::u16* index_q_out, const ap::u16* __restrict__ q_weight,
                     const ap::u16* __restrict__ k_weight, const ap::u16* __restrict__ index_q_weight,
                     const ap::u16* __restrict__ index_k_weight, const ap::u16* __restrict__ table,
                     const ap::i64* __restrict__ positions, const ap::i64* __restrict__ slots,
                     const ap::i64* __restrict__ index_slots, ap::cache_cell* __restrict__ k_cache,
                     ap::cache_cell* __restrict__ v_cache, ap::index_cell* __restrict__ index_cache,
                     float* __restrict__ k_scale, float* __restrict__ v_scale, ap::i32 tokens, ap::i32 heads_q,
                     ap::i32 heads_k, ap::i32 heads_i, ap::i32 half, ap::i32 max_position, ap::i32 insert,
                     ap::i32 scaled, float epsilon, ap::i32 block_size, ap::i64 row_stride, ap::i64 slot_end,
                     ap::i64 index_end, ap::i64 scale_block, ap::i64 scale_head, ap::i64 k_block, ap::i64 k_head,
                     ap::i64 k_column, ap::i64 k_slot, ap::i32 k_x, ap::i64 v_block, ap::i64 v_head, ap::i64 v_column,
                     ap::i64 v_chunk, ap::i64 v_slot, ap::i32 v_x) {
  using namespace ap;
  u32 nq = static_cast<u32>(heads_q), nk = static_cast<u32>(heads_k), ni = static_cast<u32>(heads_i);
  u32 heads = nq + nk + (insert ? nk : 0) + (ni ? ni + 1 : 0);
  u32 place = block_x() * (256 / kLanes) + thread_x() / kLanes;
  u32 token = place / heads;
  if (token >= static_cast<u32>(tokens)) return;
  u32 at = place - token * heads;
  if (!insert && at >= nq + nk) at += nk;  // nothing becomes of values
  bool query = at < nq, key = !query && at < nq + nk, value = !query && !key && at < nq + 2 * nk;
  bool index_query = !query && !key && !value && at < nq + 2 * nk + ni;
  u32 head = query ? at : key ? at - nq : value ? at - nq - nk : at - nq - 2 * nk;

  u16* in = qkv + token * row_stride + at * kSize;
  share own = share_of(thread_x() % kLanes, static_cast<u32>(half), kSize, !value, true);
  float e[8];
  load(in, own, e);
  if (!value) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += e[i] * e[i];
    sum = over_head(sum, [](float a, float b) { return a + b; });
    float root = __builtin_amdgcn_rsqf(sum / kSize + epsilon);
    float w[8];
    load(query ? q_weight : key ? k_weight : index_query ? index_q_weight : index_k_weight, own, w);
#pragma unroll
    for (int i = 0; i < 8; ++i) e[i] = e[i] * root * (1.0f + w[i]);
    i64 position = positions[token];
    position = position < 0 ? 0 : position >= max_position ? max_position - 1 : position;
    turn_head(own, e, table + position * (2 * half));
  }
  if (query || index_query || !insert) {
    u16* out = query ? q_out : index_query ? index_q_out : nullptr;
    u32 of_kind = query ? nq : ni;
    store(out ? out + (static_cast<i64>(token) * of_kind + head) * kSize : in, own, e);
    return;
  }

  bool index_key = !key && !value;
  i64 slot = (index_key ? index_slots : slots)[token];
  if (slot < 0 || slot >= (index_key ? index_end : slot_end)) return;
  if (index_key) {
    store_tiles<I>(index_cache + slot * kSize, own, e, 1.0f, kSize, 0);
    return;
  }
  u32 block = static_cast<u32>(slot) / static_cast<u32>(block_size);
  u32 offset = static_cast<u32>(slot) - block * static_cast<u32>(block_size);
  float scale = 1.0f;
  if (kCodes<C> && scaled) {
    float amax = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) amax = max_num(amax, abs_f(e[i]));
    amax = over_head(amax, [](float a, float b) { return max_num(a, b); });
    scale = amax > 0.0f ? amax / quant_traits<fp8>::max : 1.0f;
    if (own.pair == 0) (key ? k_scale : v_scale)[block * scale_block + head * scale_head + offset] = scale;
  }
  if (key) {
    store_tiles<C>(k_cache + block * k_block + head * k_head + offset * k_slot, own, e, scale, static_cast<u32>(k_x),
                   k_column);
  } else {
    u32 x = static_cast<u32>(v_x);
    i64 to = block * v_block + head * v_head + offset / x * v_chunk + offset % x * v_slot;
    store_column<C>(v_cache + to, own, e, scale, v_column);
  }
}
