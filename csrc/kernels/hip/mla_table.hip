// Tables for kernels that look into device memory for what others take as an argument.
//
// Launch: block x = 64, no LDS.
#include "common.hpp"

// Two addresses in a row. Launch: grid x = 1.
AP_KERNEL(64)
void table_of_two(ap::u64* table, const ap::i32* first, const ap::i32* second) {
  using namespace ap;
  if (thread_x() < 2) table[thread_x()] = reinterpret_cast<u64>(thread_x() == 0 ? first : second);
}

// The borders of parts of equal number: 0, step, 2 * step ... Launch: grid x = cdiv(n, 64).
AP_KERNEL(64)
void multiples(ap::i32* out, ap::i32 n, ap::i32 step) {
  using namespace ap;
  i32 i = static_cast<i32>(block_x() * 64 + thread_x());
  if (i < n) out[i] = i * step;
}
