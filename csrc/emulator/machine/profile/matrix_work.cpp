// Cycles: four for each of the passes of CDNA3's and CDNA4's ISA documents, chapter 7, and of LLVM's scheduling models of gfx942 and gfx950.
// They follow from operations for each cycle and SIMD: f32, f64 64; xf32 256; f16, bf16 512; i8, fp8 1024. gfx950's shapes with twice the K,
// and sparse ones, do twice that, f8f6f4 2048 with an eight-bit operand and 4096 without; 16 and 8 bits in several blocks 256, f64 in
// several blocks 32; f64 of gfx950 half.
#include "machine/profile/matrix_work.h"

#include <algorithm>

namespace apb::emu {
namespace {

constexpr std::uint8_t kFirstNarrowFormat = 2;  // of f8f6f4: fp6, bf6, fp4 behind fp8, bf8
constexpr std::uint32_t kFewestCycles = 8;      // two passes

MatrixKind kind_of(const MatrixShape& shape, const Instruction& i) {
  switch (shape.a) {
    case Element::F64: return MatrixKind::F64;
    case Element::F32: return MatrixKind::F32;
    case Element::Xf32: return MatrixKind::Xf32;
    case Element::F16: return MatrixKind::F16;
    case Element::Bf16: return MatrixKind::Bf16;
    case Element::I8: return MatrixKind::I8;
    case Element::ByFormat:
      return i.cbsz >= kFirstNarrowFormat || i.blgp >= kFirstNarrowFormat ? MatrixKind::F6F4 : MatrixKind::F8;
    default: return MatrixKind::F8;
  }
}

std::uint32_t each_cycle(Target target, const MatrixShape& shape, const Instruction& i) {
  const bool many = shape.blocks > 1;
  switch (shape.a) {
    case Element::F64: return (many ? 32u : 64u) / (target == Target::Gfx950 ? 2 : 1);
    case Element::F32: return 64;
    case Element::Xf32: return 256;
    case Element::ByFormat: return i.cbsz >= kFirstNarrowFormat && i.blgp >= kFirstNarrowFormat ? 4096 : 2048;
    default: break;
  }
  if (many) return 256;
  const std::uint32_t rate = (element_bits(shape.a) == 16 ? 512 : 1024) * (shape.sparse ? 2 : 1);
  // A's stored bytes: more than two registers of it are gfx950's own shapes.
  const int stored = shape.m * (shape.sparse ? shape.k / 2 : shape.k) * element_bits(shape.a) / 8;
  return stored > 512 ? rate * 2 : rate;
}

}  // namespace

MatrixWork matrix_work(Target target, const Instruction& instruction) {
  const auto& shape = *static_cast<const MatrixShape*>(instruction.function);
  MatrixWork work;
  work.kind = kind_of(shape, instruction);
  work.operations = 2u * shape.m * shape.n * shape.k * shape.blocks;
  work.cycles = std::max(work.operations / each_cycle(target, shape, instruction), kFewestCycles);
  return work;
}

}  // namespace apb::emu
