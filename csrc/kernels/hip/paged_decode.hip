// Decode over a paged cache of any size: softmax(q @ k^T / sqrt(128)) @ v of a few queries a sequence, for heads of 128.
//
// A workgroup has the rows of one sequence and one head of keys (each query of each head that shares the keys), and a part of the
// keys. A wave reads 4 x 16 bytes of keys for each step, all heads of queries at once, and no key twice. In the product with the
// keys, rows of the matrix instruction are keys, so that a lane's scores are of 16 bytes of values: probabilities never change lanes.
// Addresses have 64 bits. With several parts a second launch joins them (paged_decode_join.hip).
//
// Caches of 8 bits are computed with as AITER does: queries become codes, each row by its largest, and so do probabilities times
// the scales of values, by 256 keys.
//
// Build:  T = bf16 | f16             element type of queries and results
//         C = T | fp8 | i8           element type of keys and values
//         HEIGHT = 16 | 64             rows of a workgroup
// Launch: grid x = parts * cdiv(rows of a sequence, HEIGHT) * heads of keys, y = sequences, block x = 256, static LDS only.
#include "common.hpp"

namespace ap {

inline constexpr i32 kDepth = 128, kWaves = 4, kTile = 256;
inline constexpr bool kFp8 = same<C, fp8>, kCodes = kFp8 || same<C, i8>;
inline constexpr i32 kTiles = HEIGHT / 16;      // of 16 rows
inline constexpr i32 kEach = kCodes ? 16 : 8;   // elements in 16 bytes
inline constexpr i32 kKeys = 4 * kEach;         // of a step of a wave
inline constexpr i32 kBlocks = kKeys / 16;      // of 16 keys
inline constexpr i32 kChunks = kDepth / kKeys;  // of a key
inline constexpr i32 kColumns = kDepth / 16;
inline constexpr i32 kHalf = kDepth / 2, kPitch = kHalf + 4;  // of a row, in LDS
inline constexpr float kLargest = kFp8 ? quant_traits<fp8>::max : quant_traits<i8>::max;

using elem = T;
using line = vec<u32, 4>;
using quad = vec<float, 4>;
// Blocks and heads of a cache may begin anywhere.
typedef u32 loose __attribute__((ext_vector_type(4), aligned(1)));
typedef u32 loose_pair __attribute__((ext_vector_type(2), aligned(2)));

AP_INLINE u32 block_y() { return __builtin_amdgcn_workgroup_id_y(); }
AP_INLINE i32 smaller(i32 a, i32 b) { return a < b ? a : b; }
AP_INLINE float exp2_of(float x) { return __builtin_amdgcn_exp2f(x); }
AP_INLINE line read(const u8* at) { return *reinterpret_cast<const loose*>(at); }

// The sum or the largest of the four lanes that have the same row.
AP_INLINE float from_lane(float x, u32 distance) {
  return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(static_cast<int>((thread_x() % kWave ^ distance) * 4),
                                                                __builtin_bit_cast(int, x)));
}
AP_INLINE float row_max(float x) {
  x = max_num(x, from_lane(x, 16));
  return max_num(x, from_lane(x, 32));
}
AP_INLINE float row_sum(float x) {
  x += from_lane(x, 16);
  return x + from_lane(x, 32);
}

// Adds the product of 16 bytes a lane of 16-bit floats: both have the same order of k, which therefore does not matter.
template <typename E>
AP_INLINE quad multiply(line a, line b, quad sum) {
#if defined(__gfx950__)
  using eight = vec<E, 8>;
  if constexpr (same<E, bf16>) {
    return __builtin_amdgcn_mfma_f32_16x16x32_bf16(__builtin_bit_cast(eight, a), __builtin_bit_cast(eight, b), sum, 0,
                                                   0, 0);
  } else {
    return __builtin_amdgcn_mfma_f32_16x16x32_f16(__builtin_bit_cast(eight, a), __builtin_bit_cast(eight, b), sum, 0, 0,
                                                  0);
  }
#else
#pragma unroll
  for (u32 half = 0; half < 4; half += 2) {
    vec<u32, 2> x = {a[half], a[half + 1]}, y = {b[half], b[half + 1]};
    if constexpr (same<E, bf16>) {
      using four = vec<short, 4>;
      sum = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(four, x), __builtin_bit_cast(four, y), sum, 0,
                                                      0, 0);
    } else {
      using four = vec<f16, 4>;
      sum =
          __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(four, x), __builtin_bit_cast(four, y), sum, 0, 0, 0);
    }
  }
  return sum;
#endif
}

// The same of codes: the sum of COUNT lines, which is exact for int8.
template <i32 COUNT>
AP_INLINE quad multiply_codes(const line* a, const line* b) {
  quad sum = {0.0f, 0.0f, 0.0f, 0.0f};
  vec<i32, 4> whole = {0, 0, 0, 0};
#pragma unroll
  for (i32 i = 0; i < COUNT; ++i) {
#pragma unroll
    for (u32 half = 0; half < 4; half += 2) {
      vec<u32, 2> xs = {a[i][half], a[i][half + 1]}, ys = {b[i][half], b[i][half + 1]};
      i64 x = __builtin_bit_cast(i64, xs), y = __builtin_bit_cast(i64, ys);
      if constexpr (kFp8) {
        sum = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(x, y, sum, 0, 0, 0);
      } else {
        whole = __builtin_amdgcn_mfma_i32_16x16x32_i8(x, y, whole, 0, 0, 0);
      }
    }
  }
  if constexpr (!kFp8) sum = __builtin_convertvector(whole, quad);
  return sum;
}

// Codes of 16 numbers that are no larger than the largest code: fp8 to nearest, int8 towards zero.
AP_INLINE line codes_of(const float* x, float factor) {
  line codes;
#pragma unroll
  for (i32 i = 0; i < 4; ++i) {
    float y[4];
#pragma unroll
    for (i32 j = 0; j < 4; ++j) y[j] = kFp8 ? x[4 * i + j] * factor : __builtin_truncf(x[4 * i + j] * factor);
    if constexpr (kFp8) {
      codes[i] = pack4<fp8>(y[0], y[1], y[2], y[3]);
    } else {
      codes[i] = pack4<i8>(y[0], y[1], y[2], y[3]);
    }
  }
  return codes;
}

// Eight of a line's fp8 codes as bf16, which has them all. An element of a vector is copied before its bits are asked for: of
// `__builtin_bit_cast(u32, pair[1])` the compiler makes the bits of pair[0].
AP_INLINE u32 bits(float x) { return __builtin_bit_cast(u32, x); }
AP_INLINE line as_bf16(line codes, i32 half) {
  line found;
#pragma unroll
  for (i32 i = 0; i < 2; ++i) {
    vec<float, 2> low = __builtin_amdgcn_cvt_pk_f32_fp8(static_cast<int>(codes[2 * half + i]), false);
    vec<float, 2> high = __builtin_amdgcn_cvt_pk_f32_fp8(static_cast<int>(codes[2 * half + i]), true);
    found[2 * i] = bits(low[0]) >> 16 | (bits(low[1]) & 0xffff0000u);
    found[2 * i + 1] = bits(high[0]) >> 16 | (bits(high[1]) & 0xffff0000u);
  }
  return found;
}

template <typename E>
AP_INLINE line rounded(const float* x, float factor) {
  vec<E, 8> found;
#pragma unroll
  for (i32 i = 0; i < 8; ++i) found[i] = to_elem<E>(x[i] * factor);
  return __builtin_bit_cast(line, found);
}

// Where 16 bytes of keys or values lie: the block's number in the cache and the key's in the block.
struct Place {
  i32 block, key;
};
AP_INLINE Place find(const i32* table, i32 key, i32 page) {
  u32 index = static_cast<u32>(key) / static_cast<u32>(page);
  return {table[index], key - static_cast<i32>(index) * page};
}

}  // namespace ap

// out and q [rows, heads * group, 128]; keys [blocks, heads, 128 / X, page, X] and values [blocks, heads, page / X, 128, X], X elements
// being 16 bytes, with strides of `block` and `head` bytes; scales [blocks, heads, page], or null. Sequence i has the rows from
// starts[i], and sees lengths[i] keys with its last one, one less with each before; most: of one sequence; 0: row i, and no starts.
// fine: of fp8, probabilities are bf16 for the product with values in 256 keys that are not full (1), or always (2).
// sums [rows, heads * group, parts, 128] and ends [.., 2], largest score and sum, are written where there are several parts.
AP_KERNEL(256)
void paged_decode(ap::elem* __restrict__ out, const ap::elem* __restrict__ q, const ap::u8* __restrict__ keys,
                  const ap::u8* __restrict__ values, const ap::i32* __restrict__ tables,
                  const ap::i32* __restrict__ lengths, const ap::i32* __restrict__ starts,
                  const float* __restrict__ key_scales, const float* __restrict__ value_scales,
                  float* __restrict__ sums, float* __restrict__ ends, ap::i32 heads, ap::i32 group, ap::i32 page,
                  ap::i32 most, ap::i32 parts, ap::i32 fine, ap::i64 table_row, ap::i64 block, ap::i64 head,
                  float scale) {
  using namespace ap;
  __shared__ float shared[kWaves][16][kPitch];
  __shared__ float shared_ends[2][kWaves][HEIGHT][2];
  const i32 lane = static_cast<i32>(thread_x()) % kWave,
            wave = __builtin_amdgcn_readfirstlane(static_cast<i32>(thread_x()) / kWave);
  const i32 column = lane % 16, quarter = lane / 16;
  const i32 tiles = (group * (most > 0 ? most : 1) + HEIGHT - 1) / HEIGHT;
  const i32 index = static_cast<i32>(block_x()) / parts, part = static_cast<i32>(block_x()) - index * parts;
  const i32 own_head = index / tiles, tile = index - own_head * tiles;
  const i32 sequence = static_cast<i32>(block_y());
  const i32 first = most > 0 ? starts[sequence] : sequence;
  const i32 queries = most > 0 ? smaller(starts[sequence + 1] - first, most) : 1;
  const i32 rows = queries * group;
  if (tile * HEIGHT >= rows) return;
  const i32 count = lengths[sequence], full = (count + kTile - 1) / kTile, share = (full + parts - 1) / parts;
  const i32 begin = part * share * kTile, end = smaller(count, begin + share * kTile);
  auto row_place = [=](i32 row) {
    i32 query = row / group;
    return (static_cast<i64>(first) + query) * (heads * group) + own_head * group + (row - query * group);
  };
  if (parts > 1 && begin >= end) {
    const i32 row = tile * HEIGHT + static_cast<i32>(thread_x());
    if (thread_x() < HEIGHT && row < rows) {
      float* to = ends + (row_place(row) * parts + part) * 2;
      to[0] = -__builtin_inff();
      to[1] = 0.0f;
    }
    return;
  }

  line query[kTiles][kChunks];
  float unit[kTiles], top[kTiles], total[kTiles];
  i32 seen[kTiles];
  quad sum[kTiles][kColumns];
#pragma unroll
  for (i32 t = 0; t < kTiles; ++t) {
    const i32 row = smaller(tile * HEIGHT + t * 16 + column, rows - 1);
    const elem* from = q + row_place(row) * kDepth + quarter * kEach;
    seen[t] = count - (queries - 1 - row / group);
    top[t] = -__builtin_inff();
    total[t] = 0.0f;
    unit[t] = scale;
#pragma unroll
    for (i32 d = 0; d < kColumns; ++d) sum[t][d] = quad{0.0f, 0.0f, 0.0f, 0.0f};
    if constexpr (kCodes) {
      float x[kChunks][16], largest = 0.0f;
#pragma unroll
      for (i32 c = 0; c < kChunks; ++c) {
#pragma unroll
        for (i32 half = 0; half < 2; ++half) {
          using eights = vec<elem, 8>;
          eights eight = __builtin_bit_cast(eights, read(reinterpret_cast<const u8*>(from + c * kKeys + half * 8)));
#pragma unroll
          for (i32 i = 0; i < 8; ++i) {
            x[c][half * 8 + i] = static_cast<float>(eight[i]);
            largest = max_num(largest, abs_f(x[c][half * 8 + i]));
          }
        }
      }
      largest = max_num(row_max(largest), 1e-6f);
      unit[t] *= largest / kLargest;
#pragma unroll
      for (i32 c = 0; c < kChunks; ++c) query[t][c] = codes_of(x[c], kLargest / largest);
    } else {
#pragma unroll
      for (i32 c = 0; c < kChunks; ++c) query[t][c] = read(reinterpret_cast<const u8*>(from + c * kKeys));
    }
  }

  // Keys behind the last are not read: the last ones stand for them, and count for nothing.
  const i32* table = tables + sequence * table_row;
  const i32 last = (count - 1) / kEach * kEach;
  keys += own_head * head;
  values += own_head * head;
  // A lane reads keys of the row that it has in the first product, and the values of its quarter of the step.
  auto key_place = [=](i32 at) { return find(table, smaller(at + wave * kKeys + column / 4 * kEach, last), page); };
  auto value_place = [=](i32 at) { return find(table, smaller(at + wave * kKeys + quarter * kEach, last), page); };
  Place of_keys = {0, 0}, of_values = {0, 0};
  if (begin < end) {
    of_keys = key_place(begin);
    of_values = value_place(begin);
  }
  i32 turn = 0;
  for (i32 at = begin; at < end; at += kWaves * kKeys) {
    const i32 own = at + wave * kKeys;
    if (!kCodes && own >= end) break;
    line k[kBlocks][kChunks], v[kColumns];
    const u8* from = keys + of_keys.block * block;
#pragma unroll
    for (i32 b = 0; b < kBlocks; ++b) {
#pragma unroll
      for (i32 c = 0; c < kChunks; ++c)
        k[b][c] = read(from + (static_cast<i64>(c * 4 + quarter) * page + of_keys.key + b * 4 + column % 4) * 16);
    }
    from = values + of_values.block * block + (static_cast<i64>(of_values.key / kEach) * kDepth + column) * 16;
#pragma unroll
    for (i32 d = 0; d < kColumns; ++d) v[d] = read(from + d * 256);
    float by_key[kEach], by_value[kEach];
    if constexpr (kCodes) {
      const i64 scales = (static_cast<i64>(of_values.block) * heads + own_head) * page + of_values.key;
#pragma unroll
      for (i32 j = 0; j < kEach; j += 4) {
        quad x = __builtin_bit_cast(quad, read(reinterpret_cast<const u8*>(key_scales + scales + j)));
        quad y = __builtin_bit_cast(quad, read(reinterpret_cast<const u8*>(value_scales + scales + j)));
#pragma unroll
        for (i32 i = 0; i < 4; ++i) by_key[j + i] = x[i], by_value[j + i] = y[i];
      }
    }
    // The table's next entries arrive while this step is computed.
    of_keys = key_place(at + kWaves * kKeys);
    of_values = value_place(at + kWaves * kKeys);
    const i32 there = count - own - quarter * kEach;  // of the lane's keys
    if (own + kKeys > count) {
      constexpr i32 pack = kEach / 4;
#pragma unroll
      for (i32 i = 0; i < 4; ++i) {
        const i32 few = there - i * pack;
        const u32 mask = few >= pack ? ~0u : few <= 0 ? 0u : (1u << (32 / pack * few)) - 1;
#pragma unroll
        for (i32 d = 0; d < kColumns; ++d) v[d][i] &= mask;
      }
      if constexpr (kCodes) {
#pragma unroll
        for (i32 j = 0; j < kEach; ++j) by_value[j] = j < there ? by_value[j] : 0.0f;
      }
    }

    float weights[kTiles][kEach], least[kTiles];
#pragma unroll
    for (i32 t = 0; t < kTiles; ++t) {
      float* x = weights[t];
      float peak = -__builtin_inff();
#pragma unroll
      for (i32 b = 0; b < kBlocks; ++b) {
        quad score = {0.0f, 0.0f, 0.0f, 0.0f};
        if constexpr (kCodes) {
          score = multiply_codes<kChunks>(k[b], query[t]);
        } else {
#pragma unroll
          for (i32 c = 0; c < kChunks; ++c) score = multiply<elem>(k[b][c], query[t][c], score);
        }
#pragma unroll
        for (i32 i = 0; i < 4; ++i) {
          const i32 j = b * 4 + i;
          float y = score[i] * unit[t];
          if constexpr (kCodes) y *= by_key[j];
          x[j] = own + quarter * kEach + j < seen[t] ? y : -__builtin_inff();
          peak = max_num(peak, x[j]);
        }
      }
      peak = row_max(peak);
      if constexpr (!kCodes) {
        peak = max_num(peak, top[t]);
      }
      // Where there is no key, the largest score is -inf: all powers are 0 then.
      least[t] = peak;
      const float base = peak == -__builtin_inff() ? 0.0f : peak;
#pragma unroll
      for (i32 j = 0; j < kEach; ++j) x[j] = exp2_of(x[j] - base);
    }

    if constexpr (!kCodes) {
#pragma unroll
      for (i32 t = 0; t < kTiles; ++t) {
        const float base = least[t] == -__builtin_inff() ? 0.0f : least[t], kept = exp2_of(top[t] - base);
        float added = 0.0f;
#pragma unroll
        for (i32 j = 0; j < kEach; ++j) added += weights[t][j];
        total[t] = total[t] * kept + added;
        top[t] = least[t];
        const line p = rounded<elem>(weights[t], 1.0f);
#pragma unroll
        for (i32 d = 0; d < kColumns; ++d) sum[t][d] = multiply<elem>(v[d], p, sum[t][d] * kept);
      }
    } else {
      float added[kTiles];
#pragma unroll
      for (i32 t = 0; t < kTiles; ++t) {
        float largest = 0.0f;
        added[t] = 0.0f;
#pragma unroll
        for (i32 j = 0; j < kEach; ++j) {
          added[t] += weights[t][j];
          weights[t][j] *= by_value[j];
          largest = max_num(largest, abs_f(weights[t][j]));
        }
        largest = row_max(largest);
        if (quarter == 0) {
          shared_ends[turn][wave][t * 16 + column][0] = least[t];
          shared_ends[turn][wave][t * 16 + column][1] = largest;
        }
      }
      block_sync();
      const bool coded = !(fine == 2 || (fine == 1 && at + kTile > count));
#pragma unroll
      for (i32 t = 0; t < kTiles; ++t) {
        float peaks[kWaves], peak = top[t], largest = 0.0f;
#pragma unroll
        for (i32 w = 0; w < kWaves; ++w) {
          peaks[w] = shared_ends[turn][w][t * 16 + column][0];
          peak = max_num(peak, peaks[w]);
        }
        const float base = peak == -__builtin_inff() ? 0.0f : peak;
#pragma unroll
        for (i32 w = 0; w < kWaves; ++w)
          largest = max_num(largest, shared_ends[turn][w][t * 16 + column][1] * exp2_of(peaks[w] - base));
        largest = max_num(largest, 1e-6f);
        const float kept = exp2_of(top[t] - base), factor = exp2_of(least[t] - base);
        total[t] = total[t] * kept + added[t] * factor;
        top[t] = peak;
        if (coded || !kFp8 || HEIGHT != 16) {
          const line p = codes_of(weights[t], factor * (kLargest / largest));
          const float step = largest / kLargest;
#pragma unroll
          for (i32 d = 0; d < kColumns; ++d) sum[t][d] = sum[t][d] * kept + multiply_codes<1>(&v[d], &p) * step;
        } else if constexpr (kFp8 && HEIGHT == 16) {
          const line low = rounded<bf16>(weights[t], factor), high = rounded<bf16>(weights[t] + 8, factor);
#pragma unroll
          for (i32 d = 0; d < kColumns; ++d) {
            quad part_sum = multiply<bf16>(as_bf16(v[d], 0), low, sum[t][d] * kept);
            sum[t][d] = multiply<bf16>(as_bf16(v[d], 1), high, part_sum);
          }
        }
      }
      turn ^= 1;
    }
  }

  // What the waves found of their keys, made one: half the columns at a time, so that two workgroups find room on a compute unit.
  const i32 own_row = static_cast<i32>(thread_x()) / 16, own_column = static_cast<i32>(thread_x()) % 16 * 4;
#pragma unroll
  for (i32 t = 0; t < kTiles; ++t) {
    total[t] = row_sum(total[t]);
    block_sync();
    if (quarter == 0) {
      shared_ends[0][wave][column][0] = top[t];
      shared_ends[0][wave][column][1] = total[t];
    }
    block_sync();
    auto largest_of = [&](i32 row) {
      float peak = shared_ends[0][0][row][0];
#pragma unroll
      for (i32 w = 1; w < kWaves; ++w) peak = max_num(peak, shared_ends[0][w][row][0]);
      return peak;
    };
    auto base_of = [](float peak) { return peak == -__builtin_inff() ? 0.0f : peak; };
    const float factor = exp2_of(top[t] - base_of(largest_of(column))), peak = largest_of(own_row);
    float all = 0.0f;
#pragma unroll
    for (i32 w = 0; w < kWaves; ++w)
      all += shared_ends[0][w][own_row][1] * exp2_of(shared_ends[0][w][own_row][0] - base_of(peak));
    const i32 row = tile * HEIGHT + t * 16 + own_row;
    const i64 place = row_place(smaller(row, rows - 1));
    const float portion = all == 0.0f ? 0.0f : 1.0f / all;
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      if (half > 0) block_sync();
#pragma unroll
      for (i32 d = 0; d < kColumns / 2; ++d)
        *reinterpret_cast<quad*>(&shared[wave][column][d * 16 + quarter * 4]) =
            sum[t][half * (kColumns / 2) + d] * factor;
      block_sync();
      quad found = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (i32 w = 0; w < kWaves; ++w) found += *reinterpret_cast<const quad*>(&shared[w][own_row][own_column]);
      if (row >= rows) continue;
      if (parts == 1) {
        vec<elem, 4> whole;
#pragma unroll
        for (i32 i = 0; i < 4; ++i) whole[i] = to_elem<elem>(found[i] * portion);
        *reinterpret_cast<loose_pair*>(out + place * kDepth + half * kHalf + own_column) =
            __builtin_bit_cast(loose_pair, whole);
      } else {
        *reinterpret_cast<quad*>(sums + (place * parts + part) * kDepth + half * kHalf + own_column) = found;
        if (half == 0 && own_column == 0) {
          float* to = ends + (place * parts + part) * 2;
          to[0] = peak;
          to[1] = all;
        }
      }
    }
  }
}
