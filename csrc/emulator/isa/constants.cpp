#include "constants.h"

#include <array>

namespace apb::emu {

namespace {

// 0.5, -0.5, 1, -1, 2, -2, 4, -4, 1/(2 pi): hardware numbers 240..248.
constexpr std::array<std::uint32_t, 9> kSingle = {0x3f000000, 0xbf000000, 0x3f800000, 0xbf800000, 0x40000000,
                                                  0xc0000000, 0x40800000, 0xc0800000, 0x3e22f983};
constexpr std::array<std::uint16_t, 9> kHalf = {0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118};
constexpr std::array<std::uint32_t, 9> kUpper = {0x3fe00000, 0xbfe00000, 0x3ff00000, 0xbff00000, 0x40000000,
                                                 0xc0000000, 0x40100000, 0xc0100000, 0x3fc45f30};
constexpr std::uint32_t kInverseTwoPiLower = 0x6dc9c882;

}  // namespace

ConstantKind constant_kind(const Operand& operand) {
  switch (operand.format) {
    case Format::F16:
    case Format::PkF16:
    case Format::Pk2F16: return ConstantKind::F16;
    case Format::Bf16:
    case Format::Pk2Bf16: return ConstantKind::Bf16;
    case Format::F64:
    case Format::Pk4F64: return ConstantKind::F64;
    case Format::I64: return ConstantKind::Signed64;
    case Format::U64:
    case Format::B64:
    case Format::M64: return ConstantKind::Int64;
    default: return ConstantKind::F32;
  }
}

// Floats for 16-bit operands: an f16 operation gets the half in the lower bits and zeros above them, also where it is packed;
// an integer operation gets the single, of which it reads the lower half (LLVM bug 46302). Integers are sign-extended always.
bool set_inline_constant(std::uint32_t number, Operand& out) {
  if (number >= 128 && number <= 208) {
    const std::int32_t value =
        number <= 192 ? static_cast<std::int32_t>(number) - 128 : 192 - static_cast<std::int32_t>(number);
    const ConstantKind kind = constant_kind(out);
    out.low = static_cast<std::uint32_t>(value);
    out.high = value < 0 && (out.dwords > 1 || kind == ConstantKind::F64) ? ~0u : 0;
    return true;
  }
  if (number < 240 || number > 248) return false;
  const std::uint32_t which = number - 240;
  out.high = 0;
  switch (constant_kind(out)) {
    case ConstantKind::F16: out.low = kHalf[which]; break;
    case ConstantKind::Bf16: out.low = kSingle[which] >> 16; break;
    case ConstantKind::F64:
    case ConstantKind::Int64:
    case ConstantKind::Signed64:
      out.low = which == 8 ? kInverseTwoPiLower : 0;
      out.high = kUpper[which];
      break;
    case ConstantKind::F32: out.low = kSingle[which]; break;
  }
  return true;
}

// 64 bits: a double's upper half; integers are extended, with sign only where the operand is signed.
void set_literal(std::uint32_t bits, Operand& out) {
  const ConstantKind kind = constant_kind(out);
  out.low = kind == ConstantKind::F64 ? 0 : bits;
  out.high = kind == ConstantKind::F64 ? bits : kind == ConstantKind::Signed64 && bits >> 31 ? ~0u : 0;
}

}  // namespace apb::emu
