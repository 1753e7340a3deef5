// Registers to dense arrays. Rows of M lanes are contiguous in a register row, so every loop here is over neighbouring
// lanes.
#include <bit>

#include "lanes.h"
#include "matrix.h"

namespace apb::emu {
namespace {

// How an element format is read: width, exponent of its smallest normal number, and its f32 bits from its code.
struct ReadF32 {
  static constexpr int bits = 32, smallest = -126;
  static u32 value(u32 code) { return code; }
};
struct ReadXf32 {
  static constexpr int bits = 32, smallest = -126;
  static u32 value(u32 code) {
    return code & 0xffffe000;
  }  // the low 13 bits are cut off, not rounded (measured: MMA-Sim)
};
struct ReadF16 {
  static constexpr int bits = 16, smallest = -14;
  static u32 value(u32 code) { return f16_to_f32_bits(code); }
};
struct ReadBf16 {
  static constexpr int bits = 16, smallest = -126;
  static u32 value(u32 code) { return code << 16; }
};

// Formats of 8 bits and less: put the fields at their f32 places and correct the bias by an exact product.
enum class Specials { none, fnuz, nan_only, ieee };
template <int width, int mantissa, int bias, Specials specials>
struct ReadSmall {
  static constexpr int bits = width, smallest = 1 - bias;
  static u32 value(u32 code) {
    constexpr u32 top = 1u << (width - 1);
    const u32 magnitude = code & (top - 1), sign = (code & top) << (32 - width);
    const float rebias = std::bit_cast<float>(static_cast<u32>(254 - bias) << 23);  // 2^(127 - bias)
    u32 out = bits_of(as_f32(magnitude << (23 - mantissa)) * rebias) | sign;
    if constexpr (specials == Specials::fnuz) out = code == top ? nan_f32 : out;
    if constexpr (specials == Specials::nan_only) out = magnitude == top - 1 ? nan_f32 : out;
    if constexpr (specials == Specials::ieee) out |= magnitude >= 0x7c ? 0x7f800000 : 0;
    return out;
  }
};
using ReadE4m3fnuz = ReadSmall<8, 3, 8, Specials::fnuz>;
using ReadE5m2fnuz = ReadSmall<8, 2, 16, Specials::fnuz>;
using ReadE4m3 = ReadSmall<8, 3, 7, Specials::nan_only>;
using ReadE5m2 = ReadSmall<8, 2, 15, Specials::ieee>;
using ReadE2m3 = ReadSmall<6, 3, 1, Specials::none>;
using ReadE3m2 = ReadSmall<6, 2, 3, Specials::none>;
using ReadE2m1 = ReadSmall<4, 1, 1, Specials::none>;

// One element of `size` neighbouring lanes. A zero has the exponent -126 whatever its format (MMA-Sim's model of
// CDNA3).
template <class Read, int size>
[[gnu::always_inline]] inline ExponentRange read_lanes(const u32* __restrict low, const u32* __restrict high, int shift,
                                                       float* __restrict values, i32* __restrict exponents) {
  constexpr u32 mask = Read::bits == 32 ? 0xffffffffu : (1u << (Read::bits % 32)) - 1;
  i32 largest = -126, smallest = 127;
#pragma clang loop vectorize(enable)
  for (int i = 0; i < size; ++i) {
    u32 code = low[i] >> shift;
    if (Read::bits == 6 && high) code |= high[i] << (32 - shift);  // a six-bit element across two registers
    const u32 bits = Read::value(code & mask);
    values[i] = as_f32(bits);
    const i32 field = static_cast<i32>(bits >> 23 & 0xff) - 127;
    i32 exponent = field < Read::smallest ? Read::smallest : field;
    const bool zero = (bits & 0x7fffffff) == 0;
    exponents[i] = zero ? -126 : exponent;
    const i32 for_smallest = zero ? 127 : exponent, for_largest = zero ? -126 : exponent;
    largest = for_largest > largest ? for_largest : largest;
    smallest = for_smallest < smallest ? for_smallest : smallest;
  }
  return {smallest, largest};
}

// Where along k the lanes of `group` have their element `e`. In halves: each four registers are one half of k.
template <int bits>
int k_of(const BlockSource& source, int group, int per_lane, int e) {
  constexpr int chunk = 128 / bits;
  return source.halves ? e / chunk * (source.k / 2) + group * chunk + e % chunk : group * per_lane + e;
}

template <class Read, int size>
ExponentRange unpack_block(const BlockSource& source, float* values, i32* exponents) {
  const int groups = 64 / (size * source.blocks), per_lane = source.k / groups;
  ExponentRange range;
  for (int group = 0; group < groups; ++group) {
    const int lane = size * (source.block + source.blocks * group);
    for (int e = 0; e < per_lane; ++e) {
      const int k = k_of<Read::bits>(source, group, per_lane, e);
      const int bit = e * Read::bits, shift = bit % 32;
      const u32* low = source.rows + bit / 32 * lanes + lane;
      const u32* high = shift + Read::bits > 32 ? low + lanes : nullptr;
      const ExponentRange row = read_lanes<Read, size>(low, high, shift, values + k * size, exponents + k * size);
      range.smallest = row.smallest < range.smallest ? row.smallest : range.smallest;
      range.largest = row.largest > range.largest ? row.largest : range.largest;
    }
  }
  return range;
}

template <class Read>
ExponentRange unpack_as(const BlockSource& source, float* values, i32* exponents) {
  switch (source.size) {
    case 4: return unpack_block<Read, 4>(source, values, exponents);
    case 16: return unpack_block<Read, 16>(source, values, exponents);
    default: return unpack_block<Read, 32>(source, values, exponents);
  }
}

}  // namespace

ExponentRange unpack_float(Element element, Target target, const BlockSource& source, float* values, i32* exponents) {
  const bool fnuz = target == Target::gfx942;
  switch (element) {
    case Element::f32: return unpack_as<ReadF32>(source, values, exponents);
    case Element::xf32: return unpack_as<ReadXf32>(source, values, exponents);
    case Element::f16: return unpack_as<ReadF16>(source, values, exponents);
    case Element::bf16: return unpack_as<ReadBf16>(source, values, exponents);
    case Element::fp8:
      return fnuz ? unpack_as<ReadE4m3fnuz>(source, values, exponents) : unpack_as<ReadE4m3>(source, values, exponents);
    case Element::bf8:
      return fnuz ? unpack_as<ReadE5m2fnuz>(source, values, exponents) : unpack_as<ReadE5m2>(source, values, exponents);
    case Element::fp6: return unpack_as<ReadE2m3>(source, values, exponents);
    case Element::bf6: return unpack_as<ReadE3m2>(source, values, exponents);
    default: return unpack_as<ReadE2m1>(source, values, exponents);
  }
}

void unpack_i8(const BlockSource& source, i32* pairs) {
  const int size = source.size, groups = 64 / (size * source.blocks), per_lane = source.k / groups;
  for (int group = 0; group < groups; ++group) {
    const u32* lane = source.rows + size * (source.block + source.blocks * group);
    for (int e = 0; e < per_lane; e += 2) {
      const u32* row = lane + e / 4 * lanes;
      i32* out = pairs + k_of<8>(source, group, per_lane, e) / 2 * size;
      const int shift = e % 4 * 8;
      for (int i = 0; i < size; ++i) {
        const u32 low = static_cast<u32>(static_cast<i32>(static_cast<i8>(row[i] >> shift))) & 0xffff;
        const u32 high = static_cast<u32>(static_cast<i32>(static_cast<i8>(row[i] >> (shift + 8))));
        out[i] = static_cast<i32>(low | high << 16);
      }
    }
  }
}

}  // namespace apb::emu
