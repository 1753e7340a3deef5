// out[m, n, k] = input[m, n, k] OP other[m, n, k] of operands of two element types: fp32, one rounding of the exact result.
//
// Either operand may repeat along a dim (its stride is 0 there); out is contiguous.
//
// Build:  T, U = bf16 | f16 | f32   element types of input and of other
//         WIDE = 0                  any strides: a lane has eight elements that lie BLOCK apart, each read by itself
//                1                  eight neighbours in 16-byte accesses: K and the strides of rows are multiples of 8, pointers of 16 bytes
//         BLOCK = 256               threads of a block
// Launch: grid x = cdiv(total, BLOCK * 8), block x = BLOCK, no LDS.
#include "common.hpp"

namespace ap {

using f32 = float;
using first = T;
using second = U;
inline constexpr u32 kEach = 8;
using numbers = vec<float, kEach>;

enum class op : i32 { add, sub, mul, div };

// The operation is the same for all lanes: a scalar branch, outside of the elements.
AP_INLINE numbers apply(op which, numbers x, numbers y) {
  switch (which) {
    case op::add: return x + y;
    case op::sub: return x - y;
    case op::mul: return x * y;
    default: return x / y;
  }
}

template <typename E>
AP_INLINE numbers load(const E* in) {
  vec<E, kEach> found = *reinterpret_cast<const vec<E, kEach>*>(in);
  numbers x;
#pragma unroll
  for (u32 i = 0; i < kEach; ++i) x[i] = static_cast<float>(found[i]);
  return x;
}

// Element `at` of [M, N, K] as its three indices.
struct place {
  u32 m, n, k;
};
AP_INLINE place place_of(u32 at, u32 columns, u32 rows) {
  u32 row = at / columns, m = row / rows;
  return {m, row - m * rows, at - row * columns};
}

}  // namespace ap

// Strides are in elements.
AP_KERNEL(BLOCK)
void binary_mixed(float* out, const ap::first* input, const ap::second* other, ap::i32 total, ap::i32 rows, ap::i32 columns,
                  ap::i64 in_m, ap::i64 in_n, [[maybe_unused]] ap::i64 in_k, ap::i64 other_m, ap::i64 other_n,
                  [[maybe_unused]] ap::i64 other_k, ap::i32 which) {
  using namespace ap;
  u32 end = static_cast<u32>(total), width = static_cast<u32>(columns), height = static_cast<u32>(rows);
#if WIDE
  u32 at = (block_x() * BLOCK + thread_x()) * kEach;
  if (at >= end) return;
  place p = place_of(at, width, height);
  numbers x = load(input + p.m * in_m + p.n * in_n + p.k), y = load(other + p.m * other_m + p.n * other_n + p.k);
  *reinterpret_cast<numbers*>(out + at) = apply(static_cast<op>(which), x, y);
#else
  u32 begin = block_x() * BLOCK * kEach + thread_x();
  numbers x, y;
#pragma unroll
  for (u32 i = 0; i < kEach; ++i) {
    u32 at = begin + i * BLOCK;
    place p = place_of(at < end ? at : end - 1, width, height);  // past the end the last one again
    x[i] = static_cast<float>(input[p.m * in_m + p.n * in_n + p.k * in_k]);
    y[i] = static_cast<float>(other[p.m * other_m + p.n * other_n + p.k * other_k]);
  }
  x = apply(static_cast<op>(which), x, y);
#pragma unroll
  for (u32 i = 0; i < kEach; ++i) {
    u32 at = begin + i * BLOCK;
    if (at < end) out[at] = x[i];
  }
#endif
}
