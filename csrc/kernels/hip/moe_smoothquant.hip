// Each token times the smooth scales of each of its experts, as codes with a scale a row: rows of the first choice, then of the next.
//
// Row k * tokens + t: v = input[t] * smooth[experts[t, k]]; scales[row] = amax(|v|) / qmax; out[row] = v / scales[row], rounded to
// nearest even and cut at qmax. NaN is left out of amax, and its code is -qmax.
//
// Build:  T, Q, ALIGNED, BLOCK as quant.hpp has them; ALIGNED asks for smooth scales at 16 bytes, too
//         ITERS    n > 0: the row stays in registers, needs columns <= BLOCK * 8 * n; 0: any number, the row is read twice
// Launch: grid x = tokens, y = choices, block x = BLOCK, static LDS only.
#include "quant.hpp"

namespace ap {

using numbers = vec<float, kVec>;

AP_INLINE u32 block_y() { return __builtin_amdgcn_workgroup_id_y(); }

// Eight smooth scales: of the columns that `load8` reads.
AP_INLINE numbers smooth8(const float* __restrict__ smooth, u32 first, u32 n) {
#if ALIGNED
  u32 c = first + thread_x() * kVec;
  return *reinterpret_cast<const numbers*>(smooth + (c < n ? c : n - kVec));
#else
  numbers s;
#pragma unroll
  for (u32 i = 0; i < kVec; ++i) {
    u32 c = first + thread_x() + i * BLOCK;
    s[i] = smooth[c < n ? c : n - 1];
  }
  return s;
#endif
}

AP_INLINE numbers smoothed(pack p, numbers smooth) {
  numbers v;
#pragma unroll
  for (int i = 0; i < kVec; ++i) v[i] = static_cast<float>(p[i]) * smooth[i];
  return v;
}

AP_INLINE float amax_of(numbers v, float amax) {
#pragma unroll
  for (int i = 0; i < kVec; ++i) amax = max_num(amax, abs_f(v[i]));
  return amax;
}

AP_INLINE void store_cut(u8* __restrict__ out, numbers v, float inverse, u32 n) {
  constexpr float most = quant_traits<quant>::max;
  float f[kVec];
#pragma unroll
  for (int i = 0; i < kVec; ++i) f[i] = __builtin_fminf(max_num(v[i] * inverse, -most), most);  // NaN: -most
  store_codes(out, f, n);
}

}  // namespace ap

// input[tokens, n] and out[choices * tokens, n] with row strides in elements; smooth[.., n] and experts[tokens, choices] dense;
// without experts all rows take the first smooth scales.
AP_KERNEL(BLOCK)
void moe_smoothquant(ap::u8* __restrict__ out, const ap::elem* __restrict__ input, const float* __restrict__ smooth,
                     const ap::i32* __restrict__ experts, float* __restrict__ scales, ap::i32 tokens, ap::i32 n,
                     ap::i32 choices, ap::i64 in_stride, ap::i64 out_stride) {
  using namespace ap;
  __shared__ float partial[BLOCK / kWave];
  u32 token = block_x(), choice = block_y(), cols = static_cast<u32>(n);
  i64 row = static_cast<i64>(choice) * tokens + token;
  if (cols == 0) {
    if (thread_x() == 0) scales[row] = 1.0f;
    return;
  }
  i64 expert = experts ? experts[static_cast<i64>(token) * choices + choice] : 0;
  const elem* from = input + token * in_stride;
  const float* by = smooth + expert * n;
  u8* to = out + row * out_stride;
  float amax = 0.0f;
#if ITERS > 0
  pack held[ITERS];
  numbers scaled[ITERS];
  load_steps(held, from, cols);
#pragma unroll
  for (u32 i = 0; i < ITERS; ++i) scaled[i] = smooth8(by, i * kStep, cols);
#pragma unroll
  for (u32 i = 0; i < ITERS; ++i) {
    scaled[i] = smoothed(held[i], scaled[i]);
    amax = amax_of(scaled[i], amax);
  }
#else
#pragma unroll 2
  for (u32 first = 0; first < cols; first += kStep) {
    amax = amax_of(smoothed(load8(from, first, cols), smooth8(by, first, cols)), amax);
  }
#endif
  quant_scale s = scale_of(block_max_nonneg<BLOCK>(amax, partial), nullptr);
  if (thread_x() == 0) scales[row] = s.scale;
#if ITERS > 0
#pragma unroll
  for (u32 i = 0; i < ITERS; ++i) store_cut(to + i * kStep, scaled[i], s.inverse, columns_left(cols, i * kStep));
#else
#pragma unroll 2
  for (u32 first = 0; first < cols; first += kStep) {
    numbers v = smoothed(load8(from, first, cols), smooth8(by, first, cols));
    store_cut(to + first, v, s.inverse, cols - first);
  }
#endif
}
