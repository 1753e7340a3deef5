// Operands as matrix_rows.h takes them: values, and exponents times 128 in pairs along k.
#include "lanes.h"
#include "matrix.h"
#include "processor.h"

namespace apb::emu {
namespace {

void pair_up(const i32* __restrict exponents, int k, int size, u32* __restrict pairs) {
  for (int p = 0; p < k / 2; ++p) {
    const i32 *even = exponents + 2 * p * size, *odd = even + size;
    for (int i = 0; i < size; ++i)
      pairs[p * size + i] = (static_cast<u32>(even[i]) << 7 & 0xffff) | static_cast<u32>(odd[i]) << 23;
  }
}

}  // namespace

ExponentRange unpack_pairs(Element element, Target target, const BlockSource& source, float* values, i32* exponents,
                           u32* pairs) {
  if (element == Element::Bf16 || element == Element::F16)
    return widest_vectors() == Vectors::Avx512 ? unpack_16_avx512(element, source, values, pairs)
                                               : unpack_16_avx2(element, source, values, pairs);
  const ExponentRange range = unpack_float(element, target, source, values, exponents);
  pair_up(exponents, source.k, source.size, pairs);
  return range;
}

}  // namespace apb::emu
