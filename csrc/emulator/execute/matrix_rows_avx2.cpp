// matrix_rows.h for every processor that the library runs on.
#include <immintrin.h>

#include "matrix_halves.h"
#include "matrix_rows.h"

namespace apb::emu {
namespace {

struct Avx2 {
  using Ints = __m256i;
  using Floats = __m256;
  static constexpr int kWidth = 8, kTogether = 4;

#define APB_VECTOR [[gnu::always_inline]] static inline
  APB_VECTOR Ints all(int value) { return _mm256_set1_epi32(value); }
  APB_VECTOR Floats all(float value) { return _mm256_set1_ps(value); }
  APB_VECTOR Ints load(const std::uint32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  APB_VECTOR Floats load(const float* p) { return _mm256_loadu_ps(p); }
  APB_VECTOR void store(std::uint32_t* p, Ints value) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), value); }
  APB_VECTOR Ints as_ints(Floats value) { return _mm256_castps_si256(value); }
  APB_VECTOR Floats as_floats(Ints value) { return _mm256_castsi256_ps(value); }
  APB_VECTOR Ints add16(Ints a, Ints b) { return _mm256_add_epi16(a, b); }
  APB_VECTOR Ints sub16(Ints a, Ints b) { return _mm256_sub_epi16(a, b); }
  APB_VECTOR Ints max16(Ints a, Ints b) { return _mm256_max_epi16(a, b); }
  APB_VECTOR Ints swap_halves(Ints a) {
    return _mm256_or_si256(_mm256_slli_epi32(a, 16), _mm256_srli_epi32(a, 16));  // one shuffle for the compiler
  }
  APB_VECTOR Ints add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
  APB_VECTOR Ints sub(Ints a, Ints b) { return _mm256_sub_epi32(a, b); }
  APB_VECTOR Ints bits_and(Ints a, Ints b) { return _mm256_and_si256(a, b); }
  APB_VECTOR Ints bits_or(Ints a, Ints b) { return _mm256_or_si256(a, b); }
  template <int By>
  APB_VECTOR Ints left(Ints a) {
    return _mm256_slli_epi32(a, By);
  }
  template <int By>
  APB_VECTOR Ints right_unsigned(Ints a) {
    return _mm256_srli_epi32(a, By);
  }
  template <int By>
  APB_VECTOR Ints right_signed(Ints a) {
    return _mm256_srai_epi32(a, By);
  }
  APB_VECTOR Ints left(Ints a, Ints by) { return _mm256_sllv_epi32(a, by); }
  APB_VECTOR Ints right(Ints a, Ints by) { return _mm256_srav_epi32(a, by); }  // 32 and more, unsigned: all sign
  APB_VECTOR Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  APB_VECTOR Ints truncate(Floats a) { return _mm256_cvttps_epi32(a); }
  APB_VECTOR Ints floor_to_ints(Floats a) { return _mm256_cvttps_epi32(_mm256_floor_ps(a)); }
  APB_VECTOR Floats to_floats(Ints a) { return _mm256_cvtepi32_ps(a); }
  APB_VECTOR Ints magnitude(Floats a) { return bits_and(as_ints(a), all(0x7fffffff)); }
  APB_VECTOR Ints min_unsigned(Ints a, Ints b) { return _mm256_min_epu32(a, b); }
  APB_VECTOR Ints max(Ints a, Ints b) { return _mm256_max_epi32(a, b); }
  APB_VECTOR Ints zero_below_half(Ints a, Floats by) {
    return bits_and(a, _mm256_cmpgt_epi32(magnitude(by), all(0x3f000000 - 1)));
  }
  APB_VECTOR bool any(Ints a) { return !_mm256_testz_si256(a, a); }
#undef APB_VECTOR
};

}  // namespace

std::uint32_t multiply_rows_avx2(const BlockCall& call, FusedKind kind) { return multiply_rows<Avx2>(call, kind); }

ExponentRange unpack_16_avx2(Element element, const BlockSource& source, float* values, std::uint32_t* pairs) {
  return unpack_16<Avx2>(element, source, values, pairs);
}

}  // namespace apb::emu
