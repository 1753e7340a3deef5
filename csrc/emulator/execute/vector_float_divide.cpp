// The steps of IEEE division (v_div_scale, v_div_fmas, v_div_fixup) and v_trig_preop.
//
// AMD's pseudocode for the first two cannot be what the hardware does: v_div_fmas would multiply by 2^32 (2^64) although
// v_div_scale scales by 2^64 (2^128), and only upwards. Here v_div_fmas undoes exactly what v_div_scale did: up when the
// quotient estimate (S2) is at least 2, else down. LLVM's expansion of a / b then gives the correctly rounded quotient.
#include <limits>

#include "vector_float.h"

namespace apb::emu {
namespace {

template <class T>
inline i32 exponent_field(typename T::Bits bits) {
  return static_cast<i32>((bits & T::kMagnitude) >> T::kMantissaBits);
}

template <class T> struct Division;
template <> struct Division<Single> {
  static constexpr int kScale = 64, kFar = 96, kTiny = 23, kUnderflow = -150;
  static constexpr float kSmallestNormal = 0x1p-126f, kHuge = 0x1p126f;
};
template <> struct Division<Double> {
  static constexpr int kScale = 128, kFar = 768, kTiny = 53, kUnderflow = -1075;
  static constexpr double kSmallestNormal = 0x1p-1022, kHuge = 0x1p1022;
};

// Scales S0, which is the denominator S1 or the numerator S2, so that the Newton steps neither overflow nor lose bits.
// `post` says whether v_div_fmas has to undo it.
template <class T>
inline typename T::Value scaled(typename T::Value s0, typename T::Value s1, typename T::Value s2, bool& post) {
  using D = Division<T>;
  using Value = typename T::Value;
  post = false;
  if (s2 == 0 || s1 == 0) return std::bit_cast<Value>(static_cast<typename T::Bits>(T::kDefaultNan));
  const i32 numerator = exponent_field<T>(bits_of(s2)), denominator = exponent_field<T>(bits_of(s1));
  const auto size1 = std::fabs(s1), quotient = std::fabs(s2 / s1);
  const bool finite = size1 <= std::numeric_limits<Value>::max();
  const bool small_reciprocal = finite && size1 > D::kHuge;
  const bool small_quotient = finite && quotient < D::kSmallestNormal;
  if (numerator - denominator >= D::kFar) {  // the quotient is near the largest number: scale the denominator up
    post = true;
    return s0 == s1 ? std::ldexp(s0, D::kScale) : s0;
  }
  if (size1 < D::kSmallestNormal) return std::ldexp(s0, D::kScale);
  if (small_reciprocal && small_quotient) {
    post = true;  // AMD's text scales up here, which would overflow: 2^126 * 2^64
    return s0 == s1 ? std::ldexp(s0, -D::kScale) : s0;
  }
  if (small_reciprocal) return std::ldexp(s0, -D::kScale);
  if (small_quotient) {
    post = true;
    return s0 == s2 ? std::ldexp(s0, D::kScale) : s0;
  }
  if (numerator <= D::kTiny) return std::ldexp(s0, D::kScale);
  return s0;
}

template <class T>
void div_scale(VectorCall& call) {
  u64 mask = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    bool post = false;
    T::put(call.out, lane,
           scaled<T>(T::get(call.source[0], lane), T::get(call.source[1], lane), T::get(call.source[2], lane), post));
    mask |= static_cast<u64>(post) << lane;
  }
  call.mask_out = mask;
}

// Fused, scaled by 2^power, rounded once. The f64 sum of f32 is made odd by its own error, that of f64 has 113 bits and the same.
inline float fused_scaled(float a, float b, float c, int power) {
  const double product = static_cast<double>(a) * static_cast<double>(b), addend = static_cast<double>(c),
               sum = product + addend;
  const double part = sum - product, error = (product - (sum - part)) + (addend - part);
  u64 bits = bits_of(sum);
  if (error != 0 && error == error && !(bits & 1)) bits += (error > 0) == (sum > 0) ? 1 : static_cast<u64>(-1);
  return static_cast<float>(std::ldexp(as_f64(bits), power));
}
inline double fused_scaled(double a, double b, double c, int power) {
  using Wide = __float128;
  const Wide product = static_cast<Wide>(a) * static_cast<Wide>(b), addend = static_cast<Wide>(c),
             sum = product + addend;
  const Wide part = sum - product, error = (product - (sum - part)) + (addend - part);
  // 113 bits are not enough for 1 + 2^-53 + 2^-157: made odd, the sum does not look like a tie any more.
  auto bits = std::bit_cast<unsigned __int128>(sum);
  if (error != 0 && error == error && !(bits & 1))
    bits += (error > 0) == (sum > 0) ? 1 : static_cast<unsigned __int128>(-1);
  const Wide scale = power > 0 ? 0x1p128 : 0x1p-128;
  return static_cast<double>(std::bit_cast<Wide>(bits) * scale);
}

template <class T>
void div_fmas(VectorCall& call) {
  const u64 post = call.mask_in;
  over_lanes<T, 3>(call.source, call.out, [](auto a, auto b, auto c) {
    if constexpr (sizeof(a) == 8)
      return __builtin_fma(a, b, c);
    else
      return __builtin_fmaf(a, b, c);
  });
  if (!post) return;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(post >> lane & 1)) continue;
    const auto c = T::get(call.source[2], lane);
    const int power = exponent_field<T>(bits_of(c)) > T::kBias ? Division<T>::kScale : -Division<T>::kScale;
    T::put(call.out, lane, fused_scaled(T::get(call.source[0], lane), T::get(call.source[1], lane), c, power));
  }
  settle_nans<T, 3>(call.source, call.out);
}

// The IEEE result for special operands. The sign always comes from S1 (denominator) and S2 (numerator).
template <class T>
inline typename T::Bits fixed_up(typename T::Bits quotient, typename T::Bits denominator, typename T::Bits numerator) {
  using Bits = typename T::Bits;
  const Bits sign_bit = T::kMagnitude + 1;
  const Bits sign = (denominator ^ numerator) & sign_bit;
  const Bits d = denominator & T::kMagnitude, n = numerator & T::kMagnitude;
  if (n > T::kInfinity) return numerator | T::kQuiet;
  if (d > T::kInfinity) return denominator | T::kQuiet;
  if ((d == 0 && n == 0) || (d == T::kInfinity && n == T::kInfinity))
    return sign_bit | T::kDefaultNan;  // negative, as AMD writes it
  if (d == 0 || n == T::kInfinity) return sign | T::kInfinity;
  if (d == T::kInfinity || n == 0) return sign;
  if constexpr (T::kMantissaBits > 10) {
    if (exponent_field<T>(n) - exponent_field<T>(d) < Division<T>::kUnderflow) return sign;
    // A quotient beyond the largest number ends as inf - inf in the last Newton step. The hardware gives infinity (measured by
    // tinygrad on RDNA3; AMD's text does not say); with NaN, LLVM's division would be wrong for every overflow.
    if (is_nan<T>(quotient)) return sign | T::kInfinity;
  }
  return sign | (quotient & T::kMagnitude);
}

template <class T>
void div_fixup(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane) {
    T::put_bits(
        call.out, lane,
        fixed_up<T>(T::bits(call.source[0], lane), T::bits(call.source[1], lane), T::bits(call.source[2], lane)));
  }
}

// The 1201 bits behind the point of 2 / pi, from the top.
constexpr u64 kTwoOverPi[20] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
                                0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
                                0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
                                0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
                                0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b0000, 0};

// Segment S1 of 53 bits of 2 / pi, for the argument reduction of S0.
void trig_preop(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const i32 exponent = exponent_field<Double>(get64(call.source[0], lane));
    i32 shift = static_cast<i32>(call.source[1][lane] & 31) * 53;
    if (exponent > 1077) shift += exponent - 1077;
    u64 bits = 0;
    if (const u32 word = static_cast<u32>(shift) / 64, bit = static_cast<u32>(shift) % 64; word < 20) {
      bits = kTwoOverPi[word] << bit;
      if (bit && word + 1 < 20) bits |= kTwoOverPi[word + 1] >> (64 - bit);
    }
    const i32 scale = -53 - shift + (exponent >= 1968 ? 128 : 0);
    Double::put(call.out, lane, std::ldexp(static_cast<double>(bits >> 11), scale));
  }
}

constexpr VectorEntry kEntries[] = {
    {Opcode::V_DIV_SCALE_F32, div_scale<Single>, Mask::Writes},
    {Opcode::V_DIV_SCALE_F64, div_scale<Double>, Mask::Writes},
    {Opcode::V_DIV_FMAS_F32, div_fmas<Single>, Mask::Reads},
    {Opcode::V_DIV_FMAS_F64, div_fmas<Double>, Mask::Reads},
    {Opcode::V_DIV_FIXUP_F32, div_fixup<Single>},
    {Opcode::V_DIV_FIXUP_F64, div_fixup<Double>},
    {Opcode::V_DIV_FIXUP_LEGACY_F16, div_fixup<Half>},
    {Opcode::V_DIV_FIXUP_F16, div_fixup<Half>, Mask::None, false, true},
    {Opcode::V_TRIG_PREOP_F64, trig_preop},
};

}  // namespace

std::span<const VectorEntry> vector_float_divide() { return kEntries; }

}  // namespace apb::emu
