// What AITER's HIP sources use of ck_tile, in our own words: element types, small vectors, conversions, bounds-checked views.
//
// No file of Composable Kernel is read. The namespace that the sources call ck_tile is `stand_in` here, and so in every symbol.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>
#include <cstdio>
#include <limits>
#include <tuple>
#include <type_traits>

#include "narrow_floats.hpp"

#define ck_tile stand_in
#define CK_TILE_HOST inline __host__
#define CK_TILE_DEVICE inline __device__
#define CK_TILE_HOST_DEVICE inline __host__ __device__

namespace stand_in {

using index_t = int32_t;
using long_index_t = int64_t;
using int8_t = ::int8_t;
using fp32_t = float;
using fp16_t = _Float16;
using half_t = fp16_t;
using bf16_t = __bf16;
using bfloat16_t = bf16_t;

template <typename T, index_t N>
using ext_vector_t = T __attribute__((ext_vector_type(N)));
using fp32x2_t = ext_vector_t<float, 2>;
using int16x2_t = ext_vector_t<int16_t, 2>;
using int8x2_t = ext_vector_t<int8_t, 2>;

__host__ __device__ constexpr index_t get_warp_size() { return 64; }

template <typename To, typename From>
CK_TILE_HOST_DEVICE constexpr To bit_cast(const From& from) {
  return __builtin_bit_cast(To, from);
}

template <auto V>
struct constant {
  using value_type = decltype(V);
  static constexpr value_type value = V;
  __host__ __device__ constexpr operator value_type() const { return V; }
  __host__ __device__ constexpr value_type operator()() const { return V; }
};
template <index_t V>
using number = constant<V>;
template <bool V>
using bool_constant = constant<V>;
using std::make_tuple;
using std::remove_cvref_t;

// f(number<First>{}), f(number<First + Step>{}), ... below End.
template <index_t First, index_t End, index_t Step>
struct static_for {
  template <typename F>
  __host__ __device__ constexpr void operator()(F f) const {
    if constexpr (First < End) {
      f(number<First>{});
      static_for<First + Step, End, Step>{}(f);
    }
  }
};

// N elements that lie side by side; get_as<X> is the same memory as elements of X.
template <typename T, index_t N>
struct thread_buffer {
  T data[N];

  __host__ __device__ static constexpr index_t size() { return N; }
  __host__ __device__ constexpr T& operator[](index_t i) { return data[i]; }
  __host__ __device__ constexpr const T& operator[](index_t i) const { return data[i]; }
  __host__ __device__ constexpr T& operator()(index_t i) { return data[i]; }
  __host__ __device__ constexpr T& at(index_t i) { return data[i]; }
  __host__ __device__ constexpr const T& at(index_t i) const { return data[i]; }

  template <typename X>
  using as = thread_buffer<X, static_cast<index_t>(sizeof(T) * N / sizeof(X))>;
  template <typename X>
  __host__ __device__ constexpr as<X>& get_as() {
    return *reinterpret_cast<as<X>*>(this);
  }
  template <typename X>
  __host__ __device__ constexpr const as<X>& get_as() const {
    return *reinterpret_cast<const as<X>*>(this);
  }
};

template <typename T>
struct vector_traits {
  using scalar_type = T;
  static constexpr index_t vector_size = 1;
};
template <typename T, index_t N>
struct vector_traits<thread_buffer<T, N>> {
  using scalar_type = T;
  static constexpr index_t vector_size = N;
};

template <typename T, index_t N>
struct vector_traits<T __attribute__((ext_vector_type(N)))> {
  using scalar_type = T;
  static constexpr index_t vector_size = N;
};

enum class fp8_interpretation { E4M3_OCP, E4M3_FNUZ, E5M2_OCP, E5M2_FNUZ };
template <typename T>
struct numeric_traits;
template <>
struct numeric_traits<fp8_t> {
  static constexpr auto f8_interpret =
      CK_TILE_USE_OCP_FP8 ? fp8_interpretation::E4M3_OCP : fp8_interpretation::E4M3_FNUZ;
};

template <typename T>
struct numeric {
  __host__ __device__ static constexpr T max() { return std::numeric_limits<T>::max(); }
  __host__ __device__ static constexpr T lowest() { return std::numeric_limits<T>::lowest(); }
  __host__ __device__ static constexpr T infinity() { return std::numeric_limits<T>::infinity(); }
};
template <>
struct numeric<fp8_t> {
  // 448, or 240 of the type without infinities and minus zero.
  __host__ __device__ static constexpr fp8_t max() {
    return fp8_t{static_cast<uint8_t>(CK_TILE_USE_OCP_FP8 ? 0x7e : 0x7f)};
  }
};
template <>
struct numeric<fp16_t> {
  __host__ __device__ static constexpr fp16_t max() { return static_cast<fp16_t>(65504.0f); }
};
template <>
struct numeric<bf16_t> {
  __host__ __device__ static constexpr bf16_t max() {
    return static_cast<bf16_t>(3.38953138925153547590470800371487867e38f);
  }
};

// Y of x, rounded to nearest even where it does not fit exactly.
template <typename Y, typename X>
CK_TILE_HOST_DEVICE constexpr Y type_convert(X x) {
  if constexpr (std::is_same_v<Y, X>) {
    return x;
  } else if constexpr (std::is_same_v<Y, fp8_t>) {
    float value = type_convert<float>(x);
    // What is finite goes to the largest number at most; NaN and infinities are left to the conversion.
    if (__builtin_isfinite(value)) {
      constexpr float most = CK_TILE_USE_OCP_FP8 ? 448.0f : 240.0f;
      value = __builtin_amdgcn_fmed3f(value, most, -most);
    }
    return fp8_t{static_cast<uint8_t>(__builtin_amdgcn_cvt_pk_fp8_f32(value, value, 0, false))};
  } else if constexpr (std::is_same_v<X, fp8_t>) {
    return static_cast<Y>(__builtin_amdgcn_cvt_f32_fp8(x.bits, 0));
  } else {
    return static_cast<Y>(x);
  }
}

enum class address_space_enum { generic, global, lds, sgpr, constant, vgpr };
enum class amd_buffer_coherence_enum { coherence_default = 0, glc = 1, slc = 2, glc_slc = 3 };

// `count` elements at a pointer that is the same for all lanes: what is read beyond them is zero, what is written there is dropped.
template <typename T, amd_buffer_coherence_enum Coherence>
class buffer_view {
 public:
  __device__ buffer_view(T* data, int64_t count)
      : resource_(__builtin_amdgcn_make_buffer_rsrc(const_cast<std::remove_const_t<T>*>(data), 0,
                                                    static_cast<int>(count * sizeof(T)), kRaw)) {}
  __device__ void init_raw() {}

  template <typename X>
  __device__ X get(index_t i, index_t, bool) const {
    bytes<sizeof(X)> found;
    for (unsigned at = 0; at < sizeof(X); at += kStep<X>) {
      load(found.data + at, static_cast<int>(i * sizeof(T)) + static_cast<int>(at), number<kStep<X>>{});
    }
    return __builtin_bit_cast(X, found);
  }

  template <typename X>
  __device__ void set(index_t i, index_t, bool, const X& x) const {
    auto given = __builtin_bit_cast(bytes<sizeof(X)>, x);
    for (unsigned at = 0; at < sizeof(X); at += kStep<X>) {
      store(given.data + at, static_cast<int>(i * sizeof(T)) + static_cast<int>(at), number<kStep<X>>{});
    }
  }

 private:
  // Untyped, in bytes, checked against the size.
  static constexpr int kRaw = 0x00020000;
  static constexpr int kHow = static_cast<int>(Coherence);
  // The largest piece that one instruction moves.
  template <typename X>
  static constexpr int kStep = sizeof(X) % 16 == 0  ? 16
                               : sizeof(X) % 8 == 0 ? 8
                               : sizeof(X) % 4 == 0 ? 4
                               : sizeof(X) % 2 == 0 ? 2
                                                    : 1;
  template <int N>
  struct bytes {
    alignas(N % 16 == 0 ? 16 : 1) unsigned char data[N];
  };

  template <int N>
  __device__ void load(unsigned char* to, int at, number<N>) const {
    if constexpr (N == 16) {
      auto words = __builtin_amdgcn_raw_buffer_load_b128(resource_, at, 0, kHow);
      __builtin_memcpy(to, &words, N);
    } else if constexpr (N == 8) {
      auto words = __builtin_amdgcn_raw_buffer_load_b64(resource_, at, 0, kHow);
      __builtin_memcpy(to, &words, N);
    } else if constexpr (N == 4) {
      auto word = __builtin_amdgcn_raw_buffer_load_b32(resource_, at, 0, kHow);
      __builtin_memcpy(to, &word, N);
    } else if constexpr (N == 2) {
      auto half = __builtin_amdgcn_raw_buffer_load_b16(resource_, at, 0, kHow);
      __builtin_memcpy(to, &half, N);
    } else {
      *to = __builtin_amdgcn_raw_buffer_load_b8(resource_, at, 0, kHow);
    }
  }

  template <int N>
  __device__ void store(const unsigned char* from, int at, number<N>) const {
    if constexpr (N == 16) {
      ext_vector_t<unsigned, 4> words;
      __builtin_memcpy(&words, from, N);
      __builtin_amdgcn_raw_buffer_store_b128(words, resource_, at, 0, kHow);
    } else if constexpr (N == 8) {
      ext_vector_t<unsigned, 2> words;
      __builtin_memcpy(&words, from, N);
      __builtin_amdgcn_raw_buffer_store_b64(words, resource_, at, 0, kHow);
    } else if constexpr (N == 4) {
      unsigned word;
      __builtin_memcpy(&word, from, N);
      __builtin_amdgcn_raw_buffer_store_b32(word, resource_, at, 0, kHow);
    } else if constexpr (N == 2) {
      unsigned short half;
      __builtin_memcpy(&half, from, N);
      __builtin_amdgcn_raw_buffer_store_b16(half, resource_, at, 0, kHow);
    } else {
      __builtin_amdgcn_raw_buffer_store_b8(*from, resource_, at, 0, kHow);
    }
  }

  __amdgpu_buffer_rsrc_t resource_;
};

template <address_space_enum, amd_buffer_coherence_enum Coherence = amd_buffer_coherence_enum::coherence_default,
          typename T>
__device__ auto make_buffer_view(T* data, int64_t count) {
  return buffer_view<T, Coherence>(data, count);
}


__device__ inline float exp(float x) { return ::expf(x); }

}  // namespace stand_in
