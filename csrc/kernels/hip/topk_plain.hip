// The k largest or smallest numbers of each row and their places, best first; of equal numbers the first ones, in order.
//
// NaN counts above infinity, and -0 is 0. A block takes a row: a radix select finds what is taken, a bitonic sort in LDS its order.
//
// Build:  T = bf16, f16, f32     element type
//         BLOCK = 1024           threads of a block
//         CAPACITY = 2048        k at most
// Launch: grid x = rows, block x = BLOCK, no dynamic LDS. k is at most the row's size.
#define ZEROS_DIFFER 0
#include "topk_select.hpp"

namespace ap {

using f32 = float;
using elem = T;

// Falling. `size` is a power of 2.
AP_INLINE void sort(u64* words, u32 size) {
  for (u32 run = 2; run <= size; run *= 2) {
    for (u32 apart = run / 2; apart > 0; apart /= 2) {
      block_sync();
      for (u32 t = thread_x(); t < size / 2; t += BLOCK) {
        u32 i = t + (t & ~(apart - 1)), j = i + apart;
        u64 a = words[i], b = words[j];
        if ((a < b) == ((i & run) == 0)) {
          words[i] = b;
          words[j] = a;
        }
      }
    }
  }
  block_sync();
}

}  // namespace ap

// x[rows, columns], rows `stride` apart; ids[rows, k], out[rows, k].
AP_KERNEL(BLOCK)
void topk_plain(ap::i32* ids, ap::elem* out, const ap::elem* x, ap::i32 columns, ap::i64 stride, ap::i32 k,
                ap::i32 largest) {
  using namespace ap;
  __shared__ shared_words lds;
  __shared__ u64 words[CAPACITY];  // rank, and the place turned, so that of equal ones the first is the largest
  i64 r = block_x();
  u32 count = static_cast<u32>(k), size = count > 1 ? 1u << (32 - __builtin_clz(count - 1)) : 1;
  auto all = row<elem>::of(x + r * stride, static_cast<u32>(columns), largest ? 0 : ~0u);
  for (u32 i = count + thread_x(); i < size; i += BLOCK) words[i] = 0;
  threshold last = select(all, count, lds);
  block_sync();
  emit(all, last, count, lds, [&](u32 to, u32 at, u32 rank) { words[to] = static_cast<u64>(rank) << 32 | ~at; });
  sort(words, size);
  for (u32 i = thread_x(); i < count; i += BLOCK) {
    u32 at = ~static_cast<u32>(words[i]);
    ids[r * k + i] = static_cast<i32>(at);
    out[r * k + i] = all.first[at];
  }
}
