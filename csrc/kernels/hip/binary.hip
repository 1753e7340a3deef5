// out[m, n, k] = input[m, n, k] OP other[m, n, k], one rounding of the exact result (bf16 and fp16: of the fp32 one).
//
// Either operand may repeat along a dim (its stride is 0 there); out is contiguous. A caller merges the dims that lie behind one
// another first, so that rows are as long as they can be.
//
// Build:  T = bf16 | f16 | f32   element type of all three
//         FORM = 0               any strides: a lane has elements that lie BLOCK apart, each read by itself
//                1               both operands are read along the row in 16-byte accesses
//                2, 3            as 1, but other (2) or input (3) has one number for a row
//                1 to 3: K and the strides of rows multiples of 16 bytes, and so are all pointers
//         BLOCK = 256            threads of a block
// Launch: grid x = cdiv(total, BLOCK * 16 / sizeof(T)), block x = BLOCK, no LDS.
#include "common.hpp"

namespace ap {

using f32 = float;
using elem = T;
inline constexpr u32 kPack = 16 / sizeof(elem);  // elements of one 16-byte access
using pack = vec<elem, kPack>;

enum class op : i32 { add, sub, mul, div };

// The operation is the same for all lanes: a scalar branch, outside of the elements.
AP_INLINE pack apply(op which, pack a, pack b) {
  vec<float, kPack> x, y;
#pragma unroll
  for (u32 i = 0; i < kPack; ++i) {
    x[i] = static_cast<float>(a[i]);
    y[i] = static_cast<float>(b[i]);
  }
  switch (which) {
    case op::add: x = x + y; break;
    case op::sub: x = x - y; break;
    case op::mul: x = x * y; break;
    case op::div: x = x / y; break;
  }
  pack result;
#pragma unroll
  for (u32 i = 0; i < kPack; ++i) result[i] = to_elem<elem>(x[i]);
  return result;
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

// Strides are in elements. out may be input itself: a lane reads its elements before it writes them, and nobody else reads them.
AP_KERNEL(BLOCK)
void binary_elementwise(ap::elem* out, const ap::elem* input, const ap::elem* other, ap::i32 total, ap::i32 rows,
                        ap::i32 columns, ap::i64 in_m, ap::i64 in_n, [[maybe_unused]] ap::i64 in_k, ap::i64 other_m,
                        ap::i64 other_n, [[maybe_unused]] ap::i64 other_k, ap::i32 which) {
  using namespace ap;
  u32 end = static_cast<u32>(total), width = static_cast<u32>(columns), height = static_cast<u32>(rows);
#if FORM
  u32 at = (block_x() * BLOCK + thread_x()) * kPack;
  if (at >= end) return;
  place p = place_of(at, width, height);
  const elem* a = input + p.m * in_m + p.n * in_n;
  const elem* b = other + p.m * other_m + p.n * other_n;
  pack x, y;
  if constexpr (FORM == 3) {
    x = *a;
  } else {
    x = *reinterpret_cast<const pack*>(a + p.k);
  }
  if constexpr (FORM == 2) {
    y = *b;
  } else {
    y = *reinterpret_cast<const pack*>(b + p.k);
  }
  *reinterpret_cast<pack*>(out + at) = apply(static_cast<op>(which), x, y);
#else
  u32 first = block_x() * BLOCK * kPack + thread_x();
  pack x, y;
#pragma unroll
  for (u32 i = 0; i < kPack; ++i) {
    u32 at = first + i * BLOCK;
    place p = place_of(at < end ? at : end - 1, width, height);  // past the end the last one again
    x[i] = input[p.m * in_m + p.n * in_n + p.k * in_k];
    y[i] = other[p.m * other_m + p.n * other_n + p.k * other_k];
  }
  x = apply(static_cast<op>(which), x, y);
#pragma unroll
  for (u32 i = 0; i < kPack; ++i) {
    u32 at = first + i * BLOCK;
    if (at < end) out[at] = x[i];
  }
#endif
}
