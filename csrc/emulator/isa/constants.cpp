#include "constants.h"

#include <array>

namespace apb::emu {

namespace {

// 0.5, -0.5, 1, -1, 2, -2, 4, -4, 1/(2 pi): hardware numbers 240..248.
constexpr std::array<std::uint32_t, 9> single = {0x3f000000, 0xbf000000, 0x3f800000, 0xbf800000, 0x40000000,
                                                 0xc0000000, 0x40800000, 0xc0800000, 0x3e22f983};
constexpr std::array<std::uint16_t, 9> half = {0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118};
constexpr std::array<std::uint32_t, 9> upper = {0x3fe00000, 0xbfe00000, 0x3ff00000, 0xbff00000, 0x40000000,
                                                0xc0000000, 0x40100000, 0xc0100000, 0x3fc45f30};
constexpr std::uint32_t inverse_two_pi_lower = 0x6dc9c882;

}  // namespace

ConstantKind constant_kind(const Operand& operand) {
  switch (operand.format) {
    case Format::f16:
    case Format::pk_f16:
    case Format::pk2_f16: return ConstantKind::f16;
    case Format::bf16:
    case Format::pk2_bf16: return ConstantKind::bf16;
    case Format::f64:
    case Format::pk4_f64: return ConstantKind::f64;
    case Format::i64: return ConstantKind::signed64;
    case Format::u64:
    case Format::b64:
    case Format::m64: return ConstantKind::int64;
    default: return ConstantKind::f32;
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
    out.high = value < 0 && (out.dwords > 1 || kind == ConstantKind::f64) ? ~0u : 0;
    return true;
  }
  if (number < 240 || number > 248) return false;
  const std::uint32_t which = number - 240;
  out.high = 0;
  switch (constant_kind(out)) {
    case ConstantKind::f16: out.low = half[which]; break;
    case ConstantKind::bf16: out.low = single[which] >> 16; break;
    case ConstantKind::f64:
    case ConstantKind::int64:
    case ConstantKind::signed64:
      out.low = which == 8 ? inverse_two_pi_lower : 0;
      out.high = upper[which];
      break;
    case ConstantKind::f32: out.low = single[which]; break;
  }
  return true;
}

// 64 bits: a double's upper half; integers are extended, with sign only where the operand is signed.
void set_literal(std::uint32_t bits, Operand& out) {
  const ConstantKind kind = constant_kind(out);
  out.low = kind == ConstantKind::f64 ? 0 : bits;
  out.high = kind == ConstantKind::f64 ? bits : kind == ConstantKind::signed64 && bits >> 31 ? ~0u : 0;
}

}  // namespace apb::emu
