// Addition and multiplication: 32 bit, 16 bit, 24 bit, 64 bit; carries; saturation when CLAMP is set.
#include "vector_integer.h"

namespace apb::emu {
namespace {

// The exact result as i64 becomes 16 or 32 bits: what fits, or with CLAMP the nearest value of the type.
enum class Type { u16, i16, u32, i32 };
template <Type type>
inline u32 stored(i64 exact, bool clamp) {
  constexpr i64 low = type == Type::i16 ? -0x8000 : type == Type::i32 ? -0x80000000ll : 0;
  constexpr i64 high = type == Type::u16   ? 0xffff
                       : type == Type::i16 ? 0x7fff
                       : type == Type::u32 ? 0xffffffffll
                                           : 0x7fffffff;
  constexpr u32 mask = type == Type::u16 || type == Type::i16 ? 0xffff : 0xffffffff;
  if (clamp) exact = exact < low ? low : exact > high ? high : exact;
  return static_cast<u32>(exact) & mask;
}
template <Type type>
inline i64 loaded(u32 bits) {
  if constexpr (type == Type::u16) return bits & 0xffff;
  if constexpr (type == Type::i16) return static_cast<i16>(bits);
  if constexpr (type == Type::u32) return bits;
  return static_cast<i32>(bits);
}

// Types of the sources and of the result; `operation` on exact i64. The plain form is left to 32-bit vectors by the compiler
// because only the low bits of its result are used.
template <Type from, Type to, auto operation>
void two(VectorCall& call) {
  const u32 *a = call.source[0], *b = call.source[1];
  u32* __restrict out = call.out;
  const auto loop = [&](bool clamp) __attribute__((always_inline)) {
    for (int lane = 0; lane < lanes; ++lane)
      out[lane] = stored<to>(operation(loaded<from>(a[lane]), loaded<from>(b[lane])), clamp);
  };
  if (call.instruction->clamp)
    loop(true);
  else
    loop(false);
}
template <Type from, Type addend, Type to, auto operation>
void three(VectorCall& call) {
  const u32 *a = call.source[0], *b = call.source[1], *c = call.source[2];
  u32* __restrict out = call.out;
  const auto loop = [&](bool clamp) __attribute__((always_inline)) {
    for (int lane = 0; lane < lanes; ++lane) {
      out[lane] = stored<to>(operation(loaded<from>(a[lane]), loaded<from>(b[lane]), loaded<addend>(c[lane])), clamp);
    }
  };
  if (call.instruction->clamp)
    loop(true);
  else
    loop(false);
}

constexpr auto add = [](i64 a, i64 b) { return a + b; };
constexpr auto subtract = [](i64 a, i64 b) { return a - b; };
constexpr auto subtract_reversed = [](i64 a, i64 b) { return b - a; };
constexpr auto multiply_add = [](i64 a, i64 b, i64 c) { return a * b + c; };

inline i64 signed24(i64 value) { return static_cast<i32>(static_cast<u32>(value) << 8) >> 8; }
inline i64 unsigned24(i64 value) { return value & 0xffffff; }
constexpr auto multiply_add_signed24 = [](i64 a, i64 b, i64 c) { return signed24(a) * signed24(b) + c; };
constexpr auto multiply_add_unsigned24 = [](i64 a, i64 b, i64 c) { return unsigned24(a) * unsigned24(b) + c; };

constexpr auto multiply_signed24 = [](u32 a, u32 b) {
  return static_cast<u32>(static_cast<i32>(a << 8) >> 8) * static_cast<u32>(static_cast<i32>(b << 8) >> 8);
};
constexpr auto multiply_high_signed24 = [](u32 a, u32 b) {
  return static_cast<u32>(static_cast<u64>(signed24(a) * signed24(b)) >> 32);
};
constexpr auto multiply_unsigned24 = [](u32 a, u32 b) { return (a & 0xffffff) * (b & 0xffffff); };
constexpr auto multiply_high_unsigned24 = [](u32 a, u32 b) {
  return static_cast<u32>((static_cast<u64>(a & 0xffffff) * (b & 0xffffff)) >> 32);
};
constexpr auto multiply_low = [](u32 a, u32 b) { return a * b; };
constexpr auto multiply_high = [](u32 a, u32 b) { return static_cast<u32>((static_cast<u64>(a) * b) >> 32); };
constexpr auto multiply_high_signed = [](u32 a, u32 b) {
  return static_cast<u32>(static_cast<u64>(static_cast<i64>(static_cast<i32>(a)) * static_cast<i32>(b)) >> 32);
};
constexpr auto multiply_low_16 = [](u32 a, u32 b) { return a * b; };

constexpr auto add_three = [](u32 a, u32 b, u32 c) { return a + b + c; };
constexpr auto shift_add = [](u32 a, u32 by, u32 b) { return (a << (by & 31)) + b; };
constexpr auto add_shift = [](u32 a, u32 b, u32 by) { return (a + b) << (by & 31); };
constexpr auto exclusive_add = [](u32 a, u32 b, u32 c) { return (a ^ b) + c; };

// Carry and borrow. kind: 0 S0 + S1, 1 S0 - S1, 2 S1 - S0.
template <int kind, bool carries_in>
void with_carry(VectorCall& call) {
  const u32* a = call.source[kind == 2 ? 1 : 0];
  const u32* b = call.source[kind == 2 ? 0 : 1];
  u32* __restrict out = call.out;
  alignas(64) u32 in[lanes], carry_out[lanes];
  if constexpr (carries_in) spread(call.mask_in, in);
  for (int lane = 0; lane < lanes; ++lane) {
    const u32 x = a[lane], y = b[lane], carry = carries_in ? in[lane] & 1 : 0;
    const u32 result = kind == 0 ? x + y + carry : x - y - carry;
    // The sign bit: what leaves bit 31 by the majority rule of a full adder or subtractor.
    carry_out[lane] = kind == 0 ? (x & y) | ((x | y) & ~result) : (~x & y) | ((~x | y) & result);
    out[lane] = result;
  }
  call.mask_out = collect_signs(carry_out);
  if (!call.instruction->clamp) return;
  spread(call.mask_out, in);
  for (int lane = 0; lane < lanes; ++lane) out[lane] = kind == 0 ? out[lane] | in[lane] : out[lane] & ~in[lane];
}

// 32 x 32 + 64; the mask gets bit 64 of the exact sum.
template <bool is_signed>
void multiply_add_64(VectorCall& call) {
  using Wide = __int128;
  u64 mask = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    const u32 a = call.source[0][lane], b = call.source[1][lane];
    const u64 c = get64(call.source[2], lane);
    Wide exact;
    if constexpr (is_signed)
      exact = static_cast<Wide>(static_cast<i32>(a)) * static_cast<i32>(b) + static_cast<i64>(c);
    else
      exact = static_cast<Wide>(static_cast<u64>(a) * b) + c;
    mask |= static_cast<u64>(exact >> 64 & 1) << lane;
    if (call.instruction->clamp) {
      const Wide high = is_signed ? static_cast<Wide>(INT64_MAX) : static_cast<Wide>(UINT64_MAX),
                 low = is_signed ? static_cast<Wide>(INT64_MIN) : 0;
      exact = exact < low ? low : exact > high ? high : exact;
    }
    put64(call.out, lane, static_cast<u64>(exact));
  }
  call.mask_out = mask;
}

void shift_add_64(VectorCall& call) {
  const u32 *a = call.source[0], *by = call.source[1], *b = call.source[2];
  u32* __restrict out = call.out;
  for (int lane = 0; lane < lanes; ++lane) put64(out, lane, (get64(a, lane) << (by[lane] & 7)) + get64(b, lane));
}

constexpr VectorEntry entries[] = {
    {Opcode::V_ADD_U32, two<Type::u32, Type::u32, add>},
    {Opcode::V_SUB_U32, two<Type::u32, Type::u32, subtract>},
    {Opcode::V_SUBREV_U32, two<Type::u32, Type::u32, subtract_reversed>},
    {Opcode::V_ADD_I32, two<Type::i32, Type::i32, add>},
    {Opcode::V_SUB_I32, two<Type::i32, Type::i32, subtract>},
    {Opcode::V_ADD_U16, two<Type::u16, Type::u16, add>},
    {Opcode::V_SUB_U16, two<Type::u16, Type::u16, subtract>},
    {Opcode::V_SUBREV_U16, two<Type::u16, Type::u16, subtract_reversed>},
    {Opcode::V_ADD_I16, two<Type::i16, Type::i16, add>, Mask::none, false, true},
    {Opcode::V_SUB_I16, two<Type::i16, Type::i16, subtract>, Mask::none, false, true},
    {Opcode::V_MUL_LO_U16, two_u16<multiply_low_16>},
    {Opcode::V_MAD_U16, three<Type::u16, Type::u16, Type::u16, multiply_add>, Mask::none, false, true},
    {Opcode::V_MAD_I16, three<Type::i16, Type::i16, Type::i16, multiply_add>, Mask::none, false, true},
    {Opcode::V_MAD_LEGACY_U16, three<Type::u16, Type::u16, Type::u16, multiply_add>},
    {Opcode::V_MAD_LEGACY_I16, three<Type::i16, Type::i16, Type::i16, multiply_add>},
    {Opcode::V_MAD_U32_U16, three<Type::u16, Type::u32, Type::u32, multiply_add>},
    {Opcode::V_MAD_I32_I16, three<Type::i16, Type::i32, Type::i32, multiply_add>},
    {Opcode::V_MAD_I32_I24, three<Type::u32, Type::i32, Type::i32, multiply_add_signed24>},
    {Opcode::V_MAD_U32_U24, three<Type::u32, Type::u32, Type::u32, multiply_add_unsigned24>},
    {Opcode::V_MUL_I32_I24, two_u32<multiply_signed24>},
    {Opcode::V_MUL_HI_I32_I24, two_u32<multiply_high_signed24>},
    {Opcode::V_MUL_U32_U24, two_u32<multiply_unsigned24>},
    {Opcode::V_MUL_HI_U32_U24, two_u32<multiply_high_unsigned24>},
    {Opcode::V_MUL_LO_U32, two_u32<multiply_low>},
    {Opcode::V_MUL_HI_U32, two_u32<multiply_high>},
    {Opcode::V_MUL_HI_I32, two_u32<multiply_high_signed>},
    {Opcode::V_ADD3_U32, three_u32<add_three>},
    {Opcode::V_LSHL_ADD_U32, three_u32<shift_add>},
    {Opcode::V_ADD_LSHL_U32, three_u32<add_shift>},
    {Opcode::V_XAD_U32, three_u32<exclusive_add>},
    {Opcode::V_LSHL_ADD_U64, shift_add_64},
    {Opcode::V_ADD_CO_U32, with_carry<0, false>, Mask::writes},
    {Opcode::V_SUB_CO_U32, with_carry<1, false>, Mask::writes},
    {Opcode::V_SUBREV_CO_U32, with_carry<2, false>, Mask::writes},
    {Opcode::V_ADDC_CO_U32, with_carry<0, true>, Mask::reads_writes},
    {Opcode::V_SUBB_CO_U32, with_carry<1, true>, Mask::reads_writes},
    {Opcode::V_SUBBREV_CO_U32, with_carry<2, true>, Mask::reads_writes},
    {Opcode::V_MAD_U64_U32, multiply_add_64<false>, Mask::writes},
    {Opcode::V_MAD_I64_I32, multiply_add_64<true>, Mask::writes},
};

}  // namespace

std::span<const VectorEntry> vector_integer_arithmetic() { return entries; }

}  // namespace apb::emu
