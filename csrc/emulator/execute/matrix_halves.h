// 16-bit operands as matrix_rows.h takes them. Compiled for each kind of vectors, as that is.
#pragma once

#include "matrix.h"

namespace apb::emu {

using u16 = std::uint16_t;
using u32 = std::uint32_t;

template <int N>
using Halves = u16 __attribute__((ext_vector_type(N)));
template <int N>
using Words = u32 __attribute__((ext_vector_type(N)));

// The common part of 16-bit formats: a dword holds two values that are neighbours along k.
struct PairsOfBf16 {
  static constexpr int kSpecial = 255, kBias = 127;
  [[gnu::always_inline]] static int field(u32 magnitude) { return static_cast<int>(magnitude >> 7); }
  template <int N>
  [[gnu::always_inline]] static Words<N> value(Words<N> half) {
    return half << 16;
  }
  template <int N>
  [[gnu::always_inline]] static Halves<N> exponents(Halves<N> magnitudes) {
    return __builtin_elementwise_max(magnitudes & 0x7f80, Halves<N>(0x80)) - 127 * 128;
  }
};
struct PairsOfF16 {
  static constexpr int kSpecial = 31, kBias = 15;
  [[gnu::always_inline]] static int field(u32 magnitude) { return static_cast<int>(magnitude >> 10); }
  template <int N>
  [[gnu::always_inline]] static Words<N> value(Words<N> half) {
    using Floats = float __attribute__((ext_vector_type(N)));
    const Words<N> magnitude = (half & 0x7fff) << 13;  // infinities and NaNs do not come here
    return __builtin_bit_cast(Words<N>, __builtin_bit_cast(Floats, magnitude) * 0x1p112f) | (half & 0x8000) << 16;
  }
  template <int N>
  [[gnu::always_inline]] static Halves<N> exponents(Halves<N> magnitudes) {
    const Halves<N> normal = (__builtin_elementwise_max(magnitudes & 0x7c00, Halves<N>(0x400)) >> 3) - 15 * 128;
    return magnitudes == 0 ? Halves<N>(static_cast<u16>(-126 * 128)) : normal;
  }
};

// Reads N dwords, and keeps the largest magnitude of each place, and the smallest one less, so that zeros do not count.
template <class Read, int N>
[[gnu::always_inline]] inline void read_pairs(const u32* in, float* even, float* odd, u32* pairs,
                                              Halves<2 * N>& largest, Halves<2 * N>& smallest) {
  Words<N> words;
  __builtin_memcpy(&words, in, sizeof words);
  const Halves<2 * N> magnitudes = __builtin_bit_cast(Halves<2 * N>, words) & 0x7fff;
  largest = __builtin_elementwise_max(largest, magnitudes);
  smallest = __builtin_elementwise_min(smallest, magnitudes - 1);
  const Halves<2 * N> exponents = Read::template exponents<2 * N>(magnitudes);
  const Words<N> low = Read::template value<N>(words & 0xffff), high = Read::template value<N>(words >> 16);
  __builtin_memcpy(pairs, &exponents, sizeof exponents);
  __builtin_memcpy(even, &low, sizeof low);
  __builtin_memcpy(odd, &high, sizeof high);
}

template <class Read>
[[gnu::always_inline]] inline int exponent_of(u32 magnitude) {
  const int field = Read::field(magnitude);
  return field == Read::kSpecial ? 128 : (field > 1 ? field : 1) - Read::kBias;
}

// I keeps what is compiled for one kind of vectors apart from what is compiled for another.
template <class I, class Read, int Size>
ExponentRange unpack_halves(const BlockSource& source, float* values, u32* pairs) {
  constexpr int kN = 16;  // dwords at a time
  const int groups = 64 / Size / source.blocks, registers = source.k / groups / 2;
  Halves<2 * kN> largest(0), smallest(0xffff);
  for (int group = 0; group < groups; ++group) {
    const u32* in = source.rows + Size * (source.block + source.blocks * group);
    for (int r = 0; r < registers; ++r) {
      const int pair = group * registers + r;
      for (int i = 0; i < Size; i += kN) {
        float* even = values + 2 * pair * Size + i;
        read_pairs<Read, kN>(in + r * kLanes + i, even, even + Size, pairs + pair * Size + i, largest, smallest);
      }
    }
  }
  const u32 most = __builtin_reduce_max(largest), least = __builtin_reduce_min(smallest);
  ExponentRange range;
  if (most != 0) range = {exponent_of<Read>(least + 1), exponent_of<Read>(most)};
  return range;
}

// A block of bf16 or f16.
template <class I>
ExponentRange unpack_16(Element element, const BlockSource& source, float* values, u32* pairs) {
  const bool narrow = source.size == 16;
  if (element == Element::Bf16)
    return narrow ? unpack_halves<I, PairsOfBf16, 16>(source, values, pairs)
                  : unpack_halves<I, PairsOfBf16, 32>(source, values, pairs);
  return narrow ? unpack_halves<I, PairsOfF16, 16>(source, values, pairs)
                : unpack_halves<I, PairsOfF16, 32>(source, values, pairs);
}

}  // namespace apb::emu
