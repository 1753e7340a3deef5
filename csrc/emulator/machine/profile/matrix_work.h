// The kind of a matrix instruction, and the cycles that it occupies the matrix pipe.
#pragma once

#include <cstdint>

#include "execute/matrix.h"

namespace apb::emu {

// The kinds of rocprofv3's counters: SQ_INSTS_VALU_MFMA_*.
enum class MatrixKind : std::uint8_t { F16, Bf16, F32, F64, I8, F8, Xf32, F6F4 };
inline constexpr std::size_t kMatrixKinds = 8;

struct MatrixWork {
  MatrixKind kind{};
  std::uint32_t operations = 0;  // 2 x multiply-adds, as if nothing were masked or sparse
  std::uint32_t cycles = 0;
};

// `instruction` is bound, of category Mfma.
MatrixWork matrix_work(Target target, const Instruction& instruction);

}  // namespace apb::emu
