// Logic, shifts, bit fields, counting, selection, minimum and maximum.
#include "vector_integer.h"

#include <vector>

namespace apb::emu {
namespace {

constexpr auto kCopy = [](u32 a) { return a; };
constexpr auto kInvert = [](u32 a) { return ~a; };
constexpr auto kReverseBits = [](u32 a) { return __builtin_bitreverse32(a); };
constexpr auto kFirstHigh = [](u32 a) { return a ? static_cast<u32>(std::countl_zero(a)) : ~0u; };
constexpr auto kFirstLow = [](u32 a) { return a ? static_cast<u32>(std::countr_zero(a)) : ~0u; };
constexpr auto kFirstHighSigned = [](u32 a) {  // the first bit from the top that differs from the sign
  const u32 differ = a ^ static_cast<u32>(static_cast<i32>(a) >> 31);
  return differ ? static_cast<u32>(std::countl_zero(differ)) : ~0u;
};

constexpr auto kShiftRight = [](u32 by, u32 a) { return a >> (by & 31); };
constexpr auto kShiftRightSigned = [](u32 by, u32 a) { return static_cast<u32>(static_cast<i32>(a) >> (by & 31)); };
constexpr auto kShiftLeft = [](u32 by, u32 a) { return a << (by & 31); };
constexpr auto kBoth = [](u32 a, u32 b) { return a & b; };
constexpr auto kEither = [](u32 a, u32 b) { return a | b; };
constexpr auto kExclusive = [](u32 a, u32 b) { return a ^ b; };
constexpr auto kExclusiveNot = [](u32 a, u32 b) { return ~(a ^ b); };
constexpr auto kFieldMask = [](u32 width, u32 at) { return ((1u << (width & 31)) - 1) << (at & 31); };
constexpr auto kCountBits = [](u32 a, u32 b) { return static_cast<u32>(std::popcount(a)) + b; };

constexpr auto kSmallerSigned = [](u32 a, u32 b) { return static_cast<i32>(a) < static_cast<i32>(b) ? a : b; };
constexpr auto kLargerSigned = [](u32 a, u32 b) { return static_cast<i32>(a) >= static_cast<i32>(b) ? a : b; };
constexpr auto kSmaller = [](u32 a, u32 b) { return a < b ? a : b; };
constexpr auto kLarger = [](u32 a, u32 b) { return a >= b ? a : b; };

constexpr auto kExtract = [](u32 a, u32 at, u32 width) { return a >> (at & 31) & ((1u << (width & 31)) - 1); };
constexpr auto kExtractSigned = [](u32 a, u32 at, u32 width) {
  const u32 bits = static_cast<u32>(static_cast<i32>(a) >> (at & 31)) & ((1u << (width & 31)) - 1);
  const u32 sign = width & 31 ? 1u << ((width & 31) - 1) : 0;
  return (bits ^ sign) - sign;
};
constexpr auto kInsert = [](u32 mask, u32 a, u32 b) { return (mask & a) | (~mask & b); };
constexpr auto kAlignBits = [](u32 high, u32 low, u32 by) {
  return static_cast<u32>((static_cast<u64>(high) << 32 | low) >> (by & 31));
};
constexpr auto kAlignBytes = [](u32 high, u32 low, u32 by) {
  return static_cast<u32>((static_cast<u64>(high) << 32 | low) >> ((by & 3) * 8));
};
constexpr auto kShiftOr = [](u32 a, u32 by, u32 b) { return a << (by & 31) | b; };
constexpr auto kAndOr = [](u32 a, u32 b, u32 c) { return (a & b) | c; };
constexpr auto kOrThree = [](u32 a, u32 b, u32 c) { return a | b | c; };

template <auto Pick>
constexpr auto kOfThree = [](u32 a, u32 b, u32 c) { return Pick(Pick(a, b), c); };
template <auto Less, auto More>
constexpr auto kMiddle = [](u32 a, u32 b, u32 c) { return More(Less(a, b), Less(More(a, b), c)); };
// i16 operands as i32, so that the 32-bit picks serve.
constexpr auto kExtended = [](u32 a) { return static_cast<u32>(static_cast<i32>(static_cast<i16>(a))); };
template <auto Pick>
constexpr auto kTwoI16 = [](u32 a, u32 b) { return Pick(kExtended(a), kExtended(b)); };
template <auto Pick>
constexpr auto kThreeI16 = [](u32 a, u32 b, u32 c) { return Pick(kExtended(a), kExtended(b), kExtended(c)); };

constexpr auto kShiftLeft16 = [](u32 by, u32 a) { return a << (by & 15); };
constexpr auto kShiftRight16 = [](u32 by, u32 a) { return a >> (by & 15); };
constexpr auto kShiftRightSigned16 = [](u32 by, u32 a) {
  return static_cast<u32>(static_cast<i32>(static_cast<i16>(a)) >> (by & 15));
};

template <auto Operation>
void two_u64(VectorCall& call) {  // the shift is a 32-bit operand
  for (int lane = 0; lane < kLanes; ++lane)
    put64(call.out, lane, Operation(call.source[0][lane], get64(call.source[1], lane)));
}
constexpr auto kShiftLeft64 = [](u32 by, u64 a) { return a << (by & 63); };
constexpr auto kShiftRight64 = [](u32 by, u64 a) { return a >> (by & 63); };
constexpr auto kShiftRightSigned64 = [](u32 by, u64 a) { return static_cast<u64>(static_cast<i64>(a) >> (by & 63)); };

void copy_64(VectorCall& call) { std::memcpy(call.out, call.source[0], 2 * kRowBytes); }

void select(VectorCall& call) {
  alignas(64) u32 taken[kLanes];
  spread(call.mask_in, taken);
  const u32 *a = call.source[0], *b = call.source[1];
  u32* __restrict out = call.out;
  for (int lane = 0; lane < kLanes; ++lane) out[lane] = a[lane] ^ ((a[lane] ^ b[lane]) & taken[lane]);
}

// Bits of S0 that belong to lanes below this one, added to S1.
template <int First>
void count_below(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const u64 below = (u64{1} << lane) - 1;
    call.out[lane] =
        static_cast<u32>(std::popcount(call.source[0][lane] & static_cast<u32>(below >> First))) + call.source[1][lane];
  }
}

// gfx950: any function of three bits. Its truth table takes the place of the modifiers: OMOD, ABS, NEG from the top;
// entry 4 * s0 + 2 * s1 + s2.
template <u32 Width>
void any_of_three(VectorCall& call) {
  const Instruction& instruction = *call.instruction;
  const u32 table =
      static_cast<u32>(instruction.omod & 3) << 6 | static_cast<u32>(instruction.abs & 7) << 3 | (instruction.neg & 7u);
  u32 entry[8];
  for (u32 i = 0; i < 8; ++i) entry[i] = 0u - (table >> i & 1);
  const u32 *a = call.source[0], *b = call.source[1], *c = call.source[2];
  u32* __restrict out = call.out;
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 x = a[lane], y = b[lane], z = c[lane];
    const u32 none = (z & entry[1]) | (~z & entry[0]), only_y = (z & entry[3]) | (~z & entry[2]);
    const u32 only_x = (z & entry[5]) | (~z & entry[4]), x_and_y = (z & entry[7]) | (~z & entry[6]);
    out[lane] = ((x & ((y & x_and_y) | (~y & only_x))) | (~x & ((y & only_y) | (~y & none)))) & Width;
  }
}

constexpr VectorEntry kEntries[] = {
    {Opcode::V_MOV_B32, one_u32<kCopy>},
    {Opcode::V_MOV_B64, copy_64},
    {Opcode::V_NOT_B32, one_u32<kInvert>},
    {Opcode::V_BFREV_B32, one_u32<kReverseBits>},
    {Opcode::V_FFBH_U32, one_u32<kFirstHigh>},
    {Opcode::V_FFBL_B32, one_u32<kFirstLow>},
    {Opcode::V_FFBH_I32, one_u32<kFirstHighSigned>},
    {Opcode::V_CNDMASK_B32, select, Mask::Reads},
    {Opcode::V_LSHRREV_B32, two_u32<kShiftRight>},
    {Opcode::V_ASHRREV_I32, two_u32<kShiftRightSigned>},
    {Opcode::V_LSHLREV_B32, two_u32<kShiftLeft>},
    {Opcode::V_AND_B32, two_u32<kBoth>},
    {Opcode::V_OR_B32, two_u32<kEither>},
    {Opcode::V_XOR_B32, two_u32<kExclusive>},
    {Opcode::V_XNOR_B32, two_u32<kExclusiveNot>},
    {Opcode::V_BFM_B32, two_u32<kFieldMask>},
    {Opcode::V_BCNT_U32_B32, two_u32<kCountBits>},
    {Opcode::V_MBCNT_LO_U32_B32, count_below<0>},
    {Opcode::V_MBCNT_HI_U32_B32, count_below<32>},
    {Opcode::V_MIN_I32, two_u32<kSmallerSigned>},
    {Opcode::V_MAX_I32, two_u32<kLargerSigned>},
    {Opcode::V_MIN_U32, two_u32<kSmaller>},
    {Opcode::V_MAX_U32, two_u32<kLarger>},
    {Opcode::V_MIN3_I32, three_u32<kOfThree<kSmallerSigned>>},
    {Opcode::V_MAX3_I32, three_u32<kOfThree<kLargerSigned>>},
    {Opcode::V_MED3_I32, three_u32<kMiddle<kSmallerSigned, kLargerSigned>>},
    {Opcode::V_MIN3_U32, three_u32<kOfThree<kSmaller>>},
    {Opcode::V_MAX3_U32, three_u32<kOfThree<kLarger>>},
    {Opcode::V_MED3_U32, three_u32<kMiddle<kSmaller, kLarger>>},
    {Opcode::V_BFE_U32, three_u32<kExtract>},
    {Opcode::V_BFE_I32, three_u32<kExtractSigned>},
    {Opcode::V_BFI_B32, three_u32<kInsert>},
    {Opcode::V_ALIGNBIT_B32, three_u32<kAlignBits>},
    {Opcode::V_ALIGNBYTE_B32, three_u32<kAlignBytes>},
    {Opcode::V_LSHL_OR_B32, three_u32<kShiftOr>},
    {Opcode::V_AND_OR_B32, three_u32<kAndOr>},
    {Opcode::V_OR3_B32, three_u32<kOrThree>},
    {Opcode::V_BITOP3_B32, any_of_three<0xffffffff>},
    {Opcode::V_BITOP3_B16, any_of_three<0xffff>, Mask::None, false, true},
    {Opcode::V_LSHLREV_B64, two_u64<kShiftLeft64>},
    {Opcode::V_LSHRREV_B64, two_u64<kShiftRight64>},
    {Opcode::V_ASHRREV_I64, two_u64<kShiftRightSigned64>},
    {Opcode::V_LSHLREV_B16, two_u16<kShiftLeft16>},
    {Opcode::V_LSHRREV_B16, two_u16<kShiftRight16>},
    {Opcode::V_ASHRREV_I16, two_u16<kShiftRightSigned16>},
    {Opcode::V_MIN_U16, two_u16<kSmaller>},
    {Opcode::V_MAX_U16, two_u16<kLarger>},
    {Opcode::V_MIN_I16, two_u16<kTwoI16<kSmallerSigned>>},
    {Opcode::V_MAX_I16, two_u16<kTwoI16<kLargerSigned>>},
    {Opcode::V_MIN3_U16, three_u16<kOfThree<kSmaller>>, Mask::None, false, true},
    {Opcode::V_MAX3_U16, three_u16<kOfThree<kLarger>>, Mask::None, false, true},
    {Opcode::V_MED3_U16, three_u16<kMiddle<kSmaller, kLarger>>, Mask::None, false, true},
    {Opcode::V_MIN3_I16, three_u16<kThreeI16<kOfThree<kSmallerSigned>>>, Mask::None, false, true},
    {Opcode::V_MAX3_I16, three_u16<kThreeI16<kOfThree<kLargerSigned>>>, Mask::None, false, true},
    {Opcode::V_MED3_I16, three_u16<kThreeI16<kMiddle<kSmallerSigned, kLargerSigned>>>, Mask::None, false, true},
};

}  // namespace

std::span<const VectorEntry> vector_integer_logic() { return kEntries; }

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
