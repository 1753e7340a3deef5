// VOP3P operands: which half of a source an instruction reads, and with which sign. For vector_packed*.cpp.
//
// op_sel and neg_lo concern the operation that gives the low half of the result, op_sel_hi and neg_hi the other. The
// VOP2 forms (v_pk_fmac, v_dot2c, ...) have no op_sel: halves stay where they are; the neg and abs of their VOP3 form
// mean both halves. A 16-bit inline constant fills the low half only and integers are 32 bits wide (the decoder has
// seen to that): gfx9's compilers use op_sel_hi:0 to read the low half twice.
#pragma once

#include "lanes.h"

namespace apb::emu {

struct Halves {
  u32 low_select, high_select;  // bit i: source i's upper half
  u32 low_sign, high_sign;      // bit i: negate
  u32 absolute;                 // bit i
};

inline Halves halves_of(const Instruction& i) {
  if (i.encoding == Encoding::Vop3p) return {i.opsel, i.opsel_hi, i.neg, i.neg_hi, 0};
  return {0, 7, i.neg, i.neg, i.abs};
}

// 16-bit halves of source `index` for the low and the high operation, in the low halves of the rows, zeros above.
inline void split_halves(const VectorCall& call, const Halves& halves, int index, bool is_float, u32* __restrict low,
                         u32* __restrict high) {
  const u32* __restrict source = call.source[index];
  const u32 low_shift = (halves.low_select >> index & 1) * 16, high_shift = (halves.high_select >> index & 1) * 16;
  const u32 keep = is_float && halves.absolute >> index & 1 ? 0x7fff : 0xffff;
  const u32 low_flip = is_float && halves.low_sign >> index & 1 ? 0x8000 : 0;
  const u32 high_flip = is_float && halves.high_sign >> index & 1 ? 0x8000 : 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    low[lane] = (source[lane] >> low_shift & keep) ^ low_flip;
    high[lane] = (source[lane] >> high_shift & keep) ^ high_flip;
  }
}

std::span<const VectorEntry> vector_packed_dot();  // vector_packed_dot.cpp: v_dot*

}  // namespace apb::emu
