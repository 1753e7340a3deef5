// Fused dot products of the narrow floating-point types.
//
// What the hardware computes is not documented. This is the model that Microsoft's MMA-Sim (arXiv 2511.10909) measured
// on CDNA3 and found equal to the card bit by bit; CDNA4 has no published model, so gfx950 uses the same one here. For
// each group of 8 products (f16, bf16; fewer when the shape has fewer), 4 (xf32) or 16 (fp8, bf8, and everything of
// f8f6f4):
//   1. Products are exact. A product's exponent is the sum of its factors' exponents, which stop at the format's
//   smallest normal.
//   2. All are cut off (towards zero) at 24 bits below the largest exponent of the group and added exactly.
//   3. That sum is cut off (towards minus infinity) at 31 bits, the accumulator at 24 bits below the larger one of the
//   two
//      exponents; they are added exactly and rounded to f32, to nearest even, once.
// Eight-bit groups sum even and odd products apart (2.), bring both to the larger exponent by cutting off towards minus
// infinity at 24 bits, and add them before 3., where an accumulator more than 25 exponents below counts as zero. NaN,
// infinite factors and an infinite accumulator act as in any sum; otherwise a product of 2^128 or more makes the sum
// infinite, two such of both signs NaN.
#include <bit>
#include <cmath>
#include <limits>

#include "lanes.h"
#include "matrix.h"

namespace apb::emu {
namespace {

template <int W>
using Floats = float __attribute__((ext_vector_type(W)));
template <int W>
using Ints = i32 __attribute__((ext_vector_type(W)));
template <int W>
using Doubles = double __attribute__((ext_vector_type(W)));
template <int W>
using Longs = i64 __attribute__((ext_vector_type(W)));

template <class V, class T>
[[gnu::always_inline]] inline V load(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class T, class V>
[[gnu::always_inline]] inline void store(T* p, V v) {
  __builtin_memcpy(p, &v, sizeof v);
}

template <int W>
[[gnu::always_inline]] inline Doubles<W> power_of_two(Ints<W> exponent) {  // within [-1022, 1023]
  return std::bit_cast<Doubles<W>>(__builtin_convertvector(exponent + 1023, Longs<W>) << 52);
}

// Products of one group for N columns: sums in units of 2^(largest - 24), and the largest exponents.
template <int W, int V>
struct Sum {
  Ints<W> sum[V], largest[V];
};

template <int N>
struct Columns {
  static constexpr int width = N < 8 ? N : 8, vectors = N / width;
};

// Step 2. `step` 2 takes every second product.
// Direct: all products are normal f32 numbers, so the f32 product is exact; otherwise significands and exponents go
// separate ways.
template <int N, bool direct, bool sparse>
[[gnu::always_inline]] inline void sum_products(const MatrixScratch& s, int i, int first, int count, int step,
                                                Sum<Columns<N>::width, Columns<N>::vectors>& out) {
  constexpr int W = Columns<N>::width, V = Columns<N>::vectors;
  const auto row_of = [&](int k) { return (sparse ? s.selection[i * (matrix_elements / 32) + k] : k) * N; };
  for (int v = 0; v < V; ++v) out.largest[v] = Ints<W>(-1000);
  for (int k = first; k < first + count; k += step) {
    const Ints<W> ea(s.a_exponent[k * N + i]);
    const i32* eb = s.b_exponent + row_of(k);
    for (int v = 0; v < V; ++v)
      out.largest[v] = __builtin_elementwise_max(out.largest[v], ea + load<Ints<W>>(eb + v * W));
  }
  Floats<W> scale[V];
  for (int v = 0; v < V; ++v) {
    // Only sums of zeros have exponents below -100 in the direct case; their scale does not matter but must be finite.
    const Ints<W> exponent = __builtin_elementwise_max(out.largest[v], Ints<W>(-100));
    if constexpr (direct) scale[v] = std::bit_cast<Floats<W>>((127 + 24 - exponent) << 23);
    out.sum[v] = Ints<W>(0);
  }
  for (int k = first; k < first + count; k += step) {
    const Floats<W> a(s.a[k * N + i]);
    const Ints<W> ea(s.a_exponent[k * N + i]);
    const int row = row_of(k);
    for (int v = 0; v < V; ++v) {
      const Floats<W> product = a * load<Floats<W>>(s.b + row + v * W);
      if constexpr (!direct) {
        const Ints<W> below = ea + load<Ints<W>>(s.b_exponent + row + v * W) - out.largest[v];
        scale[v] = std::bit_cast<Floats<W>>((__builtin_elementwise_max(below, Ints<W>(-100)) + (127 + 24)) << 23);
      }
      out.sum[v] += __builtin_convertvector(product * scale[v], Ints<W>);  // towards zero
    }
  }
}

// Step 3 on W columns: `sum` in units of 2^(exponent - 24).
template <int W, bool forgets_small>
[[gnu::always_inline]] inline Floats<W> add_accumulator(Doubles<W> sum, Ints<W> exponent, Floats<W> c) {
  const Ints<W> field = std::bit_cast<Ints<W>>(c) >> 23 & 0xff;
  const Ints<W> own = __builtin_elementwise_max(field, Ints<W>(1)) - 127;
  const Ints<W> larger = __builtin_elementwise_max(own, exponent);
  const Ints<W> below = __builtin_elementwise_max(exponent - larger, Ints<W>(-200));
  const Doubles<W> products = __builtin_elementwise_floor(sum * power_of_two<W>(below + 7));
  Doubles<W> accumulator =
      __builtin_elementwise_floor(__builtin_convertvector(c, Doubles<W>) * power_of_two<W>(24 - larger));
  if constexpr (forgets_small) {
    const Longs<W> keep = __builtin_convertvector(own >= larger - 25, Longs<W>);
    accumulator = std::bit_cast<Doubles<W>>(std::bit_cast<Longs<W>>(accumulator) & keep);
  }
  return __builtin_convertvector((products + accumulator * 128.0) * power_of_two<W>(larger - 31), Floats<W>);
}

// --- the same for one result, with infinities and NaN ---

struct Scalar {
  double value;  // with its sign, significand and exponent multiplied out
  int exponent;
};

// Sum of the products first, first + step, ... in units of 2^(exponent - 24).
Scalar sum_scalar(const Scalar* products, int count, int first, int step) {
  int largest = -1000;
  for (int k = first; k < count; k += step) largest = products[k].exponent > largest ? products[k].exponent : largest;
  double sum = 0;
  for (int k = first; k < count; k += step) sum += std::trunc(std::ldexp(products[k].value, 24 - largest));
  return {sum, largest};
}

float fused_scalar(const Scalar* products, int count, float c, bool in_two) {
  double plain = static_cast<double>(c);
  bool positive = false, negative = false;
  for (int k = 0; k < count; ++k) {
    plain += products[k].value;
    positive |= products[k].value >= 0x1p128;
    negative |= products[k].value <= -0x1p128;
  }
  if (std::isnan(plain)) return as_f32(nan_f32);
  if (std::isinf(plain)) return static_cast<float>(plain);
  if (positive && negative) return as_f32(nan_f32);
  if (positive || negative) return positive ? as_f32(0x7f800000) : as_f32(0xff800000);
  Scalar sum = sum_scalar(products, count, 0, in_two ? 2 : 1);
  if (in_two) {
    const Scalar odd = sum_scalar(products, count, 1, 2);
    const int larger = sum.exponent > odd.exponent ? sum.exponent : odd.exponent;
    sum = {std::floor(std::ldexp(sum.value, sum.exponent - larger)) +
               std::floor(std::ldexp(odd.value, odd.exponent - larger)),
           larger};
  }
  const int own = std::max(static_cast<int>(bits_of(c) >> 23 & 0xff), 1) - 127;
  const int larger = own > sum.exponent ? own : sum.exponent;
  const double products_part = std::floor(std::ldexp(sum.value, 7 + sum.exponent - larger));
  const double accumulator =
      in_two && own < larger - 25 ? 0 : std::floor(std::ldexp(static_cast<double>(c), 24 - larger));
  return static_cast<float>(std::ldexp(products_part + accumulator * 128, larger - 31));
}

template <bool sparse>
[[gnu::cold, gnu::noinline]] void row_scalar(const MatrixScratch& s, int n, int i, int first, int count, bool in_two,
                                             float* c) {
  Scalar products[16];
  for (int j = 0; j < n; ++j) {
    for (int k = 0; k < count; ++k) {
      const int at = (first + k) * n + i,
                row = (sparse ? s.selection[i * (matrix_elements / 32) + first + k] : first + k) * n + j;
      const double a = static_cast<double>(s.a[at]), b = static_cast<double>(s.b[row]);
      const int ea = s.a_exponent[at], eb = s.b_exponent[row];
      // Scaled operands and those outside f32's range are significands (s.special says which): see scratch_values().
      products[k] = {s.significands ? std::ldexp(a * b, ea + eb) : a * b, ea + eb};
    }
    c[j] = fused_scalar(products, count, c[j], in_two);
  }
}

// --- one block ---

template <int N, int group, bool in_two, bool direct, bool sparse>
void block(const BlockCall& call) {
  constexpr int W = Columns<N>::width, V = Columns<N>::vectors;
  constexpr int H = W < 4 ? W : 4, parts = W / H;  // doubles are half as many per register
  const MatrixScratch& s = *call.scratch;
  const int count = call.k < group ? call.k : group;
  for (int i = 0; i < N; ++i) {
    const int at = call.place.offset(i);
    alignas(64) float c[N];
    __builtin_memcpy(c, call.c + at, sizeof c);
    for (int first = 0; first < call.k; first += count) {
      u32 largest = 0;
      for (int j = 0; j < N; ++j) largest = std::max(largest, bits_of(c[j]) & 0x7fffffff);
      if (s.special || largest >= 0x7f800000) [[unlikely]] {
        row_scalar<sparse>(s, N, i, first, count, in_two, c);
        continue;
      }
      Sum<W, V> even, odd;
      sum_products<N, direct, sparse>(s, i, first, count, in_two ? 2 : 1, even);
      if constexpr (in_two) sum_products<N, direct, sparse>(s, i, first + 1, count - 1, 2, odd);
      for (int v = 0; v < V; ++v) {
        alignas(32) i32 sums[2][W], exponents[2][W];
        store(sums[0], even.sum[v]);
        store(exponents[0], even.largest[v]);
        if constexpr (in_two) {
          store(sums[1], odd.sum[v]);
          store(exponents[1], odd.largest[v]);
        }
        for (int p = 0; p < parts; ++p) {
          Doubles<H> sum = __builtin_convertvector(load<Ints<H>>(sums[0] + p * H), Doubles<H>);
          Ints<H> exponent = load<Ints<H>>(exponents[0] + p * H);
          if constexpr (in_two) {
            const Doubles<H> other = __builtin_convertvector(load<Ints<H>>(sums[1] + p * H), Doubles<H>);
            const Ints<H> other_exponent = load<Ints<H>>(exponents[1] + p * H);
            const Ints<H> larger = __builtin_elementwise_max(exponent, other_exponent);
            sum = __builtin_elementwise_floor(
                      sum * power_of_two<H>(__builtin_elementwise_max(exponent - larger, Ints<H>(-200)))) +
                  __builtin_elementwise_floor(
                      other * power_of_two<H>(__builtin_elementwise_max(other_exponent - larger, Ints<H>(-200))));
            exponent = larger;
          }
          float* columns = c + v * W + p * H;
          store(columns, add_accumulator<H, in_two>(sum, exponent, load<Floats<H>>(columns)));
        }
      }
    }
    __builtin_memcpy(call.d + at, c, sizeof c);
  }
}

template <int N, int group, bool in_two, bool sparse>
void choose_range(const BlockCall& call) {
  if (call.scratch->significands)
    block<N, group, in_two, false, sparse>(call);
  else
    block<N, group, in_two, true, sparse>(call);
}

template <int group, bool in_two>
void choose_shape(const BlockCall& call, bool sparse) {
  switch (call.place.size) {
    case 4: return choose_range<4, group, in_two, false>(call);
    case 16: return sparse ? choose_range<16, group, in_two, true>(call) : choose_range<16, group, in_two, false>(call);
    default: return sparse ? choose_range<32, group, in_two, true>(call) : choose_range<32, group, in_two, false>(call);
  }
}

}  // namespace

void multiply_fused(const BlockCall& call, FusedKind kind, bool sparse) {
  switch (kind) {
    case FusedKind::groups_of_4: return choose_shape<4, false>(call, sparse);
    case FusedKind::groups_of_8: return choose_shape<8, false>(call, sparse);
    case FusedKind::groups_of_16_in_two: return choose_shape<16, true>(call, sparse);
  }
}

}  // namespace apb::emu
