// Shared by the files of the scalar ALU: how a table of handlers looks.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "operands.h"

namespace apb::emu {

struct ScalarEntry {
  Opcode opcode;
  Handler handler;
};

std::span<const ScalarEntry> scalar_arithmetic_table();  // add, sub, mul, min, max, abs, shifts, bit fields, packs
std::span<const ScalarEntry> scalar_bits_table();      // moves, logic, counts, masks, EXEC with saving, relative moves
std::span<const ScalarEntry> scalar_compare_table();   // SOPC and s_cmpk_*
std::span<const ScalarEntry> scalar_control_table();   // branches, calls, forks, barriers, waits, hints, traps
std::span<const ScalarEntry> scalar_register_table();  // s_getreg, s_setreg, s_setvskip, s_set_gpr_idx_*

// In the handlers below F is a captureless lambda over the sources' values. `Set` says what becomes of SCC.
enum class Scc : std::uint8_t { Keep, NotZero };

using u32 = std::uint32_t;
using i32 = std::int32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;

template <typename T> T read(const Wave& wave, const Operand& operand) {
  if constexpr (sizeof(T) == 8)
    return static_cast<T>(read64(wave, operand));
  else
    return static_cast<T>(read32(wave, operand));
}
template <typename T> void write(Wave& wave, const Operand& operand, T value) {
  if constexpr (sizeof(T) == 8)
    write64(wave, operand, static_cast<u64>(value));
  else
    write32(wave, operand, static_cast<u32>(value));
}

// D = F(S0)
template <typename D, typename A, Scc Set, auto F> void unary(Wave& wave, const Instruction& i) {
  const D result = static_cast<D>(F(read<A>(wave, i.source[0])));
  write<D>(wave, i.destination[0], result);
  if constexpr (Set == Scc::NotZero) wave.scc = result != 0;
}

// D = F(S0, S1)
template <typename D, typename A, typename B, Scc Set, auto F> void binary(Wave& wave, const Instruction& i) {
  const D result = static_cast<D>(F(read<A>(wave, i.source[0]), read<B>(wave, i.source[1])));
  write<D>(wave, i.destination[0], result);
  if constexpr (Set == Scc::NotZero) wave.scc = result != 0;
}

// D = F(S0, S1, SCC), where F takes SCC by reference and sets it
template <typename D, auto F> void binary_scc(Wave& wave, const Instruction& i) {
  bool scc = wave.scc;
  const D result = F(read<D>(wave, i.source[0]), read<D>(wave, i.source[1]), scc);
  write<D>(wave, i.destination[0], result);
  wave.scc = scc;
}

}  // namespace apb::emu
