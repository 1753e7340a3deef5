// Templates of the integer lane functions, shared by vector_integer*.cpp. Functions on u32 rows unless their name says more.
#pragma once

#include "lanes.h"

namespace apb::emu {

template <auto Operation>
void one_u32(VectorCall& call) {
  const u32* a = call.source[0];
  u32* __restrict out = call.out;
  for (int lane = 0; lane < kLanes; ++lane) out[lane] = Operation(a[lane]);
}
template <auto Operation>
void two_u32(VectorCall& call) {
  const u32 *a = call.source[0], *b = call.source[1];
  u32* __restrict out = call.out;
  for (int lane = 0; lane < kLanes; ++lane) out[lane] = Operation(a[lane], b[lane]);
}
template <auto Operation>
void three_u32(VectorCall& call) {
  const u32 *a = call.source[0], *b = call.source[1], *c = call.source[2];
  u32* __restrict out = call.out;
  for (int lane = 0; lane < kLanes; ++lane) out[lane] = Operation(a[lane], b[lane], c[lane]);
}

// 16-bit operations: operands without what lies above them, results with zeros there.
template <auto Operation>
void two_u16(VectorCall& call) {
  two_u32<[](u32 a, u32 b) { return static_cast<u32>(Operation(a & 0xffff, b & 0xffff)) & 0xffff; }>(call);
}
template <auto Operation>
void three_u16(VectorCall& call) {
  three_u32<[](u32 a, u32 b, u32 c) {
    return static_cast<u32>(Operation(a & 0xffff, b & 0xffff, c & 0xffff)) & 0xffff;
  }>(call);
}

std::span<const VectorEntry> vector_integer_logic();  // vector_integer.cpp: logic, shifts, bit fields, moves, min/max
std::span<const VectorEntry>
vector_integer_arithmetic();  // vector_integer_arithmetic.cpp: add, multiply, carries, 16 bit, saturation
std::span<const VectorEntry> vector_integer_bytes();  // vector_integer_bytes.cpp: sad, lerp, perm, pack

}  // namespace apb::emu
