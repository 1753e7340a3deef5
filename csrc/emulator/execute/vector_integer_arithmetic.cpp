// Addition and multiplication: 32 bit, 16 bit, 24 bit, 64 bit; carries; saturation when CLAMP is set.
#include "vector_integer.h"

namespace apb::emu {
namespace {

// The exact result as i64 becomes 16 or 32 bits: what fits, or with CLAMP the nearest value of the type.
enum class Type { U16, I16, U32, I32 };
template <Type Kind>
inline u32 stored(i64 exact, bool clamp) {
  constexpr i64 kLow = Kind == Type::I16 ? -0x8000 : Kind == Type::I32 ? -0x80000000ll : 0;
  constexpr i64 kHigh = Kind == Type::U16   ? 0xffff
                        : Kind == Type::I16 ? 0x7fff
                        : Kind == Type::U32 ? 0xffffffffll
                                            : 0x7fffffff;
  constexpr u32 kMask = Kind == Type::U16 || Kind == Type::I16 ? 0xffff : 0xffffffff;
  if (clamp) exact = exact < kLow ? kLow : exact > kHigh ? kHigh : exact;
  return static_cast<u32>(exact) & kMask;
}
template <Type Kind>
inline i64 loaded(u32 bits) {
  if constexpr (Kind == Type::U16) return bits & 0xffff;
  if constexpr (Kind == Type::I16) return static_cast<i16>(bits);
  if constexpr (Kind == Type::U32) return bits;
  return static_cast<i32>(bits);
}

// Types of the sources and of the result; `operation` on exact i64. The plain form is left to 32-bit vectors by the compiler
// because only the low bits of its result are used.
template <Type From, Type To, auto Operation>
void two(VectorCall& call) {
  const u32 *a = call.source[0], *b = call.source[1];
  u32* __restrict out = call.out;
  const auto loop = [&](bool clamp) __attribute__((always_inline)) {
    for (int lane = 0; lane < kLanes; ++lane)
      out[lane] = stored<To>(Operation(loaded<From>(a[lane]), loaded<From>(b[lane])), clamp);
  };
  if (call.instruction->clamp)
    loop(true);
  else
    loop(false);
}
template <Type From, Type Addend, Type To, auto Operation>
void three(VectorCall& call) {
  const u32 *a = call.source[0], *b = call.source[1], *c = call.source[2];
  u32* __restrict out = call.out;
  const auto loop = [&](bool clamp) __attribute__((always_inline)) {
    for (int lane = 0; lane < kLanes; ++lane) {
      out[lane] = stored<To>(Operation(loaded<From>(a[lane]), loaded<From>(b[lane]), loaded<Addend>(c[lane])), clamp);
    }
  };
  if (call.instruction->clamp)
    loop(true);
  else
    loop(false);
}

constexpr auto kAdd = [](i64 a, i64 b) { return a + b; };
constexpr auto kSubtract = [](i64 a, i64 b) { return a - b; };
constexpr auto kSubtractReversed = [](i64 a, i64 b) { return b - a; };
constexpr auto kMultiplyAdd = [](i64 a, i64 b, i64 c) { return a * b + c; };

inline i64 signed24(i64 value) { return static_cast<i32>(static_cast<u32>(value) << 8) >> 8; }
inline i64 unsigned24(i64 value) { return value & 0xffffff; }
constexpr auto kMultiplyAddSigned24 = [](i64 a, i64 b, i64 c) { return signed24(a) * signed24(b) + c; };
constexpr auto kMultiplyAddUnsigned24 = [](i64 a, i64 b, i64 c) { return unsigned24(a) * unsigned24(b) + c; };

constexpr auto kMultiplySigned24 = [](u32 a, u32 b) {
  return static_cast<u32>(static_cast<i32>(a << 8) >> 8) * static_cast<u32>(static_cast<i32>(b << 8) >> 8);
};
constexpr auto kMultiplyHighSigned24 = [](u32 a, u32 b) {
  return static_cast<u32>(static_cast<u64>(signed24(a) * signed24(b)) >> 32);
};
constexpr auto kMultiplyUnsigned24 = [](u32 a, u32 b) { return (a & 0xffffff) * (b & 0xffffff); };
constexpr auto kMultiplyHighUnsigned24 = [](u32 a, u32 b) {
  return static_cast<u32>((static_cast<u64>(a & 0xffffff) * (b & 0xffffff)) >> 32);
};
constexpr auto kMultiplyLow = [](u32 a, u32 b) { return a * b; };
constexpr auto kMultiplyHigh = [](u32 a, u32 b) { return static_cast<u32>((static_cast<u64>(a) * b) >> 32); };
constexpr auto kMultiplyHighSigned = [](u32 a, u32 b) {
  return static_cast<u32>(static_cast<u64>(static_cast<i64>(static_cast<i32>(a)) * static_cast<i32>(b)) >> 32);
};
constexpr auto kMultiplyLow16 = [](u32 a, u32 b) { return a * b; };

constexpr auto kAddThree = [](u32 a, u32 b, u32 c) { return a + b + c; };
constexpr auto kShiftAdd = [](u32 a, u32 by, u32 b) { return (a << (by & 31)) + b; };
constexpr auto kAddShift = [](u32 a, u32 b, u32 by) { return (a + b) << (by & 31); };
constexpr auto kExclusiveAdd = [](u32 a, u32 b, u32 c) { return (a ^ b) + c; };

// Carry and borrow. kind: 0 S0 + S1, 1 S0 - S1, 2 S1 - S0.
template <int Kind, bool CarriesIn>
void with_carry(VectorCall& call) {
  const u32* a = call.source[Kind == 2 ? 1 : 0];
  const u32* b = call.source[Kind == 2 ? 0 : 1];
  u32* __restrict out = call.out;
  alignas(64) u32 in[kLanes], carry_out[kLanes];
  if constexpr (CarriesIn) spread(call.mask_in, in);
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 x = a[lane], y = b[lane], carry = CarriesIn ? in[lane] & 1 : 0;
    const u32 result = Kind == 0 ? x + y + carry : x - y - carry;
    // The sign bit: what leaves bit 31 by the majority rule of a full adder or subtractor.
    carry_out[lane] = Kind == 0 ? (x & y) | ((x | y) & ~result) : (~x & y) | ((~x | y) & result);
    out[lane] = result;
  }
  call.mask_out = collect_signs(carry_out);
  if (!call.instruction->clamp) return;
  spread(call.mask_out, in);
  for (int lane = 0; lane < kLanes; ++lane) out[lane] = Kind == 0 ? out[lane] | in[lane] : out[lane] & ~in[lane];
}

// 32 x 32 + 64; the mask gets bit 64 of the exact sum.
template <bool IsSigned>
void multiply_add_64(VectorCall& call) {
  using Wide = __int128;
  u64 mask = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 a = call.source[0][lane], b = call.source[1][lane];
    const u64 c = get64(call.source[2], lane);
    Wide exact;
    if constexpr (IsSigned)
      exact = static_cast<Wide>(static_cast<i32>(a)) * static_cast<i32>(b) + static_cast<i64>(c);
    else
      exact = static_cast<Wide>(static_cast<u64>(a) * b) + c;
    mask |= static_cast<u64>(exact >> 64 & 1) << lane;
    if (call.instruction->clamp) {
      const Wide high = IsSigned ? static_cast<Wide>(INT64_MAX) : static_cast<Wide>(UINT64_MAX),
                 low = IsSigned ? static_cast<Wide>(INT64_MIN) : 0;
      exact = exact < low ? low : exact > high ? high : exact;
    }
    put64(call.out, lane, static_cast<u64>(exact));
  }
  call.mask_out = mask;
}

void shift_add_64(VectorCall& call) {
  const u32 *a = call.source[0], *by = call.source[1], *b = call.source[2];
  u32* __restrict out = call.out;
  for (int lane = 0; lane < kLanes; ++lane) put64(out, lane, (get64(a, lane) << (by[lane] & 7)) + get64(b, lane));
}

constexpr VectorEntry kEntries[] = {
    {Opcode::V_ADD_U32, two<Type::U32, Type::U32, kAdd>},
    {Opcode::V_SUB_U32, two<Type::U32, Type::U32, kSubtract>},
    {Opcode::V_SUBREV_U32, two<Type::U32, Type::U32, kSubtractReversed>},
    {Opcode::V_ADD_I32, two<Type::I32, Type::I32, kAdd>},
    {Opcode::V_SUB_I32, two<Type::I32, Type::I32, kSubtract>},
    {Opcode::V_ADD_U16, two<Type::U16, Type::U16, kAdd>},
    {Opcode::V_SUB_U16, two<Type::U16, Type::U16, kSubtract>},
    {Opcode::V_SUBREV_U16, two<Type::U16, Type::U16, kSubtractReversed>},
    {Opcode::V_ADD_I16, two<Type::I16, Type::I16, kAdd>, Mask::None, false, true},
    {Opcode::V_SUB_I16, two<Type::I16, Type::I16, kSubtract>, Mask::None, false, true},
    {Opcode::V_MUL_LO_U16, two_u16<kMultiplyLow16>},
    {Opcode::V_MAD_U16, three<Type::U16, Type::U16, Type::U16, kMultiplyAdd>, Mask::None, false, true},
    {Opcode::V_MAD_I16, three<Type::I16, Type::I16, Type::I16, kMultiplyAdd>, Mask::None, false, true},
    {Opcode::V_MAD_LEGACY_U16, three<Type::U16, Type::U16, Type::U16, kMultiplyAdd>},
    {Opcode::V_MAD_LEGACY_I16, three<Type::I16, Type::I16, Type::I16, kMultiplyAdd>},
    {Opcode::V_MAD_U32_U16, three<Type::U16, Type::U32, Type::U32, kMultiplyAdd>},
    {Opcode::V_MAD_I32_I16, three<Type::I16, Type::I32, Type::I32, kMultiplyAdd>},
    {Opcode::V_MAD_I32_I24, three<Type::U32, Type::I32, Type::I32, kMultiplyAddSigned24>},
    {Opcode::V_MAD_U32_U24, three<Type::U32, Type::U32, Type::U32, kMultiplyAddUnsigned24>},
    {Opcode::V_MUL_I32_I24, two_u32<kMultiplySigned24>},
    {Opcode::V_MUL_HI_I32_I24, two_u32<kMultiplyHighSigned24>},
    {Opcode::V_MUL_U32_U24, two_u32<kMultiplyUnsigned24>},
    {Opcode::V_MUL_HI_U32_U24, two_u32<kMultiplyHighUnsigned24>},
    {Opcode::V_MUL_LO_U32, two_u32<kMultiplyLow>},
    {Opcode::V_MUL_HI_U32, two_u32<kMultiplyHigh>},
    {Opcode::V_MUL_HI_I32, two_u32<kMultiplyHighSigned>},
    {Opcode::V_ADD3_U32, three_u32<kAddThree>},
    {Opcode::V_LSHL_ADD_U32, three_u32<kShiftAdd>},
    {Opcode::V_ADD_LSHL_U32, three_u32<kAddShift>},
    {Opcode::V_XAD_U32, three_u32<kExclusiveAdd>},
    {Opcode::V_LSHL_ADD_U64, shift_add_64},
    {Opcode::V_ADD_CO_U32, with_carry<0, false>, Mask::Writes},
    {Opcode::V_SUB_CO_U32, with_carry<1, false>, Mask::Writes},
    {Opcode::V_SUBREV_CO_U32, with_carry<2, false>, Mask::Writes},
    {Opcode::V_ADDC_CO_U32, with_carry<0, true>, Mask::ReadsWrites},
    {Opcode::V_SUBB_CO_U32, with_carry<1, true>, Mask::ReadsWrites},
    {Opcode::V_SUBBREV_CO_U32, with_carry<2, true>, Mask::ReadsWrites},
    {Opcode::V_MAD_U64_U32, multiply_add_64<false>, Mask::Writes},
    {Opcode::V_MAD_I64_I32, multiply_add_64<true>, Mask::Writes},
};

}  // namespace

std::span<const VectorEntry> vector_integer_arithmetic() { return kEntries; }

}  // namespace apb::emu
