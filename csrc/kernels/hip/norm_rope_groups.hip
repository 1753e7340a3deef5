// RMSNorm of heads, rotary embedding of their last elements, and codes with a power of two for each group of the others, in one launch.
//
// Of a head x: y = x * rsqrt(mean(x^2) + epsilon) * weight. The last 2 * half elements are turned in pairs, x' = x * cos - y * sin,
// y' = y * cos + x * sin, and rounded to T. The others become fp8: each group has the scale 2^(b - 127), the smallest power of two of
// which the group's largest size, 1e-8 at least, is at most the largest code. An entry has the codes, then b of each group twice.
// All is computed in fp32. NaN is left out of the largest size, and its code is NaN; of a group with an infinity b is 255, and
// the codes of its finite numbers are 0.
//
// A wave takes a head of a token, each lane eight neighbouring elements.
//
// Build:  T = bf16 | f16             element type of heads, weights, tables and turned elements
//         Q = T | e4m3fnuz | e4m3fn  what queries become: whole heads of T, or entries of the target's fp8 and turned elements
// Launch: grid x = cdiv(tokens * (heads + 1), 4); block x = 256. The last head of a token is its key.
// guarantee   size <= 512; size, half and the strides are multiples of 8, groups 32, 64 or 128 and divide size - 2 * half; pointers to
//             T at 16 bytes, to entries at 8.
#include "group_powers.hpp"

namespace ap {

inline constexpr bool kCodes = !same<Q, T>;
static_assert(!kCodes || same<Q, fp8>, "codes are the target's own fp8");

AP_INLINE float of_lane(float x, i32 lane) {
  return number(__builtin_amdgcn_readlane(__builtin_bit_cast(i32, x), lane));
}

// Over the wave, the same in each lane.
AP_INLINE float wave_sum(float x) {
  x += moved<0xb1>(x);   // quad_perm: lanes 1, 0, 3, 2
  x += moved<0x4e>(x);   // quad_perm: lanes 2, 3, 0, 1
  x += moved<0x141>(x);  // row_half_mirror
  x += moved<0x140>(x);  // row_mirror
  return (of_lane(x, 0) + of_lane(x, 16)) + (of_lane(x, 32) + of_lane(x, 48));
}

AP_INLINE void store(u16* at, const float (&v)[kVec]) {
  pack p;
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) p[i] = as_bits(v[i]);
  *reinterpret_cast<pack*>(at) = p;
}

// Where a token's window keeps its key, or -1: in a row that the caller names, or in one of the pages of its sequence.
struct window {
  u8* entries;
  u16* turned;
  const i32 *table, *rows, *sequences;
  i64 entry_stride, turned_stride, table_stride;
  i32 page, columns, count, end;

  __device__ i64 row_of(u32 token, i64 position) const {
    i32 sequence = sequences[token];
    if (sequence < 0 || position < 0) return -1;
    i64 row;
    if (rows) {
      row = rows[token];
    } else {
      if (sequence >= count || position >= static_cast<i64>(columns) * page || position > 0x7FFFFFFF) return -1;
      u32 at = static_cast<u32>(position), block = at / static_cast<u32>(page);
      i64 stored = table[sequence * table_stride + block];
      row = stored < 0 ? -1 : stored * page + (at - block * static_cast<u32>(page));
    }
    return row < end ? row : -1;
  }
};

}  // namespace ap

// q [tokens, heads, size], kv [tokens, size]; weights [size], that of queries may be null. Tables of `rows` rows are read at the positions,
// cut to them. slots: of each key the page and the place in it, others are left out; null: the key of token t is entry t. window_*:
// null, or a second place for keys (struct window).
AP_KERNEL(256)
void norm_rope_groups(const ap::u16* __restrict__ q, const ap::u16* __restrict__ kv,
                      const ap::u16* __restrict__ q_weight, const ap::u16* __restrict__ k_weight,
                      const ap::u16* __restrict__ cosines, const ap::u16* __restrict__ sines,
                      const ap::i64* __restrict__ positions, const ap::i64* __restrict__ slots,
                      ap::u8* __restrict__ q_out, ap::u16* __restrict__ q_turned, ap::u8* __restrict__ k_out,
                      ap::u16* __restrict__ k_turned, ap::u8* __restrict__ window_entries,
                      ap::u16* __restrict__ window_turned, const ap::i32* __restrict__ window_table,
                      const ap::i32* __restrict__ window_rows, const ap::i32* __restrict__ sequences, ap::i32 tokens,
                      ap::i32 heads, ap::i32 size, ap::i32 half, ap::i32 table_rows, ap::i32 neox, ap::i32 q_group,
                      ap::i32 k_group, ap::i32 page, ap::i32 window_page, ap::i32 window_columns, ap::i32 window_count,
                      ap::i32 window_end, float epsilon, ap::i64 q_token, ap::i64 q_head, ap::i64 kv_token,
                      ap::i64 table_stride, ap::i64 q_out_token, ap::i64 q_out_head, ap::i64 q_turned_token,
                      ap::i64 q_turned_head, ap::i64 k_block, ap::i64 k_place, ap::i64 k_turned_block,
                      ap::i64 k_turned_place, ap::i64 slot_end, ap::i64 window_entry_stride,
                      ap::i64 window_turned_stride, ap::i64 window_table_stride) {
  using namespace ap;
  u32 place = static_cast<u32>(__builtin_amdgcn_readfirstlane(static_cast<i32>(block_x() * 4 + thread_x() / kWave)));
  u32 units = static_cast<u32>(heads) + 1, token = place / units, head = place - token * units;
  if (token >= static_cast<u32>(tokens)) return;
  bool key = head == static_cast<u32>(heads);
  u32 lane = thread_x() % kWave, first = lane * kVec, width = static_cast<u32>(size);
  u32 rest = width - 2 * static_cast<u32>(half);
  bool there = first < width, turned = there && first >= rest;

  u8* out;
  u16* out_turned;
  if (key) {
    i64 block = 0, at = token;
    if (slots) {
      i64 slot = slots[token];
      if (slot < 0 || slot >= slot_end) return;
      block = static_cast<u32>(slot) / static_cast<u32>(page);
      at = slot - block * page;
    }
    out = k_out + block * k_block + at * k_place;
    out_turned = k_turned + block * k_turned_block + at * k_turned_place;
  } else {
    i64 elements = token * q_out_token + head * q_out_head;
    out = q_out + (kCodes ? elements : elements * 2);
    out_turned = q_turned + token * q_turned_token + head * q_turned_head;
    if constexpr (!kCodes) out_turned = reinterpret_cast<u16*>(out) + rest;
  }

  const u16* in = key ? kv + token * kv_token : q + token * q_token + head * q_head;
  const u16* weight = key ? k_weight : q_weight;
  i64 position = positions[token], last = static_cast<i64>(table_rows) - 1;
  i64 row = position < 0 ? 0 : position > last ? last : position;
  pack x = {}, w = {}, cos = {}, sin = {};
  u32 run = (first - rest) / kVec, runs = static_cast<u32>(half) / kVec;
  bool second = run >= runs;  // of neox: the lane has second elements of pairs
  if (there) {
    x = load(in + first);
    if (weight) w = load(weight + first);
  }
  if (turned) {
    if (neox) {
      i64 at = row * table_stride + (second ? run - runs : run) * kVec;
      cos = load(cosines + at), sin = load(sines + at);
    } else {
      i64 at = row * table_stride + run * 4;
      vec<u16, 4> c = *reinterpret_cast<const vec<u16, 4>*>(cosines + at);
      vec<u16, 4> s = *reinterpret_cast<const vec<u16, 4>*>(sines + at);
      cos.lo = c, sin.lo = s;
    }
  }

  float v[kVec], sum = 0.0f;
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) {
    v[i] = as_float(x[i]);
    sum += v[i] * v[i];
  }
  float root = __builtin_amdgcn_rsqf(wave_sum(sum) / static_cast<float>(size) + epsilon);
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) v[i] = v[i] * root * (weight ? as_float(w[i]) : 1.0f);

  window swa = {window_entries, window_turned,       window_table,         window_rows,
                sequences,      window_entry_stride, window_turned_stride, window_table_stride,
                window_page,    window_columns,      window_count,         window_end};
  i64 copy = key && swa.entries ? swa.row_of(token, position) : -1;
  if (!kCodes && !key) {
    if (there && !turned) store(reinterpret_cast<u16*>(out) + first, v);
  } else {
    u32 group = static_cast<u32>(key ? k_group : q_group);
    u32 power = power_of(group_top(v, group));
    if (there && !turned) {
      vec<u32, 2> codes = codes_of(v, power);
      u32 number_of = first / group;
      bool leads = first == number_of * group;
      u16 twice = static_cast<u16>(power * 0x101);
      *reinterpret_cast<vec<u32, 2>*>(out + first) = codes;
      if (leads) *reinterpret_cast<u16*>(out + rest + 2 * number_of) = twice;
      if (copy >= 0) {
        u8* again = swa.entries + copy * swa.entry_stride;
        *reinterpret_cast<vec<u32, 2>*>(again + first) = codes;
        if (leads) *reinterpret_cast<u16*>(again + rest + 2 * number_of) = twice;
      }
    }
  }
  if (!turned) return;
  if (neox) {
    i32 other = static_cast<i32>((second ? lane - runs : lane + runs) * 4);
#pragma unroll
    for (u32 i = 0; i < kVec; ++i) {
      float c = as_float(cos[i]), s = as_float(sin[i]);
      float y = number(static_cast<u32>(__builtin_amdgcn_ds_bpermute(other, __builtin_bit_cast(i32, v[i]))));
      v[i] = second ? v[i] * c + y * s : v[i] * c - y * s;
    }
  } else {
#pragma unroll
    for (u32 i = 0; i < kVec; i += 2) {
      float c = as_float(cos[i / 2]), s = as_float(sin[i / 2]);
      float a = v[i] * c - v[i + 1] * s;
      v[i + 1] = v[i + 1] * c + v[i] * s;
      v[i] = a;
    }
  }
  store(out_turned + (first - rest), v);
  if (copy >= 0) store(swa.turned + copy * swa.turned_stride + (first - rest), v);
}
