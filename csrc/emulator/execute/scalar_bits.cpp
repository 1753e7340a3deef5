// Moves, logic, bit counts and masks of the scalar ALU, and what it does to EXEC.
#include "scalar.h"

namespace apb::emu {

namespace {

template <typename T> void conditional_move(Wave& wave, const Instruction& i) {
  if (wave.scc) write<T>(wave, i.destination[0], read<T>(wave, i.source[0]));
}
void conditional_move_immediate(Wave& wave, const Instruction& i) {
  if (wave.scc) write32(wave, i.destination[0], static_cast<u32>(i.immediate));
}
void move_immediate(Wave& wave, const Instruction& i) {
  write32(wave, i.destination[0], static_cast<u32>(i.immediate));
}

template <typename T> void select(Wave& wave, const Instruction& i) {
  write<T>(wave, i.destination[0], read<T>(wave, i.source[wave.scc ? 0 : 1]));
}

// One bit per group of four: any of them set.
constexpr u64 any_of_four(u64 value) {
  value |= value >> 2;
  value |= value >> 1;
  return value & 0x1111111111111111u;
}
constexpr auto kWholeQuad = [](auto value) { return static_cast<decltype(value)>(any_of_four(value) * 15); };
constexpr auto kQuadMask = [](auto value) {
  u64 bits = any_of_four(value), result = 0;
  for (unsigned i = 0; i < 16; ++i) result |= (bits >> (4 * i) & 1) << i;
  return static_cast<decltype(value)>(result);
};
constexpr auto kReverse = [](auto value) {
  decltype(value) result = 0;
  for (unsigned i = 0; i < 8 * sizeof value; ++i) result |= (value >> i & 1) << (8 * sizeof value - 1 - i);
  return result;
};
constexpr auto kReplicate = [](u32 value) {
  u64 result = 0;
  for (unsigned i = 0; i < 32; ++i) result |= u64{3} * (value >> i & 1) << (2 * i);
  return result;
};

// Position of the first bit that is set, from the least (ff) or the most (flbit) significant side; -1: none.
constexpr auto kFirstLow = [](auto value) { return value == 0 ? -1 : std::countr_zero(value); };
constexpr auto kFirstHigh = [](auto value) { return value == 0 ? -1 : std::countl_zero(value); };
// First bit from the top that differs from the sign.
constexpr auto kFirstSign = [](auto value) {
  const auto sign = static_cast<decltype(value)>(value >> (8 * sizeof value - 1) != 0 ? ~decltype(value){0} : 0);
  return kFirstHigh(static_cast<decltype(value)>(value ^ sign));
};
constexpr auto kFirstLowZero = [](auto value) { return kFirstLow(static_cast<decltype(value)>(~value)); };
constexpr auto kCountOnes = [](auto value) { return std::popcount(value); };
constexpr auto kCountZeros = [](auto value) { return std::popcount(static_cast<decltype(value)>(~value)); };

// s_bitset: one bit of the destination, chosen by the source.
template <typename T, bool Value> void set_bit(Wave& wave, const Instruction& i) {
  const T bit = T{1} << (read32(wave, i.source[0]) & (8 * sizeof(T) - 1));
  const T old = read<T>(wave, i.destination[0]);
  write<T>(wave, i.destination[0], Value ? old | bit : old & ~bit);
}

// EXEC = F(S0, EXEC); the destination gets the old EXEC (saveexec) or the new one (wrexec).
template <bool Save, auto F> void change_exec(Wave& wave, const Instruction& i) {
  const u64 old = wave.exec();
  const u64 next = F(read64(wave, i.source[0]), old);
  wave.set_pair(sreg::kExec, next);
  write64(wave, i.destination[0], Save ? old : next);
  wave.scc = next != 0;
}

// s_movrels, s_movreld: the register number in the instruction is relative to M0. Only s0..s101 can be reached so.
template <typename T> bool relative(Wave& wave, const Operand& operand, Operand& out) {
  const u64 index = u64{operand.index} + wave.scalar[sreg::kM0];
  if (operand.kind != OperandKind::Sgpr || index + sizeof(T) / 4 > sreg::kFlatScratch) {
    raise(wave, FaultKind::IllegalRegister, -1, "M0 = %u reaches past s101", wave.scalar[sreg::kM0]);
    return false;
  }
  out = operand;
  out.index = static_cast<std::uint16_t>(index);
  return true;
}
template <typename T> void move_relative_source(Wave& wave, const Instruction& i) {
  Operand from;
  if (relative<T>(wave, i.source[0], from)) write<T>(wave, i.destination[0], read<T>(wave, from));
}
template <typename T> void move_relative_destination(Wave& wave, const Instruction& i) {
  Operand to;
  if (relative<T>(wave, i.destination[0], to)) write<T>(wave, to, read<T>(wave, i.source[0]));
}

template <typename T, auto F> constexpr Handler kLogic = binary<T, T, T, Scc::NotZero, F>;
template <typename T, auto F> constexpr Handler kMask = unary<T, T, Scc::NotZero, F>;
template <typename T, Scc Set, auto F> constexpr Handler kCount = unary<u32, T, Set, F>;

constexpr auto kAnd = [](auto a, auto b) { return a & b; };
constexpr auto kOr = [](auto a, auto b) { return a | b; };
constexpr auto kXor = [](auto a, auto b) { return a ^ b; };
constexpr auto kAndn2 = [](auto a, auto b) { return a & ~b; };
constexpr auto kOrn2 = [](auto a, auto b) { return a | ~b; };
constexpr auto kNand = [](auto a, auto b) { return ~(a & b); };
constexpr auto kNor = [](auto a, auto b) { return ~(a | b); };
constexpr auto kXnor = [](auto a, auto b) { return ~(a ^ b); };
constexpr auto kAndn1 = [](auto a, auto b) { return ~a & b; };
constexpr auto kOrn1 = [](auto a, auto b) { return ~a | b; };
constexpr auto kInvert = [](auto a) { return ~a; };
constexpr auto kSame = [](auto a) { return a; };

constexpr ScalarEntry kTable[] = {
    {Opcode::S_MOV_B32, unary<u32, u32, Scc::Keep, kSame>},
    {Opcode::S_MOV_B64, unary<u64, u64, Scc::Keep, kSame>},
    {Opcode::S_CMOV_B32, conditional_move<u32>},
    {Opcode::S_CMOV_B64, conditional_move<u64>},
    {Opcode::S_MOVK_I32, move_immediate},
    {Opcode::S_CMOVK_I32, conditional_move_immediate},
    {Opcode::S_CSELECT_B32, select<u32>},
    {Opcode::S_CSELECT_B64, select<u64>},
    {Opcode::S_MOVRELS_B32, move_relative_source<u32>},
    {Opcode::S_MOVRELS_B64, move_relative_source<u64>},
    {Opcode::S_MOVRELD_B32, move_relative_destination<u32>},
    {Opcode::S_MOVRELD_B64, move_relative_destination<u64>},
    {Opcode::S_NOT_B32, kMask<u32, kInvert>},
    {Opcode::S_NOT_B64, kMask<u64, kInvert>},
    {Opcode::S_WQM_B32, kMask<u32, kWholeQuad>},
    {Opcode::S_WQM_B64, kMask<u64, kWholeQuad>},
    {Opcode::S_QUADMASK_B32, kMask<u32, kQuadMask>},
    {Opcode::S_QUADMASK_B64, kMask<u64, kQuadMask>},
    {Opcode::S_BREV_B32, unary<u32, u32, Scc::Keep, kReverse>},
    {Opcode::S_BREV_B64, unary<u64, u64, Scc::Keep, kReverse>},
    {Opcode::S_BITREPLICATE_B64_B32, unary<u64, u32, Scc::Keep, kReplicate>},
    {Opcode::S_BCNT0_I32_B32, kCount<u32, Scc::NotZero, kCountZeros>},
    {Opcode::S_BCNT0_I32_B64, kCount<u64, Scc::NotZero, kCountZeros>},
    {Opcode::S_BCNT1_I32_B32, kCount<u32, Scc::NotZero, kCountOnes>},
    {Opcode::S_BCNT1_I32_B64, kCount<u64, Scc::NotZero, kCountOnes>},
    {Opcode::S_FF0_I32_B32, kCount<u32, Scc::Keep, kFirstLowZero>},
    {Opcode::S_FF0_I32_B64, kCount<u64, Scc::Keep, kFirstLowZero>},
    {Opcode::S_FF1_I32_B32, kCount<u32, Scc::Keep, kFirstLow>},
    {Opcode::S_FF1_I32_B64, kCount<u64, Scc::Keep, kFirstLow>},
    {Opcode::S_FLBIT_I32_B32, kCount<u32, Scc::Keep, kFirstHigh>},
    {Opcode::S_FLBIT_I32_B64, kCount<u64, Scc::Keep, kFirstHigh>},
    {Opcode::S_FLBIT_I32, kCount<u32, Scc::Keep, kFirstSign>},
    {Opcode::S_FLBIT_I32_I64, kCount<u64, Scc::Keep, kFirstSign>},
    {Opcode::S_BITSET0_B32, set_bit<u32, false>},
    {Opcode::S_BITSET0_B64, set_bit<u64, false>},
    {Opcode::S_BITSET1_B32, set_bit<u32, true>},
    {Opcode::S_BITSET1_B64, set_bit<u64, true>},
    {Opcode::S_AND_B32, kLogic<u32, kAnd>},
    {Opcode::S_AND_B64, kLogic<u64, kAnd>},
    {Opcode::S_OR_B32, kLogic<u32, kOr>},
    {Opcode::S_OR_B64, kLogic<u64, kOr>},
    {Opcode::S_XOR_B32, kLogic<u32, kXor>},
    {Opcode::S_XOR_B64, kLogic<u64, kXor>},
    {Opcode::S_ANDN2_B32, kLogic<u32, kAndn2>},
    {Opcode::S_ANDN2_B64, kLogic<u64, kAndn2>},
    {Opcode::S_ORN2_B32, kLogic<u32, kOrn2>},
    {Opcode::S_ORN2_B64, kLogic<u64, kOrn2>},
    {Opcode::S_NAND_B32, kLogic<u32, kNand>},
    {Opcode::S_NAND_B64, kLogic<u64, kNand>},
    {Opcode::S_NOR_B32, kLogic<u32, kNor>},
    {Opcode::S_NOR_B64, kLogic<u64, kNor>},
    {Opcode::S_XNOR_B32, kLogic<u32, kXnor>},
    {Opcode::S_XNOR_B64, kLogic<u64, kXnor>},
    {Opcode::S_AND_SAVEEXEC_B64, change_exec<true, kAnd>},
    {Opcode::S_OR_SAVEEXEC_B64, change_exec<true, kOr>},
    {Opcode::S_XOR_SAVEEXEC_B64, change_exec<true, kXor>},
    {Opcode::S_ANDN2_SAVEEXEC_B64, change_exec<true, kAndn2>},
    {Opcode::S_ORN2_SAVEEXEC_B64, change_exec<true, kOrn2>},
    {Opcode::S_NAND_SAVEEXEC_B64, change_exec<true, kNand>},
    {Opcode::S_NOR_SAVEEXEC_B64, change_exec<true, kNor>},
    {Opcode::S_XNOR_SAVEEXEC_B64, change_exec<true, kXnor>},
    {Opcode::S_ANDN1_SAVEEXEC_B64, change_exec<true, kAndn1>},
    {Opcode::S_ORN1_SAVEEXEC_B64, change_exec<true, kOrn1>},
    {Opcode::S_ANDN1_WREXEC_B64, change_exec<false, kAndn1>},
    {Opcode::S_ANDN2_WREXEC_B64, change_exec<false, kAndn2>},
};

}  // namespace

std::span<const ScalarEntry> scalar_bits_table() { return kTable; }

}  // namespace apb::emu
