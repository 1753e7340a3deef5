// Logic, shifts, bit fields, counting, selection, minimum and maximum.
#include "vector_integer.h"

#include <vector>

namespace apb::emu {
namespace {

constexpr auto copy = [](u32 a) { return a; };
constexpr auto invert = [](u32 a) { return ~a; };
constexpr auto reverse_bits = [](u32 a) { return __builtin_bitreverse32(a); };
constexpr auto first_high = [](u32 a) { return a ? static_cast<u32>(std::countl_zero(a)) : ~0u; };
constexpr auto first_low = [](u32 a) { return a ? static_cast<u32>(std::countr_zero(a)) : ~0u; };
constexpr auto first_high_signed = [](u32 a) {  // the first bit from the top that differs from the sign
  const u32 differ = a ^ static_cast<u32>(static_cast<i32>(a) >> 31);
  return differ ? static_cast<u32>(std::countl_zero(differ)) : ~0u;
};

constexpr auto shift_right = [](u32 by, u32 a) { return a >> (by & 31); };
constexpr auto shift_right_signed = [](u32 by, u32 a) { return static_cast<u32>(static_cast<i32>(a) >> (by & 31)); };
constexpr auto shift_left = [](u32 by, u32 a) { return a << (by & 31); };
constexpr auto both = [](u32 a, u32 b) { return a & b; };
constexpr auto either = [](u32 a, u32 b) { return a | b; };
constexpr auto exclusive = [](u32 a, u32 b) { return a ^ b; };
constexpr auto exclusive_not = [](u32 a, u32 b) { return ~(a ^ b); };
constexpr auto field_mask = [](u32 width, u32 at) { return ((1u << (width & 31)) - 1) << (at & 31); };
constexpr auto count_bits = [](u32 a, u32 b) { return static_cast<u32>(std::popcount(a)) + b; };

constexpr auto smaller_signed = [](u32 a, u32 b) { return static_cast<i32>(a) < static_cast<i32>(b) ? a : b; };
constexpr auto larger_signed = [](u32 a, u32 b) { return static_cast<i32>(a) >= static_cast<i32>(b) ? a : b; };
constexpr auto smaller = [](u32 a, u32 b) { return a < b ? a : b; };
constexpr auto larger = [](u32 a, u32 b) { return a >= b ? a : b; };

constexpr auto extract = [](u32 a, u32 at, u32 width) { return a >> (at & 31) & ((1u << (width & 31)) - 1); };
constexpr auto extract_signed = [](u32 a, u32 at, u32 width) {
  const u32 bits = static_cast<u32>(static_cast<i32>(a) >> (at & 31)) & ((1u << (width & 31)) - 1);
  const u32 sign = width & 31 ? 1u << ((width & 31) - 1) : 0;
  return (bits ^ sign) - sign;
};
constexpr auto insert = [](u32 mask, u32 a, u32 b) { return (mask & a) | (~mask & b); };
constexpr auto align_bits = [](u32 high, u32 low, u32 by) {
  return static_cast<u32>((static_cast<u64>(high) << 32 | low) >> (by & 31));
};
constexpr auto align_bytes = [](u32 high, u32 low, u32 by) {
  return static_cast<u32>((static_cast<u64>(high) << 32 | low) >> ((by & 3) * 8));
};
constexpr auto shift_or = [](u32 a, u32 by, u32 b) { return a << (by & 31) | b; };
constexpr auto and_or = [](u32 a, u32 b, u32 c) { return (a & b) | c; };
constexpr auto or_three = [](u32 a, u32 b, u32 c) { return a | b | c; };

template <auto pick>
constexpr auto of_three = [](u32 a, u32 b, u32 c) { return pick(pick(a, b), c); };
template <auto less, auto more>
constexpr auto middle = [](u32 a, u32 b, u32 c) { return more(less(a, b), less(more(a, b), c)); };
// i16 operands as i32, so that the 32-bit picks serve.
constexpr auto extended = [](u32 a) { return static_cast<u32>(static_cast<i32>(static_cast<i16>(a))); };
template <auto pick>
constexpr auto two_i16 = [](u32 a, u32 b) { return pick(extended(a), extended(b)); };
template <auto pick>
constexpr auto three_i16 = [](u32 a, u32 b, u32 c) { return pick(extended(a), extended(b), extended(c)); };

constexpr auto shift_left_16 = [](u32 by, u32 a) { return a << (by & 15); };
constexpr auto shift_right_16 = [](u32 by, u32 a) { return a >> (by & 15); };
constexpr auto shift_right_signed_16 = [](u32 by, u32 a) {
  return static_cast<u32>(static_cast<i32>(static_cast<i16>(a)) >> (by & 15));
};

template <auto operation>
void two_u64(VectorCall& call) {  // the shift is a 32-bit operand
  for (int lane = 0; lane < lanes; ++lane)
    put64(call.out, lane, operation(call.source[0][lane], get64(call.source[1], lane)));
}
constexpr auto shift_left_64 = [](u32 by, u64 a) { return a << (by & 63); };
constexpr auto shift_right_64 = [](u32 by, u64 a) { return a >> (by & 63); };
constexpr auto shift_right_signed_64 = [](u32 by, u64 a) { return static_cast<u64>(static_cast<i64>(a) >> (by & 63)); };

void copy_64(VectorCall& call) { std::memcpy(call.out, call.source[0], 2 * row_bytes); }

void select(VectorCall& call) {
  alignas(64) u32 taken[lanes];
  spread(call.mask_in, taken);
  const u32 *a = call.source[0], *b = call.source[1];
  u32* __restrict out = call.out;
  for (int lane = 0; lane < lanes; ++lane) out[lane] = a[lane] ^ ((a[lane] ^ b[lane]) & taken[lane]);
}

// Bits of S0 that belong to lanes below this one, added to S1.
template <int first>
void count_below(VectorCall& call) {
  for (int lane = 0; lane < lanes; ++lane) {
    const u64 below = (u64{1} << lane) - 1;
    call.out[lane] =
        static_cast<u32>(std::popcount(call.source[0][lane] & static_cast<u32>(below >> first))) + call.source[1][lane];
  }
}

// gfx950: any function of three bits. Its truth table takes the place of the modifiers: OMOD, ABS, NEG from the top;
// entry 4 * s0 + 2 * s1 + s2.
template <u32 width>
void any_of_three(VectorCall& call) {
  const Instruction& instruction = *call.instruction;
  const u32 table =
      static_cast<u32>(instruction.omod & 3) << 6 | static_cast<u32>(instruction.abs & 7) << 3 | (instruction.neg & 7u);
  u32 entry[8];
  for (u32 i = 0; i < 8; ++i) entry[i] = 0u - (table >> i & 1);
  const u32 *a = call.source[0], *b = call.source[1], *c = call.source[2];
  u32* __restrict out = call.out;
  for (int lane = 0; lane < lanes; ++lane) {
    const u32 x = a[lane], y = b[lane], z = c[lane];
    const u32 none = (z & entry[1]) | (~z & entry[0]), only_y = (z & entry[3]) | (~z & entry[2]);
    const u32 only_x = (z & entry[5]) | (~z & entry[4]), x_and_y = (z & entry[7]) | (~z & entry[6]);
    out[lane] = ((x & ((y & x_and_y) | (~y & only_x))) | (~x & ((y & only_y) | (~y & none)))) & width;
  }
}

constexpr VectorEntry entries[] = {
    {Opcode::V_MOV_B32, one_u32<copy>},
    {Opcode::V_MOV_B64, copy_64},
    {Opcode::V_NOT_B32, one_u32<invert>},
    {Opcode::V_BFREV_B32, one_u32<reverse_bits>},
    {Opcode::V_FFBH_U32, one_u32<first_high>},
    {Opcode::V_FFBL_B32, one_u32<first_low>},
    {Opcode::V_FFBH_I32, one_u32<first_high_signed>},
    {Opcode::V_CNDMASK_B32, select, Mask::reads},
    {Opcode::V_LSHRREV_B32, two_u32<shift_right>},
    {Opcode::V_ASHRREV_I32, two_u32<shift_right_signed>},
    {Opcode::V_LSHLREV_B32, two_u32<shift_left>},
    {Opcode::V_AND_B32, two_u32<both>},
    {Opcode::V_OR_B32, two_u32<either>},
    {Opcode::V_XOR_B32, two_u32<exclusive>},
    {Opcode::V_XNOR_B32, two_u32<exclusive_not>},
    {Opcode::V_BFM_B32, two_u32<field_mask>},
    {Opcode::V_BCNT_U32_B32, two_u32<count_bits>},
    {Opcode::V_MBCNT_LO_U32_B32, count_below<0>},
    {Opcode::V_MBCNT_HI_U32_B32, count_below<32>},
    {Opcode::V_MIN_I32, two_u32<smaller_signed>},
    {Opcode::V_MAX_I32, two_u32<larger_signed>},
    {Opcode::V_MIN_U32, two_u32<smaller>},
    {Opcode::V_MAX_U32, two_u32<larger>},
    {Opcode::V_MIN3_I32, three_u32<of_three<smaller_signed>>},
    {Opcode::V_MAX3_I32, three_u32<of_three<larger_signed>>},
    {Opcode::V_MED3_I32, three_u32<middle<smaller_signed, larger_signed>>},
    {Opcode::V_MIN3_U32, three_u32<of_three<smaller>>},
    {Opcode::V_MAX3_U32, three_u32<of_three<larger>>},
    {Opcode::V_MED3_U32, three_u32<middle<smaller, larger>>},
    {Opcode::V_BFE_U32, three_u32<extract>},
    {Opcode::V_BFE_I32, three_u32<extract_signed>},
    {Opcode::V_BFI_B32, three_u32<insert>},
    {Opcode::V_ALIGNBIT_B32, three_u32<align_bits>},
    {Opcode::V_ALIGNBYTE_B32, three_u32<align_bytes>},
    {Opcode::V_LSHL_OR_B32, three_u32<shift_or>},
    {Opcode::V_AND_OR_B32, three_u32<and_or>},
    {Opcode::V_OR3_B32, three_u32<or_three>},
    {Opcode::V_BITOP3_B32, any_of_three<0xffffffff>},
    {Opcode::V_BITOP3_B16, any_of_three<0xffff>, Mask::none, false, true},
    {Opcode::V_LSHLREV_B64, two_u64<shift_left_64>},
    {Opcode::V_LSHRREV_B64, two_u64<shift_right_64>},
    {Opcode::V_ASHRREV_I64, two_u64<shift_right_signed_64>},
    {Opcode::V_LSHLREV_B16, two_u16<shift_left_16>},
    {Opcode::V_LSHRREV_B16, two_u16<shift_right_16>},
    {Opcode::V_ASHRREV_I16, two_u16<shift_right_signed_16>},
    {Opcode::V_MIN_U16, two_u16<smaller>},
    {Opcode::V_MAX_U16, two_u16<larger>},
    {Opcode::V_MIN_I16, two_u16<two_i16<smaller_signed>>},
    {Opcode::V_MAX_I16, two_u16<two_i16<larger_signed>>},
    {Opcode::V_MIN3_U16, three_u16<of_three<smaller>>, Mask::none, false, true},
    {Opcode::V_MAX3_U16, three_u16<of_three<larger>>, Mask::none, false, true},
    {Opcode::V_MED3_U16, three_u16<middle<smaller, larger>>, Mask::none, false, true},
    {Opcode::V_MIN3_I16, three_u16<three_i16<of_three<smaller_signed>>>, Mask::none, false, true},
    {Opcode::V_MAX3_I16, three_u16<three_i16<of_three<larger_signed>>>, Mask::none, false, true},
    {Opcode::V_MED3_I16, three_u16<three_i16<middle<smaller_signed, larger_signed>>>, Mask::none, false, true},
};

}  // namespace

std::span<const VectorEntry> vector_integer_logic() { return entries; }

std::span<const VectorEntry> vector_integer_table() {
  static const std::vector<VectorEntry> table = [] {
    std::vector<VectorEntry> all;
    for (const auto part : {vector_integer_logic(), vector_integer_arithmetic(), vector_integer_bytes()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return table;
}

}  // namespace apb::emu
