// The matrix instructions of each target, and the modifiers that they support.
#include <iterator>

#include "matrix.h"

namespace apb::emu {

int element_bits(Element element) {
  switch (element) {
    case Element::F64: return 64;
    case Element::F32:
    case Element::Xf32: return 32;
    case Element::F16:
    case Element::Bf16: return 16;
    case Element::Fp6:
    case Element::Bf6: return 6;
    case Element::Fp4: return 4;
    default: return 8;
  }
}

namespace {

using enum Element;
// The shapes that support CBSZ/ABID and BLGP: AMD's matrix instruction calculator (for CDNA4's: none, these fields have other
// uses).
constexpr MatrixShape kShapes[] = {
    {Opcode::V_MFMA_F32_32X32X1_2B_F32, 32, 32, 1, 2, F32, F32, false, true, true},
    {Opcode::V_MFMA_F32_16X16X1_4B_F32, 16, 16, 1, 4, F32, F32, false, true, true},
    {Opcode::V_MFMA_F32_4X4X1_16B_F32, 4, 4, 1, 16, F32, F32, false, true, true},
    {Opcode::V_MFMA_F32_32X32X2_F32, 32, 32, 2, 1, F32, F32, false, false, true},
    {Opcode::V_MFMA_F32_16X16X4_F32, 16, 16, 4, 1, F32, F32, false, false, true},
    {Opcode::V_MFMA_F32_32X32X4_2B_F16, 32, 32, 4, 2, F16, F16, false, true, true},
    {Opcode::V_MFMA_F32_16X16X4_4B_F16, 16, 16, 4, 4, F16, F16, false, true, true},
    {Opcode::V_MFMA_F32_4X4X4_16B_F16, 4, 4, 4, 16, F16, F16, false, true, true},
    {Opcode::V_MFMA_F32_32X32X8_F16, 32, 32, 8, 1, F16, F16},
    {Opcode::V_MFMA_F32_16X16X16_F16, 16, 16, 16, 1, F16, F16},
    {Opcode::V_MFMA_F32_32X32X16_F16, 32, 32, 16, 1, F16, F16},
    {Opcode::V_MFMA_F32_16X16X32_F16, 16, 16, 32, 1, F16, F16},
    {Opcode::V_MFMA_F32_32X32X4_2B_BF16, 32, 32, 4, 2, Bf16, Bf16, false, true, true},
    {Opcode::V_MFMA_F32_16X16X4_4B_BF16, 16, 16, 4, 4, Bf16, Bf16, false, true, true},
    {Opcode::V_MFMA_F32_4X4X4_16B_BF16, 4, 4, 4, 16, Bf16, Bf16, false, true, true},
    {Opcode::V_MFMA_F32_32X32X8_BF16, 32, 32, 8, 1, Bf16, Bf16},
    {Opcode::V_MFMA_F32_16X16X16_BF16, 16, 16, 16, 1, Bf16, Bf16},
    {Opcode::V_MFMA_F32_32X32X16_BF16, 32, 32, 16, 1, Bf16, Bf16},
    {Opcode::V_MFMA_F32_16X16X32_BF16, 16, 16, 32, 1, Bf16, Bf16},
    {Opcode::V_MFMA_F32_16X16X8_XF32, 16, 16, 8, 1, Xf32, Xf32},
    {Opcode::V_MFMA_F32_32X32X4_XF32, 32, 32, 4, 1, Xf32, Xf32},
    {Opcode::V_MFMA_F64_16X16X4_F64, 16, 16, 4, 1, F64, F64},
    {Opcode::V_MFMA_F64_4X4X4_4B_F64, 4, 4, 4, 4, F64, F64},
    {Opcode::V_MFMA_I32_32X32X4_2B_I8, 32, 32, 4, 2, Element::I8, Element::I8, false, true, true},
    {Opcode::V_MFMA_I32_16X16X4_4B_I8, 16, 16, 4, 4, Element::I8, Element::I8, false, true, true},
    {Opcode::V_MFMA_I32_4X4X4_16B_I8, 4, 4, 4, 16, Element::I8, Element::I8, false, true, true},
    {Opcode::V_MFMA_I32_32X32X16_I8, 32, 32, 16, 1, Element::I8, Element::I8},
    {Opcode::V_MFMA_I32_16X16X32_I8, 16, 16, 32, 1, Element::I8, Element::I8},
    {Opcode::V_MFMA_I32_32X32X32_I8, 32, 32, 32, 1, Element::I8, Element::I8},
    {Opcode::V_MFMA_I32_16X16X64_I8, 16, 16, 64, 1, Element::I8, Element::I8},
    {Opcode::V_MFMA_F32_16X16X32_FP8_FP8, 16, 16, 32, 1, Fp8, Fp8},
    {Opcode::V_MFMA_F32_16X16X32_FP8_BF8, 16, 16, 32, 1, Fp8, Bf8},
    {Opcode::V_MFMA_F32_16X16X32_BF8_FP8, 16, 16, 32, 1, Bf8, Fp8},
    {Opcode::V_MFMA_F32_16X16X32_BF8_BF8, 16, 16, 32, 1, Bf8, Bf8},
    {Opcode::V_MFMA_F32_32X32X16_FP8_FP8, 32, 32, 16, 1, Fp8, Fp8},
    {Opcode::V_MFMA_F32_32X32X16_FP8_BF8, 32, 32, 16, 1, Fp8, Bf8},
    {Opcode::V_MFMA_F32_32X32X16_BF8_FP8, 32, 32, 16, 1, Bf8, Fp8},
    {Opcode::V_MFMA_F32_32X32X16_BF8_BF8, 32, 32, 16, 1, Bf8, Bf8},
    {Opcode::V_MFMA_F32_16X16X128_F8F6F4, 16, 16, 128, 1, ByFormat, ByFormat},
    {Opcode::V_MFMA_F32_32X32X64_F8F6F4, 32, 32, 64, 1, ByFormat, ByFormat},
    {Opcode::V_MFMA_SCALE_F32_16X16X128_F8F6F4, 16, 16, 128, 1, ByFormat, ByFormat},
    {Opcode::V_MFMA_SCALE_F32_32X32X64_F8F6F4, 32, 32, 64, 1, ByFormat, ByFormat},
    {Opcode::V_SMFMAC_F32_16X16X32_F16, 16, 16, 32, 1, F16, F16, true},
    {Opcode::V_SMFMAC_F32_32X32X16_F16, 32, 32, 16, 1, F16, F16, true},
    {Opcode::V_SMFMAC_F32_16X16X64_F16, 16, 16, 64, 1, F16, F16, true},
    {Opcode::V_SMFMAC_F32_32X32X32_F16, 32, 32, 32, 1, F16, F16, true},
    {Opcode::V_SMFMAC_F32_16X16X32_BF16, 16, 16, 32, 1, Bf16, Bf16, true},
    {Opcode::V_SMFMAC_F32_32X32X16_BF16, 32, 32, 16, 1, Bf16, Bf16, true},
    {Opcode::V_SMFMAC_F32_16X16X64_BF16, 16, 16, 64, 1, Bf16, Bf16, true},
    {Opcode::V_SMFMAC_F32_32X32X32_BF16, 32, 32, 32, 1, Bf16, Bf16, true},
    {Opcode::V_SMFMAC_I32_16X16X64_I8, 16, 16, 64, 1, Element::I8, Element::I8, true},
    {Opcode::V_SMFMAC_I32_32X32X32_I8, 32, 32, 32, 1, Element::I8, Element::I8, true},
    {Opcode::V_SMFMAC_I32_16X16X128_I8, 16, 16, 128, 1, Element::I8, Element::I8, true},
    {Opcode::V_SMFMAC_I32_32X32X64_I8, 32, 32, 64, 1, Element::I8, Element::I8, true},
    {Opcode::V_SMFMAC_F32_16X16X64_FP8_FP8, 16, 16, 64, 1, Fp8, Fp8, true},
    {Opcode::V_SMFMAC_F32_16X16X64_FP8_BF8, 16, 16, 64, 1, Fp8, Bf8, true},
    {Opcode::V_SMFMAC_F32_16X16X64_BF8_FP8, 16, 16, 64, 1, Bf8, Fp8, true},
    {Opcode::V_SMFMAC_F32_16X16X64_BF8_BF8, 16, 16, 64, 1, Bf8, Bf8, true},
    {Opcode::V_SMFMAC_F32_32X32X32_FP8_FP8, 32, 32, 32, 1, Fp8, Fp8, true},
    {Opcode::V_SMFMAC_F32_32X32X32_FP8_BF8, 32, 32, 32, 1, Fp8, Bf8, true},
    {Opcode::V_SMFMAC_F32_32X32X32_BF8_FP8, 32, 32, 32, 1, Bf8, Fp8, true},
    {Opcode::V_SMFMAC_F32_32X32X32_BF8_BF8, 32, 32, 32, 1, Bf8, Bf8, true},
    {Opcode::V_SMFMAC_F32_16X16X128_FP8_FP8, 16, 16, 128, 1, Fp8, Fp8, true},
    {Opcode::V_SMFMAC_F32_16X16X128_FP8_BF8, 16, 16, 128, 1, Fp8, Bf8, true},
    {Opcode::V_SMFMAC_F32_16X16X128_BF8_FP8, 16, 16, 128, 1, Bf8, Fp8, true},
    {Opcode::V_SMFMAC_F32_16X16X128_BF8_BF8, 16, 16, 128, 1, Bf8, Bf8, true},
    {Opcode::V_SMFMAC_F32_32X32X64_FP8_FP8, 32, 32, 64, 1, Fp8, Fp8, true},
    {Opcode::V_SMFMAC_F32_32X32X64_FP8_BF8, 32, 32, 64, 1, Fp8, Bf8, true},
    {Opcode::V_SMFMAC_F32_32X32X64_BF8_FP8, 32, 32, 64, 1, Bf8, Fp8, true},
    {Opcode::V_SMFMAC_F32_32X32X64_BF8_BF8, 32, 32, 64, 1, Bf8, Bf8, true},
};

// gfx950's own shapes are those whose operands have more than two registers; it lost xf32.
bool exists_on(Target target, const MatrixShape& shape) {
  const int stored_bytes = shape.m * (shape.sparse ? shape.k / 2 : shape.k) * element_bits(shape.a) / 8;
  if (stored_bytes > 512) return target == Target::Gfx950;
  return shape.a != Xf32 || target == Target::Gfx942;
}

// Modifiers that the shape does not know would be silently without effect: refuse them.
bool modifiers_fit(const MatrixShape& shape, const Instruction& instruction) {
  if (shape.a == ByFormat) return instruction.cbsz < kMatrixFormats && instruction.blgp < kMatrixFormats;
  if (!shape.sparse && !shape.broadcast && (instruction.cbsz || instruction.abid)) return false;
  if (shape.broadcast && (1 << instruction.cbsz) > shape.blocks) return false;
  return shape.swizzle || shape.a == F64 || instruction.blgp == 0;
}

}  // namespace

const MatrixShape* find_matrix(Target target, const Instruction& instruction) {
  for (const MatrixShape& shape : kShapes) {
    if (shape.opcode == instruction.opcode)
      return exists_on(target, shape) && modifiers_fit(shape, instruction) ? &shape : nullptr;
  }
  return nullptr;
}

}  // namespace apb::emu
