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
  static constexpr int kWidth = N < 8 ? N : 8, kVectors = N / kWidth;
};

// Step 2. `step` 2 takes every second product.
// Direct: all products are normal f32 numbers, so the f32 product is exact; otherwise significands and exponents go
// separate ways.
template <int N, bool Direct, bool Sparse>
[[gnu::always_inline]] inline void sum_products(const MatrixScratch& s, int i, int first, int count, int step,
                                                Sum<Columns<N>::kWidth, Columns<N>::kVectors>& out) {
  constexpr int kW = Columns<N>::kWidth, kV = Columns<N>::kVectors;
  const auto row_of = [&](int k) { return (Sparse ? s.selection[i * (kMatrixElements / 32) + k] : k) * N; };
  for (int v = 0; v < kV; ++v) out.largest[v] = Ints<kW>(-1000);
  for (int k = first; k < first + count; k += step) {
    const Ints<kW> ea(s.a_exponent[k * N + i]);
    const i32* eb = s.b_exponent + row_of(k);
    for (int v = 0; v < kV; ++v)
      out.largest[v] = __builtin_elementwise_max(out.largest[v], ea + load<Ints<kW>>(eb + v * kW));
  }
  Floats<kW> scale[kV];
  for (int v = 0; v < kV; ++v) {
    // Only sums of zeros have exponents below -100 in the direct case; their scale does not matter but must be finite.
    const Ints<kW> exponent = __builtin_elementwise_max(out.largest[v], Ints<kW>(-100));
    if constexpr (Direct) scale[v] = std::bit_cast<Floats<kW>>((127 + 24 - exponent) << 23);
    out.sum[v] = Ints<kW>(0);
  }
  for (int k = first; k < first + count; k += step) {
    const Floats<kW> a(s.a[k * N + i]);
    const Ints<kW> ea(s.a_exponent[k * N + i]);
    const int row = row_of(k);
    for (int v = 0; v < kV; ++v) {
      const Floats<kW> product = a * load<Floats<kW>>(s.b + row + v * kW);
      if constexpr (!Direct) {
        const Ints<kW> below = ea + load<Ints<kW>>(s.b_exponent + row + v * kW) - out.largest[v];
        scale[v] = std::bit_cast<Floats<kW>>((__builtin_elementwise_max(below, Ints<kW>(-100)) + (127 + 24)) << 23);
      }
      out.sum[v] += __builtin_convertvector(product * scale[v], Ints<kW>);  // towards zero
    }
  }
}

// Step 3 on W columns: `sum` in units of 2^(exponent - 24).
template <int W, bool ForgetsSmall>
[[gnu::always_inline]] inline Floats<W> add_accumulator(Doubles<W> sum, Ints<W> exponent, Floats<W> c) {
  const Ints<W> field = std::bit_cast<Ints<W>>(c) >> 23 & 0xff;
  const Ints<W> own = __builtin_elementwise_max(field, Ints<W>(1)) - 127;
  const Ints<W> larger = __builtin_elementwise_max(own, exponent);
  const Ints<W> below = __builtin_elementwise_max(exponent - larger, Ints<W>(-200));
  const Doubles<W> products = __builtin_elementwise_floor(sum * power_of_two<W>(below + 7));
  Doubles<W> accumulator =
      __builtin_elementwise_floor(__builtin_convertvector(c, Doubles<W>) * power_of_two<W>(24 - larger));
  if constexpr (ForgetsSmall) {
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
  if (std::isnan(plain)) return as_f32(kNanF32);
  if (std::isinf(plain)) return static_cast<float>(plain);
  if (positive && negative) return as_f32(kNanF32);
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

template <bool Sparse>
[[gnu::cold, gnu::noinline]] void row_scalar(const MatrixScratch& s, int n, int i, int first, int count, bool in_two,
                                             float* c) {
  Scalar products[16];
  for (int j = 0; j < n; ++j) {
    for (int k = 0; k < count; ++k) {
      const int at = (first + k) * n + i,
                row = (Sparse ? s.selection[i * (kMatrixElements / 32) + first + k] : first + k) * n + j;
      const double a = static_cast<double>(s.a[at]), b = static_cast<double>(s.b[row]);
      const int ea = s.a_exponent[at], eb = s.b_exponent[row];
      // Scaled operands and those outside f32's range are significands (s.special says which): see scratch_values().
      products[k] = {s.significands ? std::ldexp(a * b, ea + eb) : a * b, ea + eb};
    }
    c[j] = fused_scalar(products, count, c[j], in_two);
  }
}

// --- one block ---

template <int N, int Group, bool InTwo, bool Direct, bool Sparse>
void block(const BlockCall& call, u32 rows) {
  constexpr int kW = Columns<N>::kWidth, kV = Columns<N>::kVectors;
  constexpr int kH = kW < 4 ? kW : 4, kParts = kW / kH;  // doubles are half as many per register
  const MatrixScratch& s = *call.scratch;
  const int count = call.k < Group ? call.k : Group;
  for (int i = 0; i < N; ++i) {
    if ((rows >> i & 1) == 0) continue;
    const int at = call.place.offset(i);
    alignas(64) float c[N];
    __builtin_memcpy(c, call.c + at, sizeof c);
    for (int first = 0; first < call.k; first += count) {
      u32 largest = 0;
      for (int j = 0; j < N; ++j) largest = std::max(largest, bits_of(c[j]) & 0x7fffffff);
      if (s.special || largest >= 0x7f800000) [[unlikely]] {
        row_scalar<Sparse>(s, N, i, first, count, InTwo, c);
        continue;
      }
      Sum<kW, kV> even, odd;
      sum_products<N, Direct, Sparse>(s, i, first, count, InTwo ? 2 : 1, even);
      if constexpr (InTwo) sum_products<N, Direct, Sparse>(s, i, first + 1, count - 1, 2, odd);
      for (int v = 0; v < kV; ++v) {
        alignas(32) i32 sums[2][kW], exponents[2][kW];
        store(sums[0], even.sum[v]);
        store(exponents[0], even.largest[v]);
        if constexpr (InTwo) {
          store(sums[1], odd.sum[v]);
          store(exponents[1], odd.largest[v]);
        }
        for (int p = 0; p < kParts; ++p) {
          Doubles<kH> sum = __builtin_convertvector(load<Ints<kH>>(sums[0] + p * kH), Doubles<kH>);
          Ints<kH> exponent = load<Ints<kH>>(exponents[0] + p * kH);
          if constexpr (InTwo) {
            const Doubles<kH> other = __builtin_convertvector(load<Ints<kH>>(sums[1] + p * kH), Doubles<kH>);
            const Ints<kH> other_exponent = load<Ints<kH>>(exponents[1] + p * kH);
            const Ints<kH> larger = __builtin_elementwise_max(exponent, other_exponent);
            sum = __builtin_elementwise_floor(
                      sum * power_of_two<kH>(__builtin_elementwise_max(exponent - larger, Ints<kH>(-200)))) +
                  __builtin_elementwise_floor(
                      other * power_of_two<kH>(__builtin_elementwise_max(other_exponent - larger, Ints<kH>(-200))));
            exponent = larger;
          }
          float* columns = c + v * kW + p * kH;
          store(columns, add_accumulator<kH, InTwo>(sum, exponent, load<Floats<kH>>(columns)));
        }
      }
    }
    __builtin_memcpy(call.d + at, c, sizeof c);
  }
}

template <int N, int Group, bool InTwo, bool Sparse>
void choose_range(const BlockCall& call, u32 rows) {
  if (call.scratch->significands)
    block<N, Group, InTwo, false, Sparse>(call, rows);
  else
    block<N, Group, InTwo, true, Sparse>(call, rows);
}

template <int Group, bool InTwo>
void choose_shape(const BlockCall& call, bool sparse, u32 rows) {
  switch (call.place.size) {
    case 4: return choose_range<4, Group, InTwo, false>(call, rows);
    case 16:
      return sparse ? choose_range<16, Group, InTwo, true>(call, rows)
                    : choose_range<16, Group, InTwo, false>(call, rows);
    default:
      return sparse ? choose_range<32, Group, InTwo, true>(call, rows)
                    : choose_range<32, Group, InTwo, false>(call, rows);
  }
}

}  // namespace

void multiply_fused(const BlockCall& call, FusedKind kind, bool sparse, u32 rows) {
  switch (kind) {
    case FusedKind::GroupsOf4: return choose_shape<4, false>(call, sparse, rows);
    case FusedKind::GroupsOf8: return choose_shape<8, false>(call, sparse, rows);
    case FusedKind::GroupsOf16InTwo: return choose_shape<16, true>(call, sparse, rows);
  }
}

}  // namespace apb::emu
