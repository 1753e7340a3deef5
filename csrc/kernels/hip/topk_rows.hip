// The places of the k largest numbers of each row's range, in order of their places; of equal numbers the first ones.
//
// NaN counts above infinity. -0 is below 0, as in AITER's radix select. Behind the last place of a range with fewer than k numbers: -1, and 0 as its value.
// A block takes a row. Three steps of a radix select (11, 11 and 10 bits) find the k-th largest number; fewer where a step's
// digit is taken whole. A last walk in order writes what lies above it, and as many of its equals as are left.
//
// Build:  DECODE = 0             the range of row r is [starts[r], ends[r])
//                  1             it is [0, ends[r / next_n] - next_n + r % next_n + 1)
//         BLOCK = 1024           threads of a block
// Launch: grid x = rows, block x = BLOCK, no dynamic LDS.
#define ZEROS_DIFFER 1
#include "topk_select.hpp"

// logits[rows, columns], rows `stride` apart; indices[rows, k], values[rows, k] or null. A range is cut to the row.
AP_KERNEL(BLOCK)
void topk_rows(ap::i32* indices, float* values, const float* logits, [[maybe_unused]] const ap::i32* starts,
               const ap::i32* ends, ap::i32 columns, ap::i64 stride, ap::i32 k, [[maybe_unused]] ap::i32 next_n) {
  using namespace ap;
  __shared__ shared_words lds;
  i32 r = static_cast<i32>(block_x());
#if DECODE
  i32 start = 0, end = ends[r / next_n] - next_n + r % next_n + 1;
#else
  i32 start = starts[r], end = ends[r];
  start = start > 0 ? start : 0;
#endif
  end = end < columns ? end : columns;
  i32 size = end > start ? end - start : 0;
  const float* first = logits + r * stride + start;
  indices += static_cast<i64>(r) * k;
  if (values) values += static_cast<i64>(r) * k;
  if (size <= k) {
    for (i32 i = static_cast<i32>(thread_x()); i < k; i += BLOCK) {
      indices[i] = i < size ? start + i : -1;
      if (values) values[i] = i < size ? first[i] : 0.0f;
    }
    return;
  }
  auto all = row<float>::of(first, static_cast<u32>(size));
  threshold last = select(all, static_cast<u32>(k), lds);
  block_sync();
  emit(all, last, static_cast<u32>(k), lds, [&](u32 to, u32 at, u32) {
    indices[to] = start + static_cast<i32>(at);
    if (values) values[to] = first[at];
  });
}
