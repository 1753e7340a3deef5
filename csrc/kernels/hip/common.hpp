// Shared device code of the HIP kernels: element types, vectors, rounding, fp8 and wave reductions.
//
// Freestanding on purpose: no HIP or C++ library header is needed, so the object depends on the compiler alone. Where the
// build puts clang's HIP wrapper header in front, its `__global__` and friends are the same attributes.
// Kernels read no hidden argument: block sizes are compile-time constants and grid facts follow from the arguments.
// A variant is chosen by macros that carry the manifest's names (T, Q, BLOCK, ...); hence no template parameter here is
// called like one of them.
#pragma once

#if !defined(__gfx942__) && !defined(__gfx950__) && defined(__AMDGCN__)
#error "only gfx942 and gfx950 are supported: fp8 flavour and wave size depend on the target"
#endif
#ifndef __global__
#define __global__ __attribute__((global))
#endif
#ifndef __device__
#define __device__ __attribute__((device))
#endif
#ifndef __shared__
#define __shared__ __attribute__((shared))
#endif

#define AP_INLINE static __device__ __attribute__((always_inline, unused)) inline
// The exact block size lets the compiler plan registers and drop bound checks.
#define AP_KERNEL(threads) extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(threads, threads)))

namespace ap {

using bf16 = __bf16;
using f16 = _Float16;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i8 = signed char;
using i32 = int;
using i64 = long long;

// Tags of the fp8 types; values are stored as u8. Each target converts to one of them in hardware.
struct e4m3fnuz {};
struct e4m3fn {};
#if defined(__gfx942__)
using fp8 = e4m3fnuz;
#else
using fp8 = e4m3fn;
#endif

template <typename E, int N>
struct vec_of {
  typedef E type __attribute__((ext_vector_type(N)));
};
template <typename E, int N>
using vec = typename vec_of<E, N>::type;

inline constexpr int kWave = 64;
inline constexpr int kVec = 8;  // 16-bit elements in one 16-byte access

template <typename A, typename B>
inline constexpr bool same = false;
template <typename A>
inline constexpr bool same<A, A> = true;

AP_INLINE u32 thread_x() { return __builtin_amdgcn_workitem_id_x(); }
AP_INLINE u32 block_x() { return __builtin_amdgcn_workgroup_id_x(); }

// Waits for all waves of the block; LDS written before is visible after.
AP_INLINE void block_sync() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

// fmax that drops NaN (v_max_f32), which an amax wants.
AP_INLINE float max_num(float a, float b) { return __builtin_fmaxf(a, b); }
AP_INLINE float abs_f(float a) { return __builtin_fabsf(a); }

// Clamps that keep NaN, as torch.clamp does; v_med3_f32 and v_min_f32 would turn it into a bound.
AP_INLINE float min_keep_nan(float x, float hi) { return x > hi ? hi : x; }
AP_INLINE float clamp_keep_nan(float x, float lo, float hi) { return x > hi ? hi : (x < lo ? lo : x); }

// Conversion to a 16-bit float rounds to nearest even on both targets (gfx950 in one v_cvt_pk_bf16_f32).
template <typename E>
AP_INLINE E to_elem(float x) {
  return static_cast<E>(x);
}

// ---- quantised types --------------------------------------------------------------------------------------------------

template <typename Quant>
struct quant_traits;
template <>
struct quant_traits<fp8> {
#if defined(__gfx942__)
  static constexpr float max = 240.0f;  // e4m3fnuz
#else
  static constexpr float max = 448.0f;  // OCP e4m3fn
#endif
};
template <>
struct quant_traits<i8> {
  static constexpr float max = 127.0f;
};

// Largest magnitude that the type holds; v_med3_f32 would be shorter but hides NaN behind a finite number.
template <typename Quant>
AP_INLINE float saturate(float x) {
  constexpr float q = quant_traits<Quant>::max;
  float y = __builtin_amdgcn_fmed3f(x, -q, q);
  return __builtin_isnan(x) ? x : y;
}

// Four floats, already scaled, to four bytes packed low byte first; saturating, nearest even.
// v_cvt_pk_fp8_f32 gives NaN or infinity above the range unless the values are clamped first.
// NaN becomes fp8's NaN; int8 has none and gets 0 (v_cvt_i32_f32 of NaN).
template <typename Quant>
AP_INLINE u32 pack4(float a, float b, float c, float d) {
  if constexpr (same<Quant, fp8>) {
    u32 w = __builtin_amdgcn_cvt_pk_fp8_f32(saturate<fp8>(a), saturate<fp8>(b), 0, false);
    return __builtin_amdgcn_cvt_pk_fp8_f32(saturate<fp8>(c), saturate<fp8>(d), w, true);
  } else {
    auto round = [](float x) -> u32 {
      constexpr float q = quant_traits<i8>::max;
      float y = __builtin_amdgcn_fmed3f(__builtin_rintf(x), -q, q);
      return static_cast<u32>(static_cast<i32>(__builtin_isnan(x) ? 0.0f : y)) & 0xffu;
    };
    return round(a) | round(b) << 8 | round(c) << 16 | round(d) << 24;
  }
}

template <typename Quant>
AP_INLINE u8 pack1(float a) {
  return static_cast<u8>(pack4<Quant>(a, 0.0f, 0.0f, 0.0f));
}

// ---- reductions -------------------------------------------------------------------------------------------------------

template <int CTRL, int ROWS>
AP_INLINE float dpp_max(float x) {
  int moved = __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x), CTRL, ROWS, 0xf, false);
  return max_num(x, __builtin_bit_cast(float, moved));
}

// Largest of 64 lanes for x >= 0, in a scalar register. Lanes that a DPP step leaves out read 0, the identity.
AP_INLINE float wave_max_nonneg(float x) {
  x = dpp_max<0x111, 0xf>(x);  // row_shr:1
  x = dpp_max<0x112, 0xf>(x);  // row_shr:2
  x = dpp_max<0x114, 0xf>(x);  // row_shr:4
  x = dpp_max<0x118, 0xf>(x);  // row_shr:8   lane 15 of each row of 16 holds its row
  x = dpp_max<0x142, 0xa>(x);  // row_bcast:15 into rows 1 and 3
  x = dpp_max<0x143, 0xc>(x);  // row_bcast:31 into rows 2 and 3
  return __builtin_bit_cast(float, __builtin_amdgcn_readlane(__builtin_bit_cast(int, x), 63));
}

// Largest x >= 0 of a block of THREADS lanes, the same in every lane. Called once per kernel: `shared` is not reused.
template <int THREADS>
AP_INLINE float block_max_nonneg(float x, float* shared) {
  static_assert(THREADS % kWave == 0);
  constexpr int waves = THREADS / kWave;
  float m = wave_max_nonneg(x);
  if constexpr (waves > 1) {
    if (thread_x() % kWave == 0) shared[thread_x() / kWave] = m;
    block_sync();
    m = shared[0];
#pragma unroll
    for (int w = 1; w < waves; ++w) m = max_num(m, shared[w]);
  }
  return m;
}

}  // namespace ap
