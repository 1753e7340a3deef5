// RMSNorm of all queries of a token, and of all its keys, rotary embedding of each head's first elements, values moved: one tensor becomes
// three, in one launch.
//
// x * rsqrt(mean(x^2) + epsilon) * weight, the mean over all heads; then of each pair of the first 2 * half elements of a head x' = x *
// cos - y * sin, y' = y * cos + x * sin; all in fp32, rounded once.
//
// A workgroup takes a token, each lane eight neighbouring elements in each of its passes.
//
// Build:  T = bf16 | f16     element type of what is read and written
//         W = T | f32        of weights
//         BLOCK = 256 | 1024 threads
//         PASSES = 4         a token has at most 8 * BLOCK * PASSES elements
// Launch: grid x = tokens; block x = BLOCK.
// guarantee   sizes, half and strides are multiples of 8; all pointers at 16 bytes
#include "common.hpp"

namespace ap {

using elem = T;
using f32 = float;
using factor = W;
using pack = vec<u16, kVec>;

AP_INLINE float as_float(u16 x) { return static_cast<float>(__builtin_bit_cast(elem, x)); }
AP_INLINE u16 as_bits(float x) { return __builtin_bit_cast(u16, to_elem<elem>(x)); }
AP_INLINE pack load(const u16* at) { return *reinterpret_cast<const pack*>(at); }

template <int CTRL>
AP_INLINE float moved(float x) {
  i32 own = __builtin_bit_cast(i32, x);
  return __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(own, own, CTRL, 0xf, 0xf, false));
}

AP_INLINE float of_lane(float x, i32 lane) {
  return __builtin_bit_cast(float, __builtin_amdgcn_readlane(__builtin_bit_cast(i32, x), lane));
}

// Over the wave, the same in each lane.
AP_INLINE float wave_sum(float x) {
  x += moved<0xb1>(x);   // quad_perm: lanes 1, 0, 3, 2
  x += moved<0x4e>(x);   // quad_perm: lanes 2, 3, 0, 1
  x += moved<0x141>(x);  // row_half_mirror
  x += moved<0x140>(x);  // row_mirror
  return (of_lane(x, 0) + of_lane(x, 16)) + (of_lane(x, 32) + of_lane(x, 48));
}

AP_INLINE void normed(float* v, pack x, const factor* weight, float root) {
  vec<factor, kVec> w = *reinterpret_cast<const vec<factor, kVec>*>(weight);
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) v[i] = as_float(x[i]) * root * static_cast<float>(w[i]);
}

}  // namespace ap

// qkv [tokens, q_size + 2 * k_size], heads of queries, then keys, then values; rows of the table have cosines, then sines, and are read at
// the positions, cut to them.
AP_KERNEL(BLOCK)
void qkv_norm_rope(const ap::u16* __restrict__ qkv, const ap::factor* __restrict__ q_weight,
                   const ap::factor* __restrict__ k_weight, const ap::u16* __restrict__ table,
                   const ap::i64* __restrict__ positions, ap::u16* __restrict__ q_out, ap::u16* __restrict__ k_out,
                   ap::u16* __restrict__ v_out, ap::i32 q_size, ap::i32 k_size, ap::i32 head, ap::i32 half,
                   ap::i32 table_rows, ap::i32 neox, float epsilon, ap::i64 in_stride, ap::i64 table_stride) {
  using namespace ap;
  constexpr u32 waves = BLOCK / kWave;
  __shared__ float shared[2 * waves];
  u32 token = block_x(), queries = static_cast<u32>(q_size), turned = queries + static_cast<u32>(k_size);
  u32 all = turned + static_cast<u32>(k_size), pairs = static_cast<u32>(half), size = static_cast<u32>(head);
  const u16* row = qkv + token * in_stride;
  pack x[PASSES];
#pragma unroll
  for (u32 p = 0; p < PASSES; ++p) {
    u32 at = (p * BLOCK + thread_x()) * kVec;
    x[p] = pack{};
    if (at < all) x[p] = load(row + at);
  }
  float q_sum = 0.0f, k_sum = 0.0f;
#pragma unroll
  for (u32 p = 0; p < PASSES; ++p) {
    u32 at = (p * BLOCK + thread_x()) * kVec;
    float sum = 0.0f;
#pragma unroll
    for (u32 i = 0; i < kVec; ++i) sum += as_float(x[p][i]) * as_float(x[p][i]);
    q_sum += at < queries ? sum : 0.0f;
    k_sum += at >= queries && at < turned ? sum : 0.0f;
  }
  q_sum = wave_sum(q_sum), k_sum = wave_sum(k_sum);
  if (thread_x() % kWave == 0) shared[thread_x() / kWave] = q_sum, shared[waves + thread_x() / kWave] = k_sum;
  block_sync();
  q_sum = 0.0f, k_sum = 0.0f;
#pragma unroll
  for (u32 w = 0; w < waves; ++w) q_sum += shared[w], k_sum += shared[waves + w];
  float q_root = __builtin_amdgcn_rsqf(q_sum / static_cast<float>(q_size) + epsilon);
  float k_root = __builtin_amdgcn_rsqf(k_sum / static_cast<float>(k_size) + epsilon);

  i64 position = positions[token], last = static_cast<i64>(table_rows) - 1;
  const u16* cosines = table + (position < 0 ? 0 : position > last ? last : position) * table_stride;
#pragma unroll
  for (u32 p = 0; p < PASSES; ++p) {
    u32 at = (p * BLOCK + thread_x()) * kVec;
    if (at >= all) continue;
    if (at >= turned) {
      *reinterpret_cast<pack*>(v_out + static_cast<i64>(token) * k_size + (at - turned)) = x[p];
      continue;
    }
    bool key = at >= queries;
    u32 own = at - (key ? queries : 0), d = own % size;
    const factor* weight = key ? k_weight : q_weight;
    float root = key ? k_root : q_root;
    float v[kVec];
    normed(v, x[p], weight + own, root);
    if (d < 2 * pairs) {
      if (neox) {
        bool second = d >= pairs;
        u32 pair = second ? d - pairs : d, to = second ? own - pairs : own + pairs;
        float y[kVec];
        normed(y, load(row + (at - own) + to), weight + to, root);
        pack c = load(cosines + pair), s = load(cosines + pairs + pair);
#pragma unroll
        for (u32 i = 0; i < kVec; ++i)
          v[i] = second ? v[i] * as_float(c[i]) + y[i] * as_float(s[i]) : v[i] * as_float(c[i]) - y[i] * as_float(s[i]);
      } else {
        vec<u16, 4> c = *reinterpret_cast<const vec<u16, 4>*>(cosines + d / 2);
        vec<u16, 4> s = *reinterpret_cast<const vec<u16, 4>*>(cosines + pairs + d / 2);
#pragma unroll
        for (u32 i = 0; i < kVec; i += 2) {
          float a = v[i] * as_float(c[i / 2]) - v[i + 1] * as_float(s[i / 2]);
          v[i + 1] = v[i + 1] * as_float(c[i / 2]) + v[i] * as_float(s[i / 2]);
          v[i] = a;
        }
      }
    }
    pack out;
#pragma unroll
    for (u32 i = 0; i < kVec; ++i) out[i] = as_bits(v[i]);
    u16* to = key ? k_out + static_cast<i64>(token) * k_size : q_out + static_cast<i64>(token) * q_size;
    *reinterpret_cast<pack*>(to + own) = out;
  }
}
