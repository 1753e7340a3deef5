// 2^x, log2, reciprocals, square roots, sine and cosine of revolutions.
//
// The hardware gives about 1 ulp (f32, f16) and approximations of some 2^-29 for f64; which bits is not documented. Here every
// result is the correctly rounded one up to the error of an f64 computation (below 2^-45 relative): at most 0.5001 ulp.
// The f32 forms of exp, log, rcp, rsq and sqrt flush denormals whatever MODE says: LLVM scales around them for that reason.
// The f16 and f64 forms keep denormals.
#include "vector_float.h"

namespace apb::emu {
namespace {

constexpr float kSmallestNormal = 0x1p-126f;

inline float flushed(float value) {
  return __builtin_fabsf(value) < kSmallestNormal ? __builtin_copysignf(0.0f, value) : value;
}

inline double power_of_two(i32 exponent) { return as_f64(static_cast<u64>(static_cast<i64>(exponent) + 1023) << 52); }

// 2^x: Taylor of e^t for |t| <= ln(2) / 2, twelve terms.
inline double exp2_of(double x) {
  double limited = x < -1000.0 ? -1000.0 : x;
  limited = limited > 1000.0 ? 1000.0 : limited;
  limited = x == x ? limited : 0.0;
  const double whole = __builtin_roundeven(limited);
  const double t = (limited - whole) * 0x1.62e42fefa39efp-1;
  double sum = 1.0 / 479001600;
  sum = sum * t + 1.0 / 39916800;
  sum = sum * t + 1.0 / 3628800;
  sum = sum * t + 1.0 / 362880;
  sum = sum * t + 1.0 / 40320;
  sum = sum * t + 1.0 / 5040;
  sum = sum * t + 1.0 / 720;
  sum = sum * t + 1.0 / 120;
  sum = sum * t + 1.0 / 24;
  sum = sum * t + 1.0 / 6;
  sum = sum * t + 0.5;
  sum = sum * t + 1.0;
  sum = sum * t + 1.0;
  const double result = sum * power_of_two(static_cast<i32>(whole));
  return x == x ? result : x;
}

// log2: m in [sqrt(1/2), sqrt(2)), then the series of atanh((m - 1) / (m + 1)).
inline double log2_of(double x) {
  const u64 bits = bits_of(x);
  u64 mantissa = (bits & 0x000fffffffffffff) | 0x3ff0000000000000;
  i32 exponent = static_cast<i32>(bits >> 52 & 0x7ff) - 1023;
  const bool upper = mantissa > 0x3ff6a09e667f3bcd;
  mantissa -= upper ? 0x0010000000000000 : 0;
  exponent += upper ? 1 : 0;
  const double m = as_f64(mantissa), s = (m - 1.0) / (m + 1.0), s2 = s * s;
  double sum = 1.0 / 19;
  sum = sum * s2 + 1.0 / 17;
  sum = sum * s2 + 1.0 / 15;
  sum = sum * s2 + 1.0 / 13;
  sum = sum * s2 + 1.0 / 11;
  sum = sum * s2 + 1.0 / 9;
  sum = sum * s2 + 1.0 / 7;
  sum = sum * s2 + 1.0 / 5;
  sum = sum * s2 + 1.0 / 3;
  sum = sum * s2 + 1.0;
  double result = static_cast<double>(exponent) + s * sum * 0x1.71547652b82fep+1;
  result = x == 0.0 ? -__builtin_inf() : result;
  result = x < 0.0 ? __builtin_nan("") : result;
  result = x == __builtin_inf() ? x : result;
  return x == x ? result : x;
}

// sin(2 pi x), or with `quarter` 1 the cosine. Quarter turns are exact. AMD's pseudocode limits the domain nowhere; the
// reduction is exact for every x.
template <int Quarter>
inline double sine_of_turns(double x) {
  const double rest = x - __builtin_roundeven(x);  // infinity: NaN
  const double turns = rest == rest ? rest * 4.0 : 0.0;
  const double nearest = __builtin_roundeven(turns);
  const i32 quadrant = static_cast<i32>(nearest) + Quarter;
  const double t = (turns - nearest) * 0x1.921fb54442d18p+0, t2 = t * t;
  double sine = -1.0 / 1307674368000;
  sine = sine * t2 + 1.0 / 6227020800;
  sine = sine * t2 - 1.0 / 39916800;
  sine = sine * t2 + 1.0 / 362880;
  sine = sine * t2 - 1.0 / 5040;
  sine = sine * t2 + 1.0 / 120;
  sine = sine * t2 - 1.0 / 6;
  sine = sine * t2 * t + t;
  double cosine = 1.0 / 20922789888000;
  cosine = cosine * t2 - 1.0 / 87178291200;
  cosine = cosine * t2 + 1.0 / 479001600;
  cosine = cosine * t2 - 1.0 / 3628800;
  cosine = cosine * t2 + 1.0 / 40320;
  cosine = cosine * t2 - 1.0 / 720;
  cosine = cosine * t2 + 1.0 / 24;
  cosine = cosine * t2 - 0.5;
  cosine = cosine * t2 + 1.0;
  const double value = quadrant & 1 ? cosine : sine;
  const double result = quadrant & 2 ? 0.0 - value : value;
  const double known = rest == rest ? result : rest;
  return Quarter == 0 && x == 0.0 ? x : known;
}

constexpr auto kExpF32 = [](float a) { return flushed(static_cast<float>(exp2_of(static_cast<double>(a)))); };
constexpr auto kLogF32 = [](float a) { return static_cast<float>(log2_of(static_cast<double>(flushed(a)))); };
constexpr auto kRcpF32 = [](float a) { return flushed(1.0f / flushed(a)); };
constexpr auto kRsqF32 = [](float a) {
  return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(flushed(a))));
};
constexpr auto kSqrtF32 = [](float a) { return __builtin_sqrtf(flushed(a)); };
constexpr auto kSinF32 = [](float a) { return static_cast<float>(sine_of_turns<0>(static_cast<double>(a))); };
constexpr auto kCosF32 = [](float a) { return static_cast<float>(sine_of_turns<1>(static_cast<double>(a))); };

constexpr auto kRcpF64 = [](double a) { return 1.0 / a; };
constexpr auto kRsqF64 = [](double a) { return 1.0 / __builtin_sqrt(a); };
constexpr auto kSqrtF64 = [](double a) { return __builtin_sqrt(a); };

// Not exact operations: to odd, so that f16 is reached by one rounding.
constexpr auto kExpF16 = [](float a) { return f64_to_f32_odd(exp2_of(static_cast<double>(a))); };
constexpr auto kLogF16 = [](float a) { return f64_to_f32_odd(log2_of(static_cast<double>(a))); };
constexpr auto kRcpF16 = [](float a) { return 1.0f / a; };
constexpr auto kRsqF16 = [](float a) { return f64_to_f32_odd(1.0 / __builtin_sqrt(static_cast<double>(a))); };
constexpr auto kSqrtF16 = [](float a) { return __builtin_sqrtf(a); };
constexpr auto kSinF16 = [](float a) { return f64_to_f32_odd(sine_of_turns<0>(static_cast<double>(a))); };
constexpr auto kCosF16 = [](float a) { return f64_to_f32_odd(sine_of_turns<1>(static_cast<double>(a))); };

constexpr VectorEntry kEntries[] = {
    {Opcode::V_EXP_F32, arithmetic<Single, 1, kExpF32>},
    {Opcode::V_LOG_F32, arithmetic<Single, 1, kLogF32>},
    {Opcode::V_EXP_LEGACY_F32, arithmetic<Single, 1, kExpF32>},
    {Opcode::V_LOG_LEGACY_F32, arithmetic<Single, 1, kLogF32>},
    {Opcode::V_RCP_F32, arithmetic<Single, 1, kRcpF32>},
    {Opcode::V_RCP_IFLAG_F32, arithmetic<Single, 1, kRcpF32>},  // differs in the exception flags only
    {Opcode::V_RSQ_F32, arithmetic<Single, 1, kRsqF32>},
    {Opcode::V_SQRT_F32, arithmetic<Single, 1, kSqrtF32>},
    {Opcode::V_SIN_F32, arithmetic<Single, 1, kSinF32>},
    {Opcode::V_COS_F32, arithmetic<Single, 1, kCosF32>},
    {Opcode::V_RCP_F64, arithmetic<Double, 1, kRcpF64>},
    {Opcode::V_RSQ_F64, arithmetic<Double, 1, kRsqF64>},
    {Opcode::V_SQRT_F64, arithmetic<Double, 1, kSqrtF64>},
    {Opcode::V_EXP_F16, arithmetic_f16<1, kExpF16>},
    {Opcode::V_LOG_F16, arithmetic_f16<1, kLogF16>},
    {Opcode::V_RCP_F16, arithmetic_f16<1, kRcpF16>},
    {Opcode::V_RSQ_F16, arithmetic_f16<1, kRsqF16>},
    {Opcode::V_SQRT_F16, arithmetic_f16<1, kSqrtF16>},
    {Opcode::V_SIN_F16, arithmetic_f16<1, kSinF16>},
    {Opcode::V_COS_F16, arithmetic_f16<1, kCosF16>},
};

}  // namespace

std::span<const VectorEntry> vector_float_transcendental() { return kEntries; }

}  // namespace apb::emu
