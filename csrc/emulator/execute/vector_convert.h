// Shared code of the conversion family.
#pragma once

#include "lanes.h"
#include "small_float.h"

namespace apb::emu {

// Tables of the parts; vector_convert_table() joins them.
std::span<const VectorEntry> vector_convert_small();  // vector_convert_small.cpp: fp8, bf8
std::span<const VectorEntry>
vector_convert_scale();  // vector_convert_scale.cpp: gfx950's scaled ones of one or two elements
std::span<const VectorEntry> vector_convert_scale_block();  // vector_convert_scale_block.cpp: of 32 elements

// The old destination of an instruction that keeps part of it: source 2, or 3 when it has three sources already.
inline const u32* old_destination(const VectorCall& call) {
  return call.source[call.instruction->source[2].used() ? 3 : 2];
}

// f16 of a widened small value: its few significant bits are exact in f32. With MODE.FP16_OVFL finite values stay
// finite.
inline u32 widened_half(double value, bool saturate) {
  const u32 half = f32_to_f16(static_cast<float>(value));
  const bool finite = (bits_of(value) & 0x7ff0000000000000) != 0x7ff0000000000000;
  return saturate && finite && (half & 0x7fff) == 0x7c00 ? half - 1 : half;
}

// The destination byte that the instruction writes: op_sel[3:2].
inline u32 selected_byte(const VectorCall& call) { return (call.instruction->opsel >> 2 & 3) * 8; }

}  // namespace apb::emu
