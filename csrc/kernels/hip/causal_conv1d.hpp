// What kernels of causal convolutions share: taps of a lane's channels in registers (causal_conv1d.hip says how channels lie in lanes).
// Includers are built with T, W and WIDE.
#pragma once
#include "common.hpp"

namespace ap {

using f32 = float;
using elem = T;
using weight_t = W;
inline constexpr u32 N = WIDE ? 16 / sizeof(elem) : 1;
using pack = vec<elem, N>;

AP_INLINE u32 block_y() { return __builtin_amdgcn_workgroup_id_y(); }
AP_INLINE u32 block_z() { return __builtin_amdgcn_workgroup_id_z(); }

struct places {  // strides of the three dims of a tensor; of x and out of a prompt the first is not used
  i64 outer, channel, token;
};

// Where a lane's first channel is. With WIDE the channels' stride is 1, and known to the compiler.
template <typename E>
AP_INLINE E* at(E* base, const places& p, i64 outer, i64 channel) {
  return base + outer * p.outer + (WIDE ? channel : channel * p.channel);
}

AP_INLINE pack load(const elem* p) { return *reinterpret_cast<const pack*>(p); }
AP_INLINE void store(elem* p, pack value) { *reinterpret_cast<pack*>(p) = value; }

// v_exp_f32 and v_rcp_f32 are each within 1 ulp; a sigmoid below 2^-126 is 0.
AP_INLINE float silu_of(float y) {
  return y * __builtin_amdgcn_rcpf(1.0f + __builtin_amdgcn_exp2f(y * -1.44269504088896341f));
}

// Taps of a lane's channels, and the inputs before the next one.
template <i32 WIDTH>
struct filter {
  float taps[WIDTH][N], start[N];
  pack before[WIDTH - 1];

  __device__ __attribute__((always_inline)) void read(const weight_t* __restrict__ weight,
                                                      const weight_t* __restrict__ bias, i64 channel, i64 of_channel,
                                                      i64 of_tap) {
    if constexpr (WIDE) {
      using wide = vec<weight_t, N>;
      const wide* from = reinterpret_cast<const wide*>(weight + channel * WIDTH);
      wide raw[WIDTH];
#pragma unroll
      for (i32 j = 0; j < WIDTH; ++j) raw[j] = from[j];
#pragma unroll
      for (u32 i = 0; i < N; ++i) {
#pragma unroll
        for (i32 j = 0; j < WIDTH; ++j) taps[j][i] = static_cast<float>(raw[(i * WIDTH + j) / N][(i * WIDTH + j) % N]);
      }
      wide first = {};
      if (bias) first = *reinterpret_cast<const wide*>(bias + channel);
#pragma unroll
      for (u32 i = 0; i < N; ++i) start[i] = static_cast<float>(first[i]);
    } else {
#pragma unroll
      for (i32 j = 0; j < WIDTH; ++j) taps[j][0] = static_cast<float>(weight[channel * of_channel + j * of_tap]);
      start[0] = bias ? static_cast<float>(bias[channel]) : 0.0f;
    }
  }

  // The result of the next input, which becomes the last of those before.
  __device__ __attribute__((always_inline)) pack next(pack input, bool silu) {
    pack out;
#pragma unroll
    for (u32 i = 0; i < N; ++i) {
      float y = start[i];
#pragma unroll
      for (i32 j = 0; j < WIDTH - 1; ++j) y = __builtin_fmaf(taps[j][i], static_cast<float>(before[j][i]), y);
      y = __builtin_fmaf(taps[WIDTH - 1][i], static_cast<float>(input[i]), y);
      out[i] = to_elem<elem>(silu ? silu_of(y) : y);
    }
#pragma unroll
    for (i32 j = 0; j < WIDTH - 2; ++j) before[j] = before[j + 1];
    before[WIDTH - 2] = input;
    return out;
  }
};

}  // namespace ap
