// v_dot*: dot products of the parts of a dword, added to a 32-bit number. The v_dot*c forms (VOP2) accumulate in their
// destination.
//
// Float forms add in the order of AMD's pseudocode, each addition rounded: products of f16 and bf16 are exact in f32.
// Integer forms are exact; without clamp they wrap, with clamp the sum saturates.
#include "vector_packed.h"

namespace apb::emu {
namespace {

enum class Order : u8 { AccumulatorFirst, AccumulatorLast };

template <bool IsBf16, Order Summation>
void dot2_float(VectorCall& call) {
  alignas(64) u32 a[2][kLanes], b[2][kLanes];
  const Halves halves = halves_of(*call.instruction);
  split_halves(call, halves, 0, true, a[0], a[1]);
  split_halves(call, halves, 1, true, b[0], b[1]);
  const u32 flip = call.instruction->encoding == Encoding::Vop3p && call.instruction->neg >> 2 & 1 ? 0x80000000 : 0;
  const auto widen = [](u32 bits) { return as_f32(IsBf16 ? bits << 16 : f16_to_f32_bits(bits)); };
  for (int lane = 0; lane < kLanes; ++lane) {
    const float c = as_f32(call.source[2][lane] ^ flip);
    const float low = widen(a[0][lane]) * widen(b[0][lane]), high = widen(a[1][lane]) * widen(b[1][lane]);
    const float sum = Summation == Order::AccumulatorFirst ? (c + low) + high : (low + high) + c;
    call.out[lane] = is_nan_f32(bits_of(sum)) ? bits_of(sum) & 0x7fffffff : bits_of(sum);
  }
}

template <int Bits, bool IsSigned>
void dot_integer(VectorCall& call) {
  const bool clamp = call.instruction->clamp;
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 a = call.source[0][lane], b = call.source[1][lane], c = call.source[2][lane];
    i64 sum = IsSigned ? static_cast<i64>(static_cast<i32>(c)) : static_cast<i64>(c);
    for (int part = 0; part < 32 / Bits; ++part) {
      constexpr int kTop = 32 - Bits;
      const int up = kTop - part * Bits;
      if constexpr (IsSigned)
        sum += static_cast<i64>((static_cast<i32>(a << up) >> kTop) * (static_cast<i32>(b << up) >> kTop));
      else
        sum += static_cast<i64>(a << up >> kTop) * static_cast<i64>(b << up >> kTop);
    }
    constexpr i64 kLow = IsSigned ? -2147483648LL : 0, kHigh = IsSigned ? 2147483647LL : 4294967295LL;
    if (clamp) sum = sum < kLow ? kLow : sum > kHigh ? kHigh : sum;
    call.out[lane] = static_cast<u32>(sum);
  }
}

// The only integer form whose halves op_sel could choose.
template <bool IsSigned>
void dot2_integer(VectorCall& call) {
  alignas(64) u32 low[kLanes], high[kLanes], joined[2][kLanes];
  const Halves halves = halves_of(*call.instruction);
  VectorCall inner = call;
  for (int i = 0; i < 2; ++i) {
    split_halves(call, halves, i, false, low, high);
    for (int lane = 0; lane < kLanes; ++lane) joined[i][lane] = low[lane] | high[lane] << 16;
    inner.source[i] = joined[i];
  }
  dot_integer<16, IsSigned>(inner);
}

constexpr VectorEntry kEntries[] = {
    {Opcode::V_DOT2_F32_F16, dot2_float<false, Order::AccumulatorFirst>},
    {Opcode::V_DOT2_F32_BF16, dot2_float<true, Order::AccumulatorLast>},
    {Opcode::V_DOT2C_F32_F16, dot2_float<false, Order::AccumulatorFirst>, Mask::None, true},
    {Opcode::V_DOT2C_F32_BF16, dot2_float<true, Order::AccumulatorFirst>, Mask::None, true},
    {Opcode::V_DOT2_I32_I16, dot2_integer<true>},
    {Opcode::V_DOT2_U32_U16, dot2_integer<false>},
    {Opcode::V_DOT2C_I32_I16, dot2_integer<true>, Mask::None, true},
    {Opcode::V_DOT4_I32_I8, dot_integer<8, true>},
    {Opcode::V_DOT4_U32_U8, dot_integer<8, false>},
    {Opcode::V_DOT4C_I32_I8, dot_integer<8, true>, Mask::None, true},
    {Opcode::V_DOT8_I32_I4, dot_integer<4, true>},
    {Opcode::V_DOT8_U32_U4, dot_integer<4, false>},
    {Opcode::V_DOT8C_I32_I4, dot_integer<4, true>, Mask::None, true},
};

}  // namespace

std::span<const VectorEntry> vector_packed_dot() { return kEntries; }

}  // namespace apb::emu
