// matrix_rows.h for processors with AVX-512 (x86-64-v4). The only file that is compiled for them: it must define
// nothing that another file could be linked to, so no inline function of a library is called in it.
#include <immintrin.h>

#include "matrix_halves.h"
#include "matrix_rows.h"

namespace apb::emu {
namespace {

struct Avx512 {
  using Ints = __m512i;
  using Floats = __m512;
  static constexpr int kWidth = 16, kTogether = 4;

#define APB_VECTOR [[gnu::always_inline]] static inline
  APB_VECTOR Ints all(int value) { return _mm512_set1_epi32(value); }
  APB_VECTOR Floats all(float value) { return _mm512_set1_ps(value); }
  APB_VECTOR Ints load(const std::uint32_t* p) { return _mm512_loadu_si512(p); }
  APB_VECTOR Floats load(const float* p) { return _mm512_loadu_ps(p); }
  APB_VECTOR void store(std::uint32_t* p, Ints value) { _mm512_storeu_si512(p, value); }
  APB_VECTOR Ints as_ints(Floats value) { return _mm512_castps_si512(value); }
  APB_VECTOR Floats as_floats(Ints value) { return _mm512_castsi512_ps(value); }
  APB_VECTOR Ints add16(Ints a, Ints b) { return _mm512_add_epi16(a, b); }
  APB_VECTOR Ints sub16(Ints a, Ints b) { return _mm512_sub_epi16(a, b); }
  APB_VECTOR Ints max16(Ints a, Ints b) { return _mm512_max_epi16(a, b); }
  APB_VECTOR Ints swap_halves(Ints a) { return _mm512_rol_epi32(a, 16); }
  APB_VECTOR Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  APB_VECTOR Ints sub(Ints a, Ints b) { return _mm512_sub_epi32(a, b); }
  APB_VECTOR Ints bits_and(Ints a, Ints b) { return _mm512_and_si512(a, b); }
  APB_VECTOR Ints bits_or(Ints a, Ints b) { return _mm512_or_si512(a, b); }
  template <int By>
  APB_VECTOR Ints left(Ints a) {
    return _mm512_slli_epi32(a, By);
  }
  template <int By>
  APB_VECTOR Ints right_unsigned(Ints a) {
    return _mm512_srli_epi32(a, By);
  }
  template <int By>
  APB_VECTOR Ints right_signed(Ints a) {
    return _mm512_srai_epi32(a, By);
  }
  APB_VECTOR Ints left(Ints a, Ints by) { return _mm512_sllv_epi32(a, by); }
  APB_VECTOR Ints right(Ints a, Ints by) { return _mm512_srav_epi32(a, by); }  // 32 and more, unsigned: all sign
  APB_VECTOR Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  APB_VECTOR Ints truncate(Floats a) { return _mm512_cvttps_epi32(a); }
  APB_VECTOR Ints floor_to_ints(Floats a) {
    return _mm512_cvt_roundps_epi32(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  }
  APB_VECTOR Floats to_floats(Ints a) { return _mm512_cvtepi32_ps(a); }
  APB_VECTOR Ints magnitude(Floats a) { return bits_and(as_ints(a), all(0x7fffffff)); }
  APB_VECTOR Ints min_unsigned(Ints a, Ints b) { return _mm512_min_epu32(a, b); }
  APB_VECTOR Ints max(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
  APB_VECTOR Ints zero_below_half(Ints a, Floats by) {
    return _mm512_maskz_mov_epi32(_mm512_cmp_epi32_mask(magnitude(by), all(0x3f000000), _MM_CMPINT_NLT), a);
  }
  APB_VECTOR bool any(Ints a) { return _mm512_test_epi32_mask(a, a) != 0; }
#undef APB_VECTOR
};

}  // namespace

std::uint32_t multiply_rows_avx512(const BlockCall& call, FusedKind kind) { return multiply_rows<Avx512>(call, kind); }

ExponentRange unpack_16_avx512(Element element, const BlockSource& source, float* values, std::uint32_t* pairs) {
  return unpack_16<Avx512>(element, source, values, pairs);
}

}  // namespace apb::emu
