// What kernels share that norm and turn whole heads: which elements a lane holds, their reads and writes, sums over a head.
//
// The including source sets T, the element type of 16 bits, and LANES: 8, 16 or 32 lanes hold a head of 8 * LANES elements, of which
// a multiple of 8 is turned, at aligned addresses; 64 hold any even number of elements up to 512.
#pragma once
#include "common.hpp"

namespace ap {

using elem = T;
inline constexpr u32 kLanes = LANES;
inline constexpr bool kAny = LANES == 64;

AP_INLINE float as_float(u16 bits) { return static_cast<float>(__builtin_bit_cast(elem, bits)); }
AP_INLINE u16 as_bits(float value) { return __builtin_bit_cast(u16, to_elem<elem>(value)); }

template <int CTRL>
AP_INLINE float moved(float x) {
  int bits = __builtin_bit_cast(int, x);
  return __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(bits, bits, CTRL, 0xf, 0xf, false));
}

AP_INLINE float from_lane(float x, u32 distance) {
  int lane = static_cast<int>((thread_x() % kWave) ^ distance);
  return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute(lane * 4, __builtin_bit_cast(int, x)));
}

// Over the lanes of a head, the same in each: the halves are mirrored into each other, which is as good as any exchange.
template <typename Join>
AP_INLINE float over_head(float x, Join join) {
  x = join(x, moved<0xb1>(x));                             // quad_perm: lanes 1, 0, 3, 2
  x = join(x, moved<0x4e>(x));                             // quad_perm: lanes 2, 3, 0, 1
  x = join(x, moved<0x141>(x));                            // row_half_mirror
  if constexpr (kLanes > 8) x = join(x, moved<0x140>(x));  // row_mirror
  if constexpr (kLanes > 16) x = join(x, from_lane(x, 16));
  if constexpr (kLanes > 32) x = join(x, from_lane(x, 32));
  return x;
}

// The eight elements that a lane holds: which they are, and which of them are pairs.
struct share {
  u32 pair, first, second;  // pair: number of the lane's first one; first, second: where its two runs of four begin
  u32 half, size;
  bool split, neox;  // split: pairs are e[j] and e[4 + j], else neighbours

  __device__ bool valid(u32 k) const { return !kAny || (pair + k % 4 * kWave) * 2 < size; }
  __device__ u32 at(u32 k) const {
    if constexpr (!kAny) return k < 4 ? first + k : second + k - 4;
    u32 p = pair + k % 4 * kWave;
    u32 end = k / 4;
    return neox && p < half ? p + end * half : 2 * p + end;
  }
};

AP_INLINE share share_of(u32 lane, u32 half, u32 size, bool turned, bool neox) {
  share own = {lane, 0, 0, half, size, true, neox && turned};
  if constexpr (!kAny) {
    own.pair = lane * 4;
    own.split = own.neox && own.pair < half;
    own.first = own.split ? own.pair : 2 * own.pair;
    own.second = own.split ? own.pair + half : 2 * own.pair + 4;
  }
  return own;
}

AP_INLINE void load(const u16* in, const share& own, float* e) {
  if constexpr (kAny) {
#pragma unroll
    for (u32 k = 0; k < 8; ++k) e[k] = own.valid(k) ? as_float(in[own.at(k)]) : 0.0f;
  } else {
    vec<u16, 4> a = *reinterpret_cast<const vec<u16, 4>*>(in + own.first);
    vec<u16, 4> b = *reinterpret_cast<const vec<u16, 4>*>(in + own.second);
#pragma unroll
    for (u32 k = 0; k < 4; ++k) e[k] = as_float(a[k]), e[4 + k] = as_float(b[k]);
  }
}

AP_INLINE void store(u16* out, const share& own, const float* e) {
  if constexpr (kAny) {
#pragma unroll
    for (u32 k = 0; k < 8; ++k)
      if (own.valid(k)) out[own.at(k)] = as_bits(e[k]);
  } else {
    *reinterpret_cast<vec<u16, 4>*>(out + own.first) = {as_bits(e[0]), as_bits(e[1]), as_bits(e[2]), as_bits(e[3])};
    *reinterpret_cast<vec<u16, 4>*>(out + own.second) = {as_bits(e[4]), as_bits(e[5]), as_bits(e[6]), as_bits(e[7])};
  }
}

// The angle of a pair: c, s of its first element and d, t of its second.
AP_INLINE void turn(float& x, float& y, float c, float s, float d, float t) {
  float a = x * c - y * s;
  y = y * d + x * t;
  x = a;
}

}  // namespace ap
