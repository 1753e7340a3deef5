// HIP's own 16-bit and 8-bit floats, as far as AITER's HIP sources name them: the pinned headers of HIP have none.
#pragma once

#include <hip/hip_runtime.h>

#include <cassert>
#include <cstdint>

using __half = _Float16;
struct __half2 {
  __half x, y;
  __host__ __device__ __half2& operator+=(__half2 b) {
    x += b.x;
    y += b.y;
    return *this;
  }
  __host__ __device__ __half2& operator*=(__half2 b) {
    x *= b.x;
    y *= b.y;
    return *this;
  }
};
struct __half_raw {
  union {
    _Float16 data;
    unsigned short x;
  };
};
struct __half2_raw {
  _Float16 data __attribute__((ext_vector_type(2)));
};
__host__ __device__ inline float __half2float(__half a) { return a; }
__host__ __device__ inline __half __float2half(float a) { return static_cast<__half>(a); }
__host__ __device__ inline __half __float2half_rn(float a) { return static_cast<__half>(a); }
__host__ __device__ inline float2 __half22float2(__half2 a) { return {__half2float(a.x), __half2float(a.y)}; }
__host__ __device__ inline __half2 __float22half2_rn(float2 a) { return {__float2half(a.x), __float2half(a.y)}; }

struct __hip_bfloat16 {
  __bf16 data;
  __hip_bfloat16() = default;
  __host__ __device__ __hip_bfloat16(float a) : data(static_cast<__bf16>(a)) {}
  __host__ __device__ operator float() const { return static_cast<float>(data); }
};
struct __hip_bfloat162 {
  __hip_bfloat16 x, y;
};
using hip_bfloat16 = __hip_bfloat16;
__host__ __device__ inline __hip_bfloat16 __ushort_as_bfloat16(unsigned short a) {
  return __builtin_bit_cast(__hip_bfloat16, a);
}
__host__ __device__ inline float __bfloat162float(__hip_bfloat16 a) { return a; }
__host__ __device__ inline __hip_bfloat16 __float2bfloat16(float a) { return a; }
__host__ __device__ inline float2 __bfloat1622float2(__hip_bfloat162 a) { return {a.x, a.y}; }
__host__ __device__ inline __hip_bfloat162 __bfloat162bfloat162(__hip_bfloat16 a) { return {a, a}; }
__host__ __device__ inline __hip_bfloat162 __float22bfloat162_rn(float2 a) { return {a.x, a.y}; }
// Each computes in float and rounds once.
__host__ __device__ inline __hip_bfloat16 __hadd(__hip_bfloat16 a, __hip_bfloat16 b) {
  return static_cast<float>(a) + static_cast<float>(b);
}
__host__ __device__ inline __hip_bfloat16 __hmul(__hip_bfloat16 a, __hip_bfloat16 b) {
  return static_cast<float>(a) * static_cast<float>(b);
}
__host__ __device__ inline __hip_bfloat16 __hfma(__hip_bfloat16 a, __hip_bfloat16 b, __hip_bfloat16 c) {
  return __builtin_fmaf(a, b, c);
}
__host__ __device__ inline __hip_bfloat162 __hadd2(__hip_bfloat162 a, __hip_bfloat162 b) {
  return {__hadd(a.x, b.x), __hadd(a.y, b.y)};
}
__host__ __device__ inline __hip_bfloat162 __hmul2(__hip_bfloat162 a, __hip_bfloat162 b) {
  return {__hmul(a.x, b.x), __hmul(a.y, b.y)};
}
__host__ __device__ inline __hip_bfloat162 __hfma2(__hip_bfloat162 a, __hip_bfloat162 b, __hip_bfloat162 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}

namespace stand_in {

// The target's own e4m3 under its name in the house, so that a kernel's name says which one it is.
#if defined(__gfx950__)
#define CK_TILE_USE_OCP_FP8 1
struct e4m3fn {
  uint8_t bits;
};
using fp8_t = e4m3fn;
#else
#define CK_TILE_USE_OCP_FP8 0
struct e4m3fnuz {
  uint8_t bits;
};
using fp8_t = e4m3fnuz;
#endif
struct e5m2 {
  uint8_t bits;
};
using bf8_t = e5m2;

}  // namespace stand_in

// The sources assert that what they quantise to is this type, whichever the target.
using __hip_fp8_e4m3_fnuz = stand_in::fp8_t;
