// Arithmetic that IEEE 754 defines to the last bit: add, multiply, fused and unfused multiply-add, rounding to integers.
#include "vector_float.h"

#include <vector>

namespace apb::emu {
namespace {

constexpr auto kAdd = [](auto a, auto b) { return a + b; };
constexpr auto kSubtract = [](auto a, auto b) { return a - b; };
constexpr auto kSubtractReversed = [](auto a, auto b) { return b - a; };
constexpr auto kMultiply = [](auto a, auto b) { return a * b; };
constexpr auto kFusedF32 = [](float a, float b, float c) { return __builtin_fmaf(a, b, c); };
constexpr auto kFusedF64 = [](double a, double b, double c) { return __builtin_fma(a, b, c); };
// The product of two f16 is exact in f64, so the sum is the only rounding there, and it is to odd for the one to f16.
constexpr auto kFusedF16 = [](float a, float b, float c) {
  return f64_to_f32_odd(static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c));
};
// v_mad_f16, v_mac_f16: the product is rounded to f16 before the addition.
constexpr auto kUnfusedF16 = [](float a, float b, float c) {
  return static_cast<float>(static_cast<_Float16>(a * b)) + c;
};
// DX9: zero times anything is +0.
constexpr auto kMultiplyLegacy = [](float a, float b) { return a == 0.0f || b == 0.0f ? 0.0f : a * b; };

constexpr auto kTruncate = [](auto a) {
  if constexpr (sizeof(a) == 8)
    return __builtin_trunc(a);
  else
    return __builtin_truncf(a);
};
constexpr auto kCeiling = [](auto a) {
  if constexpr (sizeof(a) == 8)
    return __builtin_ceil(a);
  else
    return __builtin_ceilf(a);
};
constexpr auto kFloorOf = [](auto a) {
  if constexpr (sizeof(a) == 8)
    return __builtin_floor(a);
  else
    return __builtin_floorf(a);
};
constexpr auto kNearestEven = [](auto a) {
  if constexpr (sizeof(a) == 8)
    return __builtin_roundeven(a);
  else
    return __builtin_roundevenf(a);
};
// The instruction never returns 1: LLVM folds fmin(x - floor(x), the largest value below 1) into it (OpenCL's fract).
constexpr auto kFractionF32 = [](float a) {
  const float rest = a - __builtin_floorf(a);
  return rest >= 1.0f ? 0x1.fffffep-1f : rest;
};
constexpr auto kFractionF64 = [](double a) {
  const double rest = a - __builtin_floor(a);
  return rest >= 1.0 ? 0x1.fffffffffffffp-1 : rest;
};
constexpr auto kFractionF16 = [](float a) {
  const float rest = a - __builtin_floorf(a);
  return rest > 0x1.ffcp-1f ? 0x1.ffcp-1f : rest;
};

constexpr VectorEntry kEntries[] = {
    {Opcode::V_ADD_F32, arithmetic<Single, 2, kAdd>},
    {Opcode::V_SUB_F32, arithmetic<Single, 2, kSubtract>},
    {Opcode::V_SUBREV_F32, arithmetic<Single, 2, kSubtractReversed>},
    {Opcode::V_MUL_F32, arithmetic<Single, 2, kMultiply>},
    {Opcode::V_MUL_LEGACY_F32, arithmetic<Single, 2, kMultiplyLegacy>},
    {Opcode::V_FMA_F32, arithmetic<Single, 3, kFusedF32>},
    {Opcode::V_FMAC_F32, arithmetic<Single, 3, kFusedF32>, Mask::None, true},
    {Opcode::V_FMAMK_F32, arithmetic<Single, 3, kFusedF32>},
    {Opcode::V_FMAAK_F32, arithmetic<Single, 3, kFusedF32>},
    {Opcode::V_ADD_F64, arithmetic<Double, 2, kAdd>},
    {Opcode::V_MUL_F64, arithmetic<Double, 2, kMultiply>},
    {Opcode::V_FMA_F64, arithmetic<Double, 3, kFusedF64>},
    {Opcode::V_FMAC_F64, arithmetic<Double, 3, kFusedF64>, Mask::None, true},
    {Opcode::V_ADD_F16, arithmetic_f16<2, kAdd>},
    {Opcode::V_SUB_F16, arithmetic_f16<2, kSubtract>},
    {Opcode::V_SUBREV_F16, arithmetic_f16<2, kSubtractReversed>},
    {Opcode::V_MUL_F16, arithmetic_f16<2, kMultiply>},
    // AMD's pseudocode: mac, madmk, madak and the legacy forms write zeros above their result, v_mad_f16 and v_fma_f16 keep it.
    {Opcode::V_MAC_F16, arithmetic_f16<3, kUnfusedF16>, Mask::None, true},
    {Opcode::V_MADMK_F16, arithmetic_f16<3, kUnfusedF16>},
    {Opcode::V_MADAK_F16, arithmetic_f16<3, kUnfusedF16>},
    {Opcode::V_MAD_LEGACY_F16, arithmetic_f16<3, kUnfusedF16>},
    {Opcode::V_MAD_F16, arithmetic_f16<3, kUnfusedF16>, Mask::None, false, true},
    {Opcode::V_FMA_LEGACY_F16, arithmetic_f16<3, kFusedF16>},
    {Opcode::V_FMA_F16, arithmetic_f16<3, kFusedF16>, Mask::None, false, true},

    {Opcode::V_TRUNC_F32, arithmetic<Single, 1, kTruncate>},
    {Opcode::V_CEIL_F32, arithmetic<Single, 1, kCeiling>},
    {Opcode::V_FLOOR_F32, arithmetic<Single, 1, kFloorOf>},
    {Opcode::V_RNDNE_F32, arithmetic<Single, 1, kNearestEven>},
    {Opcode::V_FRACT_F32, arithmetic<Single, 1, kFractionF32>},
    {Opcode::V_TRUNC_F64, arithmetic<Double, 1, kTruncate>},
    {Opcode::V_CEIL_F64, arithmetic<Double, 1, kCeiling>},
    {Opcode::V_FLOOR_F64, arithmetic<Double, 1, kFloorOf>},
    {Opcode::V_RNDNE_F64, arithmetic<Double, 1, kNearestEven>},
    {Opcode::V_FRACT_F64, arithmetic<Double, 1, kFractionF64>},
    {Opcode::V_TRUNC_F16, arithmetic_f16<1, kTruncate>},
    {Opcode::V_CEIL_F16, arithmetic_f16<1, kCeiling>},
    {Opcode::V_FLOOR_F16, arithmetic_f16<1, kFloorOf>},
    {Opcode::V_RNDNE_F16, arithmetic_f16<1, kNearestEven>},
    {Opcode::V_FRACT_F16, arithmetic_f16<1, kFractionF16>},
};

}  // namespace

std::span<const VectorEntry> vector_float_arithmetic() { return kEntries; }

std::span<const VectorEntry> vector_float_table() {
  static const std::vector<VectorEntry> table = [] {
    std::vector<VectorEntry> all;
    for (const auto part : {vector_float_arithmetic(), vector_float_minmax(), vector_float_transcendental(),
                            vector_float_parts(), vector_float_divide()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return table;
}

}  // namespace apb::emu
