// The parts of a decode over a paged cache made one: each has the sum of its values, its largest score, and its sum of powers of 2.
//
// Build:  T = bf16 | f16    element type of the result
// Launch: grid x = heads, y = sequences, z = queries of a sequence at most, block x = 64, no LDS. A lane has 4 of 128 columns; the two
//         halves of a wave take parts in turn.
#include "common.hpp"

namespace ap {

using elem = T;
using quad = vec<float, 4>;
inline constexpr i32 kDepth = 128;

AP_INLINE u32 block_y() { return __builtin_amdgcn_workgroup_id_y(); }
AP_INLINE u32 block_z() { return __builtin_amdgcn_workgroup_id_z(); }
AP_INLINE float other_half(float x) {
  return __builtin_bit_cast(
      float, __builtin_amdgcn_ds_bpermute(static_cast<int>((thread_x() ^ 32) * 4), __builtin_bit_cast(int, x)));
}
typedef u32 loose __attribute__((ext_vector_type(2), aligned(2)));

}  // namespace ap

// out [rows, heads, 128] of sums [rows, heads, parts, 128] and ends [rows, heads, parts, 2]. Sequence i has the rows from starts[i];
// without `several` row i. A part that saw no key has the largest score -inf; its sum is not read.
AP_KERNEL(64)
void paged_decode_join(ap::elem* __restrict__ out, const float* __restrict__ sums, const float* __restrict__ ends,
                       const ap::i32* __restrict__ starts, ap::i32 heads, ap::i32 parts, ap::i32 several) {
  using namespace ap;
  const i32 sequence = static_cast<i32>(block_y());
  i64 row = sequence;
  if (several != 0) {
    row = static_cast<i64>(starts[sequence]) + block_z();
    if (row >= starts[sequence + 1]) return;
  }
  const i64 place = row * heads + block_x();
  const i32 column = static_cast<i32>(thread_x()) % 32, half = static_cast<i32>(thread_x()) / 32;
  sums += place * parts * kDepth;
  ends += place * parts * 2;
  float top = -__builtin_inff(), total = 0.0f;
  for (i32 i = 0; i < parts; ++i) top = max_num(top, ends[2 * i]);
  quad sum = {0.0f, 0.0f, 0.0f, 0.0f};
  for (i32 i = half; i < parts; i += 2) {
    if (ends[2 * i] == -__builtin_inff()) continue;
    const float weight = __builtin_amdgcn_exp2f(ends[2 * i] - top);
    total += weight * ends[2 * i + 1];
    sum += weight * reinterpret_cast<const quad*>(sums + static_cast<i64>(i) * kDepth)[column];
  }
  total += other_half(total);
#pragma unroll
  for (i32 i = 0; i < 4; ++i) sum[i] += other_half(sum[i]);
  if (half != 0) return;
  const float share = total == 0.0f ? 0.0f : 1.0f / total;
  vec<elem, 4> whole;
#pragma unroll
  for (i32 i = 0; i < 4; ++i) whole[i] = to_elem<elem>(sum[i] * share);
  *reinterpret_cast<loose*>(out + place * kDepth + column * 4) = __builtin_bit_cast(loose, whole);
}
