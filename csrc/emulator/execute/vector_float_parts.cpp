// Exponent and mantissa, ldexp, and the cube map coordinates.
#include "vector_float.h"

namespace apb::emu {
namespace {

// value = mantissa * 2^exponent with 1/2 <= |mantissa| < 1, denormals normalised; zero gives 0 and 0, infinities and NaNs
// exponent 0 and themselves. (AMD's pseudocode reads the raw field; LLVM's frexp relies on this for denormals and zero.)
template <class T>
inline i32 exponent_of(typename T::Bits bits) {
  const auto size = bits & T::kMagnitude;
  if (size == 0 || size >= T::kInfinity) return 0;
  const i32 field = static_cast<i32>(size >> T::kMantissaBits);
  if (field) return field - T::kBias + 1;
  return std::bit_width(size) - T::kMantissaBits - T::kBias + 1;
}

template <class T>
inline typename T::Bits mantissa_of(typename T::Bits bits) {
  using Bits = typename T::Bits;
  Bits size = bits & T::kMagnitude;
  const Bits sign = bits ^ size;
  if (size == 0 || size >= T::kInfinity) return bits;
  if (!(size >> T::kMantissaBits)) size <<= T::kMantissaBits + 1 - std::bit_width(size);
  const Bits fraction = size & ((Bits{1} << T::kMantissaBits) - 1);
  return sign | static_cast<Bits>(T::kBias - 1) << T::kMantissaBits | fraction;
}

template <class T, u32 Mask>
void frexp_exponent(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane)
    call.out[lane] = static_cast<u32>(exponent_of<T>(T::bits(call.source[0], lane))) & Mask;
}
template <class T>
void frexp_mantissa(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane) T::put_bits(call.out, lane, mantissa_of<T>(T::bits(call.source[0], lane)));
}

inline double scale(i32 exponent) { return as_f64(static_cast<u64>(static_cast<i64>(exponent) + 1023) << 52); }
inline i32 limited(i32 value, i32 limit) { return value < -limit ? -limit : value > limit ? limit : value; }

// Exact in f64, one rounding to f32.
void ldexp_f32(VectorCall& call) {
  u32* __restrict out = call.out;
  const u32 *value = call.source[0], *exponent = call.source[1];
  u32 unordered = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const double wide =
        static_cast<double>(as_f32(value[lane])) * scale(limited(static_cast<i32>(exponent[lane]), 300));
    out[lane] = bits_of(static_cast<float>(wide));
    unordered |= wide != wide;
  }
  if (unordered) settle_nans<Single, 1>(call.source, out);
}

void ldexp_f64(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane) {
    Double::put(call.out, lane,
                std::ldexp(Double::get(call.source[0], lane), limited(static_cast<i32>(call.source[1][lane]), 4096)));
  }
  settle_nans<Double, 1>(call.source, call.out);
}

// The exponent is the i16 in the low half. Exact in f32: 2^-24 * 2^-100 is still normal.
void ldexp_f16(VectorCall& call) {
  alignas(64) u32 wide[kLanes], result[kLanes];
  f16_row_to_f32(call.source[0], wide);
  for (int lane = 0; lane < kLanes; ++lane) {
    const i32 exponent = limited(static_cast<i16>(call.source[1][lane]), 100);
    result[lane] = bits_of(as_f32(wide[lane]) * as_f32(static_cast<u32>(exponent + 127) << 23));
  }
  const u32* const rows[1] = {wide};
  settle_nans<Single, 1>(rows, result);
  f32_row_to_f16(result, call.out);
  if (call.mode.fp16_overflow()) [[unlikely]]
    keep_finite_f16<1>(call);
}

// The face of (x, y, z): 0, 1 = +x, -x; 2, 3 = +y, -y; 4, 5 = +z, -z.
enum class Axis { X, Y, Z };
inline Axis major(float x, float y, float z) {
  if (std::fabs(z) >= std::fabs(x) && std::fabs(z) >= std::fabs(y)) return Axis::Z;
  return std::fabs(y) >= std::fabs(x) ? Axis::Y : Axis::X;
}

template <auto Coordinate>
void cube(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const float x = as_f32(call.source[0][lane]), y = as_f32(call.source[1][lane]), z = as_f32(call.source[2][lane]);
    call.out[lane] = bits_of(Coordinate(x, y, z));
  }
}

constexpr auto kCubeFace = [](float x, float y, float z) {
  const Axis axis = major(x, y, z);
  if (axis == Axis::Z) return z < 0.0f ? 5.0f : 4.0f;
  if (axis == Axis::Y) return y < 0.0f ? 3.0f : 2.0f;
  return x < 0.0f ? 1.0f : 0.0f;
};
constexpr auto kCubeS = [](float x, float y, float z) {
  const Axis axis = major(x, y, z);
  if (axis == Axis::Z) return z < 0.0f ? -x : x;
  if (axis == Axis::Y) return x;
  return x < 0.0f ? z : -z;
};
constexpr auto kCubeT = [](float x, float y, float z) {
  const Axis axis = major(x, y, z);
  if (axis == Axis::Y) return y < 0.0f ? -z : z;
  return -y;
};
constexpr auto kCubeMajor = [](float x, float y, float z) {
  const Axis axis = major(x, y, z);
  return 2.0f * (axis == Axis::Z ? z : axis == Axis::Y ? y : x);
};

constexpr VectorEntry kEntries[] = {
    {Opcode::V_FREXP_EXP_I32_F32, frexp_exponent<Single, 0xffffffff>},
    {Opcode::V_FREXP_EXP_I32_F64, frexp_exponent<Double, 0xffffffff>},
    {Opcode::V_FREXP_EXP_I16_F16, frexp_exponent<Half, 0xffff>},
    {Opcode::V_FREXP_MANT_F32, frexp_mantissa<Single>},
    {Opcode::V_FREXP_MANT_F64, frexp_mantissa<Double>},
    {Opcode::V_FREXP_MANT_F16, frexp_mantissa<Half>},
    {Opcode::V_LDEXP_F32, ldexp_f32},
    {Opcode::V_LDEXP_F64, ldexp_f64},
    {Opcode::V_LDEXP_F16, ldexp_f16},
    {Opcode::V_CUBEID_F32, cube<kCubeFace>},
    {Opcode::V_CUBESC_F32, cube<kCubeS>},
    {Opcode::V_CUBETC_F32, cube<kCubeT>},
    {Opcode::V_CUBEMA_F32, cube<kCubeMajor>},
};

}  // namespace

std::span<const VectorEntry> vector_float_parts() { return kEntries; }

}  // namespace apb::emu
