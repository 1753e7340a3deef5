// Scalar reads and writes of decoded operands. Everything that names a scalar register goes through these.
#pragma once

#include <cstdint>

#include "isa/instruction.h"
#include "wave.h"

namespace apb::emu {

// The hardware's source numbers of the values that only exist while a wave runs.
namespace source_number {
inline constexpr int kSharedBase = 235, kSharedLimit = 236, kPrivateBase = 237, kPrivateLimit = 238;
inline constexpr int kPopsExitingWaveId = 239, kVccz = 251, kExecz = 252, kScc = 253, kLdsDirect = 254;
}  // namespace source_number

// Value of an operand of kind `special`, 64 bits wide: apertures (the limits are base + 4 GiB - 1), vccz, execz, scc as 0 or 1.
// lds_direct never gets here: bind() rejects instructions with it (neither target has it).
[[nodiscard]] std::uint64_t special(const Wave& wave, const Operand& operand);

// An operand of kind sgpr, constant or special. bind() has made sure that sgpr operands end inside the scalar file.
[[nodiscard]] inline std::uint32_t read32(const Wave& wave, const Operand& operand) {
  if (operand.kind == OperandKind::Sgpr) [[likely]]
    return wave.scalar[operand.index];
  if (operand.kind == OperandKind::Constant) return operand.low;
  return static_cast<std::uint32_t>(special(wave, operand));
}

[[nodiscard]] inline std::uint64_t read64(const Wave& wave, const Operand& operand) {
  if (operand.kind == OperandKind::Sgpr) [[likely]]
    return wave.pair(operand.index);
  if (operand.kind == OperandKind::Constant) return operand.low | static_cast<std::uint64_t>(operand.high) << 32;
  return special(wave, operand);
}

inline void write32(Wave& wave, const Operand& operand, std::uint32_t value) { wave.scalar[operand.index] = value; }
inline void write64(Wave& wave, const Operand& operand, std::uint64_t value) { wave.set_pair(operand.index, value); }

}  // namespace apb::emu
