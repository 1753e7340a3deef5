// Comparisons of the scalar ALU: they set SCC and nothing else.
#include "scalar.h"

namespace apb::emu {

namespace {

template <typename T, auto F> void compare(Wave& wave, const Instruction& i) {
  wave.scc = F(read<T>(wave, i.source[0]), read<T>(wave, i.source[1]));
}

// s_cmpk_*: the register in the encoding's destination field is read, against simm16: sign-extended for i32, zero-extended for u32.
template <typename T, auto F> void compare_immediate(Wave& wave, const Instruction& i) {
  const T immediate =
      sizeof(T) == sizeof(u32) && T(-1) > T(0) ? static_cast<T>(i.immediate & 0xffff) : static_cast<T>(i.immediate);
  wave.scc = F(read<T>(wave, i.source[0]), immediate);
}

template <typename T, bool Value> void test_bit(Wave& wave, const Instruction& i) {
  const unsigned bit = read32(wave, i.source[1]) & (8 * sizeof(T) - 1);
  wave.scc = (read<T>(wave, i.source[0]) >> bit & 1) == (Value ? 1u : 0u);
}

constexpr auto kEq = [](auto a, auto b) { return a == b; };
constexpr auto kLg = [](auto a, auto b) { return a != b; };
constexpr auto kGt = [](auto a, auto b) { return a > b; };
constexpr auto kGe = [](auto a, auto b) { return a >= b; };
constexpr auto kLt = [](auto a, auto b) { return a < b; };
constexpr auto kLe = [](auto a, auto b) { return a <= b; };

constexpr ScalarEntry kTable[] = {
    {Opcode::S_CMP_EQ_I32, compare<i32, kEq>},
    {Opcode::S_CMP_LG_I32, compare<i32, kLg>},
    {Opcode::S_CMP_GT_I32, compare<i32, kGt>},
    {Opcode::S_CMP_GE_I32, compare<i32, kGe>},
    {Opcode::S_CMP_LT_I32, compare<i32, kLt>},
    {Opcode::S_CMP_LE_I32, compare<i32, kLe>},
    {Opcode::S_CMP_EQ_U32, compare<u32, kEq>},
    {Opcode::S_CMP_LG_U32, compare<u32, kLg>},
    {Opcode::S_CMP_GT_U32, compare<u32, kGt>},
    {Opcode::S_CMP_GE_U32, compare<u32, kGe>},
    {Opcode::S_CMP_LT_U32, compare<u32, kLt>},
    {Opcode::S_CMP_LE_U32, compare<u32, kLe>},
    {Opcode::S_CMP_EQ_U64, compare<u64, kEq>},
    {Opcode::S_CMP_LG_U64, compare<u64, kLg>},
    {Opcode::S_CMPK_EQ_I32, compare_immediate<i32, kEq>},
    {Opcode::S_CMPK_LG_I32, compare_immediate<i32, kLg>},
    {Opcode::S_CMPK_GT_I32, compare_immediate<i32, kGt>},
    {Opcode::S_CMPK_GE_I32, compare_immediate<i32, kGe>},
    {Opcode::S_CMPK_LT_I32, compare_immediate<i32, kLt>},
    {Opcode::S_CMPK_LE_I32, compare_immediate<i32, kLe>},
    {Opcode::S_CMPK_EQ_U32, compare_immediate<u32, kEq>},
    {Opcode::S_CMPK_LG_U32, compare_immediate<u32, kLg>},
    {Opcode::S_CMPK_GT_U32, compare_immediate<u32, kGt>},
    {Opcode::S_CMPK_GE_U32, compare_immediate<u32, kGe>},
    {Opcode::S_CMPK_LT_U32, compare_immediate<u32, kLt>},
    {Opcode::S_CMPK_LE_U32, compare_immediate<u32, kLe>},
    {Opcode::S_BITCMP0_B32, test_bit<u32, false>},
    {Opcode::S_BITCMP1_B32, test_bit<u32, true>},
    {Opcode::S_BITCMP0_B64, test_bit<u64, false>},
    {Opcode::S_BITCMP1_B64, test_bit<u64, true>},
};

}  // namespace

std::span<const ScalarEntry> scalar_compare_table() { return kTable; }

}  // namespace apb::emu
