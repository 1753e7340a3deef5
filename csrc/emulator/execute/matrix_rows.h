// Fused dot products (matrix_fused.cpp says what they are) in 32-bit integers, for rows whose numbers lie close enough.
//
// The same text is compiled for each kind of vectors that processors have: I says how wide they are and names their
// instructions, and is a type without linkage, so that nothing compiled here is ever called on another processor.
//
// What makes it equal to the model: with product exponents in [-70, 30] every product is an exact f32, and 2^(24 - e),
// e the group's largest, is one too. Sums of products in units of 2^(e - 24) are below 2^29 (2^30 of 16), so:
//   near: an accumulator below 2^(e + 6), 2^30 units. Cut off to units it is added in 32 bits; the one rounding is that of
//     the sum's conversion. (Sums are cut at 2^(own - 31) too: finer than a unit here.)
//   far: one of at least 2^(e + 6). Units are 2^(own - 29), in which the accumulator is a whole number; the products are
//     cut off at a quarter of it, and what is below the unit makes its last bit odd. The sum keeps at least 26 bits, so
//     rounding to 24 does not see the difference. (16 products of formats with 4 bits or fewer come to at most 56 * 2^e.)
// Zeros have exponents below -70, and a group of them a sum of 0; -100 stands for less then, since no accumulator here
// has bits below 2^-117: those of a row are 0 or at least 2^-94, and no result is nearer to 0.
#pragma once

#include "matrix.h"

namespace apb::emu {

#define APB_INLINE [[gnu::always_inline]] static inline

// N columns, Count products in a group; `InTwo`: even and odd ones apart.
template <class I, int N, int Count, bool InTwo>
struct Rows {
  using Ints = typename I::Ints;
  using Floats = typename I::Floats;
  // At a time: so many vectors of so many rows, which share what is loaded of B.
  static constexpr int kColumns = N / I::kWidth, kVectors = kColumns < 2 ? kColumns : 2,
                       kRows = I::kTogether / kVectors;
  static constexpr int kHigh = static_cast<int>(0xffff0000u), kOne = 151 << 7 | 151 << 23;
  static constexpr int kLowest = -100 * 128, kLowestPair = static_cast<int>(kLowest * 65536u | (kLowest & 0xffff));

  using RowInts = Ints[kRows][kVectors];
  using RowFloats = Floats[kRows][kVectors];
  // The place of row i of A and of the columns, at the first of a group's products.
  struct Place {
    const float *a, *b;
    const std::uint32_t *a_pairs, *b_pairs;
  };

  // Exponents times 128 in pairs of 16 bits: the largest of even and of odd products.
  APB_INLINE void find_largest(const Place& at, RowInts& largest) {
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) largest[r][v] = I::all(kLowestPair);
    for (int p = 0; p < Count / 2; ++p) {
      Ints b[kVectors];
      for (int v = 0; v < kVectors; ++v) b[v] = I::load(at.b_pairs + p * N + v * I::kWidth);
      for (int r = 0; r < kRows; ++r) {
        const Ints a = I::all(static_cast<int>(at.a_pairs[p * N + r]));
        for (int v = 0; v < kVectors; ++v) largest[r][v] = I::max16(largest[r][v], I::add16(a, b[v]));
      }
    }
  }

  APB_INLINE Ints high_half(Ints pairs) { return I::bits_and(pairs, I::all(kHigh)); }

  APB_INLINE void add_products(const Place& at, int first, int step, const RowInts& scale, RowInts& sum) {
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = I::all(0);
    for (int k = first; k < Count; k += step) {
      Floats b[kVectors];
      for (int v = 0; v < kVectors; ++v) b[v] = I::load(at.b + k * N + v * I::kWidth);
      for (int r = 0; r < kRows; ++r) {
        const Floats a = I::all(at.a[k * N + r]);
        for (int v = 0; v < kVectors; ++v)
          sum[r][v] = I::add(sum[r][v], I::truncate(I::multiply(I::multiply(a, b[v]), I::as_floats(scale[r][v]))));
      }
    }
  }

  // `scale`: the bits of 2^(24 - e), e the group's largest exponent; sums are in its units.
  APB_INLINE void sum_group(const Place& at, RowInts& sum, RowInts& scale) {
    RowInts pairs;
    find_largest(at, pairs);
    if constexpr (InTwo) {
      RowInts odd_scale, odd;
      for (int r = 0; r < kRows; ++r) {
        for (int v = 0; v < kVectors; ++v) {
          const Ints both = I::sub16(I::all(kOne), pairs[r][v]);
          scale[r][v] = I::template left<16>(both);
          odd_scale[r][v] = high_half(both);
        }
      }
      add_products(at, 0, 2, scale, sum);
      add_products(at, 1, 2, odd_scale, odd);
      for (int r = 0; r < kRows; ++r) {
        for (int v = 0; v < kVectors; ++v) {
          const Ints larger = I::max16(pairs[r][v], I::swap_halves(pairs[r][v]));
          const Ints below = I::sub16(larger, pairs[r][v]);
          sum[r][v] = I::add(I::right(sum[r][v], I::template right_unsigned<23>(I::template left<16>(below))),
                             I::right(odd[r][v], I::template right_unsigned<23>(below)));
          scale[r][v] = high_half(I::sub16(I::all(kOne), larger));
        }
      }
    } else {
      for (int r = 0; r < kRows; ++r)
        for (int v = 0; v < kVectors; ++v)
          scale[r][v] = high_half(I::sub16(I::all(kOne), I::max16(pairs[r][v], I::swap_halves(pairs[r][v]))));
      add_products(at, 0, 1, scale, sum);
    }
  }

  // The sum in units of `scale` and the accumulator, near or far.
  APB_INLINE Floats add_accumulator(Ints sum, Ints scale, Floats c) {
    const Ints field = I::bits_and(I::as_ints(c), I::all(0x7f800000));
    const Ints own_scale =
        I::sub(I::all(static_cast<int>(283u << 23)), field);  // 2^(29 - own), beyond 2^127 of small ones
    const Ints unit = I::min_unsigned(scale, own_scale);
    const Ints beyond = I::template right_unsigned<23>(I::sub(scale, unit));  // own - e - 5 of far ones, 0 of near ones
    Ints products;
    if constexpr (InTwo) {  // no room for quarters beside the sum
      const Ints floor = I::right(sum, I::max(I::sub(beyond, I::all(2)), I::all(0)));
      const Ints last = I::min_unsigned(beyond, I::all(2));
      const Ints rest = I::sub(floor, I::left(I::right(floor, last), last));
      products = I::bits_or(I::right(floor, last), I::min_unsigned(rest, I::all(1)));
    } else {
      const Ints quarters = I::right(I::template left<2>(sum), beyond);
      const Ints rest = I::bits_and(quarters, I::all(3));
      products = I::bits_or(I::template right_signed<2>(quarters), I::min_unsigned(rest, I::all(1)));
    }
    const Floats units = I::multiply(c, I::as_floats(unit));
    Ints own = I::floor_to_ints(units);
    if constexpr (InTwo) own = I::zero_below_half(own, units);  // more than 25 exponents below counts as zero
    return I::multiply(I::to_floats(I::add(products, own)), I::as_floats(I::sub(I::all(254 << 23), unit)));
  }

  APB_INLINE Ints magnitude(Floats c) { return I::bits_and(I::as_ints(c), I::all(0x7fffffff)); }

  // Rows i, i + 1 .. of the block; `done` has what they become. Says whether accumulators and results were fit for it.
  APB_INLINE bool multiply_rows(const BlockCall& call, const RowPlace& place, int i, Floats (&done)[kRows][kColumns]) {
    const MatrixScratch& s = *call.scratch;
    Ints least = I::all(-1),
         most = I::all(0);  // of accumulators: magnitudes less 1, so that 0 does not count; magnitudes
    for (int column = 0; column < N; column += kVectors * I::kWidth) {
      Place at{s.a + i, s.b + column, s.a_pairs + i, s.b_pairs + column};
      RowFloats c;
      for (int r = 0; r < kRows; ++r) {
        for (int v = 0; v < kVectors; ++v) {
          c[r][v] = I::as_floats(I::load(call.c + place.offset(i + r) + column + v * I::kWidth));
          least = I::min_unsigned(least, I::sub(magnitude(c[r][v]), I::all(1)));
          most = I::max(most, magnitude(c[r][v]));
        }
      }
      for (int first = 0; first < call.k; first += Count) {
        RowInts sum, scale;
        sum_group(at, sum, scale);
        for (int r = 0; r < kRows; ++r)
          for (int v = 0; v < kVectors; ++v) c[r][v] = add_accumulator(sum[r][v], scale[r][v], c[r][v]);
        at = {at.a + Count * N, at.b + Count * N, at.a_pairs + Count / 2 * N, at.b_pairs + Count / 2 * N};
      }
      for (int r = 0; r < kRows; ++r) {
        for (int v = 0; v < kVectors; ++v) {
          most = I::max(most, magnitude(c[r][v]));  // one that became infinite on the way still is
          done[r][column / I::kWidth + v] = c[r][v];
        }
      }
    }
    const Ints tiny = I::sub(I::min_unsigned(least, I::all((33 << 23) - 1)), I::all((33 << 23) - 1));  // 2^-94
    return !I::any(I::bits_or(tiny, I::sub(I::max(most, I::all(0x7f7fffff)), I::all(0x7f7fffff))));
  }

  // Every row that can be done here; a bit for each that cannot.
  static std::uint32_t multiply(const BlockCall& call) {
    const RowPlace place{N, call.place.blocks, call.place.block, false};
    std::uint32_t undone = 0;
    for (int i = 0; i < N; i += kRows) {
      Floats done[kRows][kColumns];
      if (!multiply_rows(call, place, i, done)) [[unlikely]] {
        undone |= ((1u << kRows) - 1) << i;
        continue;
      }
      for (int r = 0; r < kRows; ++r)
        for (int v = 0; v < kColumns; ++v)
          I::store(call.d + place.offset(i + r) + v * I::kWidth, I::as_ints(done[r][v]));
    }
    return undone;
  }
};

template <class I, int N>
std::uint32_t multiply_columns(const BlockCall& call, FusedKind kind) {
  if (kind == FusedKind::GroupsOf16InTwo) return Rows<I, N, 16, true>::multiply(call);
  if (kind == FusedKind::GroupsOf4 || call.k == 4) return Rows<I, N, 4, false>::multiply(call);
  return Rows<I, N, 8, false>::multiply(call);
}

template <class I>
std::uint32_t multiply_rows(const BlockCall& call, FusedKind kind) {
  return call.place.size == 16 ? multiply_columns<I, 16>(call, kind) : multiply_columns<I, 32>(call, kind);
}

#undef APB_INLINE

}  // namespace apb::emu
