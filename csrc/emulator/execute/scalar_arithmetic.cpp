// Integer arithmetic of the scalar ALU, with SCC as AMD's pseudocode sets it.
#include "scalar.h"

namespace apb::emu {

namespace {

// Bit `n` and everything above it dropped; n of 64 and more keeps all.
constexpr u64 low_bits(unsigned n) { return n >= 64 ? ~u64{0} : (u64{1} << n) - 1; }

// Signed overflow of a + b = sum (and, with b inverted, of a subtraction).
constexpr bool overflows(u32 a, u32 b, u32 sum) { return ((a ^ sum) & (b ^ sum)) >> 31 != 0; }

// S1 of the field extractions: offset in its low bits, width in [22:16].
constexpr unsigned field_width(u32 s1) { return s1 >> 16 & 0x7f; }

u64 extract_signed(i64 value, unsigned offset, unsigned width) {
  const u64 field = static_cast<u64>(value >> offset) & low_bits(width);
  if (width == 0 || width >= 64) return field;
  const u64 sign = u64{1} << (width - 1);
  return (field ^ sign) - sign;
}

template <unsigned N> u32 shift_add(u32 a, u32 b, bool& scc) {
  const u64 sum = (u64{a} << N) + b;
  scc = sum >> 32 != 0;
  return static_cast<u32>(sum);
}

// D = D op simm16
template <auto F> void immediate_binary(Wave& wave, const Instruction& i) {
  const Operand& target = i.destination[0];
  write32(wave, target, F(read32(wave, target), static_cast<u32>(i.immediate), wave.scc));
}

constexpr auto kAddU32 = [](u32 a, u32 b, bool& scc) {
  const u64 sum = u64{a} + b;
  scc = sum >> 32 != 0;
  return static_cast<u32>(sum);
};
constexpr auto kAddcU32 = [](u32 a, u32 b, bool& scc) {
  const u64 sum = u64{a} + b + scc;
  scc = sum >> 32 != 0;
  return static_cast<u32>(sum);
};
constexpr auto kSubU32 = [](u32 a, u32 b, bool& scc) {
  scc = b > a;
  return a - b;
};
constexpr auto kSubbU32 = [](u32 a, u32 b, bool& scc) {
  const u32 result = a - b - scc;
  scc = u64{b} + scc > a;
  return result;
};
constexpr auto kAddI32 = [](u32 a, u32 b, bool& scc) {
  scc = overflows(a, b, a + b);
  return a + b;
};
constexpr auto kSubI32 = [](u32 a, u32 b, bool& scc) {
  scc = overflows(a, ~b, a - b);
  return a - b;
};
constexpr auto kAbsdiffI32 = [](u32 a, u32 b) {
  const u32 difference = a - b;
  return difference >> 31 != 0 ? 0u - difference : difference;
};
constexpr auto kBfeU32 = [](u32 a, u32 b) { return static_cast<u32>((a >> (b & 31)) & low_bits(field_width(b))); };
constexpr auto kBfeU64 = [](u64 a, u32 b) { return (a >> (b & 63)) & low_bits(field_width(b)); };
constexpr auto kBfeI32 = [](i32 a, u32 b) { return static_cast<u32>(extract_signed(a, b & 31, field_width(b))); };
constexpr auto kBfeI64 = [](i64 a, u32 b) { return extract_signed(a, b & 63, field_width(b)); };

constexpr ScalarEntry kTable[] = {
    {Opcode::S_ADD_U32, binary_scc<u32, kAddU32>},
    {Opcode::S_SUB_U32, binary_scc<u32, kSubU32>},
    {Opcode::S_ADD_I32, binary_scc<u32, kAddI32>},
    {Opcode::S_SUB_I32, binary_scc<u32, kSubI32>},
    {Opcode::S_ADDC_U32, binary_scc<u32, kAddcU32>},
    {Opcode::S_SUBB_U32, binary_scc<u32, kSubbU32>},
    {Opcode::S_MIN_I32, binary_scc<i32, [](i32 a, i32 b, bool& scc) { return (scc = a < b) ? a : b; }>},
    {Opcode::S_MIN_U32, binary_scc<u32, [](u32 a, u32 b, bool& scc) { return (scc = a < b) ? a : b; }>},
    {Opcode::S_MAX_I32, binary_scc<i32, [](i32 a, i32 b, bool& scc) { return (scc = a >= b) ? a : b; }>},
    {Opcode::S_MAX_U32, binary_scc<u32, [](u32 a, u32 b, bool& scc) { return (scc = a >= b) ? a : b; }>},
    {Opcode::S_MUL_I32, binary<u32, u32, u32, Scc::Keep, [](u32 a, u32 b) { return a * b; }>},
    {Opcode::S_MUL_HI_U32, binary<u32, u32, u32, Scc::Keep, [](u32 a, u32 b) { return u64{a} * b >> 32; }>},
    {Opcode::S_MUL_HI_I32, binary<u32, i32, i32, Scc::Keep, [](i32 a, i32 b) { return i64{a} * b >> 32; }>},
    {Opcode::S_LSHL1_ADD_U32, binary_scc<u32, shift_add<1>>},
    {Opcode::S_LSHL2_ADD_U32, binary_scc<u32, shift_add<2>>},
    {Opcode::S_LSHL3_ADD_U32, binary_scc<u32, shift_add<3>>},
    {Opcode::S_LSHL4_ADD_U32, binary_scc<u32, shift_add<4>>},
    {Opcode::S_ABSDIFF_I32, binary<u32, u32, u32, Scc::NotZero, kAbsdiffI32>},
    {Opcode::S_ABS_I32, unary<u32, u32, Scc::NotZero, [](u32 a) { return a >> 31 != 0 ? 0u - a : a; }>},
    {Opcode::S_LSHL_B32, binary<u32, u32, u32, Scc::NotZero, [](u32 a, u32 b) { return a << (b & 31); }>},
    {Opcode::S_LSHL_B64, binary<u64, u64, u32, Scc::NotZero, [](u64 a, u32 b) { return a << (b & 63); }>},
    {Opcode::S_LSHR_B32, binary<u32, u32, u32, Scc::NotZero, [](u32 a, u32 b) { return a >> (b & 31); }>},
    {Opcode::S_LSHR_B64, binary<u64, u64, u32, Scc::NotZero, [](u64 a, u32 b) { return a >> (b & 63); }>},
    {Opcode::S_ASHR_I32, binary<u32, i32, u32, Scc::NotZero, [](i32 a, u32 b) { return a >> (b & 31); }>},
    {Opcode::S_ASHR_I64, binary<u64, i64, u32, Scc::NotZero, [](i64 a, u32 b) { return a >> (b & 63); }>},
    {Opcode::S_BFM_B32, binary<u32, u32, u32, Scc::Keep, [](u32 a, u32 b) { return low_bits(a & 31) << (b & 31); }>},
    {Opcode::S_BFM_B64, binary<u64, u32, u32, Scc::Keep, [](u32 a, u32 b) { return low_bits(a & 63) << (b & 63); }>},
    {Opcode::S_BFE_U32, binary<u32, u32, u32, Scc::NotZero, kBfeU32>},
    {Opcode::S_BFE_I32, binary<u32, i32, u32, Scc::NotZero, kBfeI32>},
    {Opcode::S_BFE_U64, binary<u64, u64, u32, Scc::NotZero, kBfeU64>},
    {Opcode::S_BFE_I64, binary<u64, i64, u32, Scc::NotZero, kBfeI64>},
    {Opcode::S_PACK_LL_B32_B16, binary<u32, u32, u32, Scc::Keep, [](u32 a, u32 b) { return b << 16 | (a & 0xffff); }>},
    {Opcode::S_PACK_LH_B32_B16,
     binary<u32, u32, u32, Scc::Keep, [](u32 a, u32 b) { return (b & 0xffff0000u) | (a & 0xffff); }>},
    {Opcode::S_PACK_HH_B32_B16,
     binary<u32, u32, u32, Scc::Keep, [](u32 a, u32 b) { return (b & 0xffff0000u) | a >> 16; }>},
    {Opcode::S_SEXT_I32_I8,
     unary<u32, u32, Scc::Keep, [](u32 a) { return static_cast<i32>(static_cast<std::int8_t>(a)); }>},
    {Opcode::S_SEXT_I32_I16,
     unary<u32, u32, Scc::Keep, [](u32 a) { return static_cast<i32>(static_cast<std::int16_t>(a)); }>},
    {Opcode::S_ADDK_I32, immediate_binary<kAddI32>},
    {Opcode::S_MULK_I32, immediate_binary<[](u32 a, u32 b, bool&) { return a * b; }>},
};

}  // namespace

std::span<const ScalarEntry> scalar_arithmetic_table() { return kTable; }

}  // namespace apb::emu
