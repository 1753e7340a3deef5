// Registers to dense arrays. Rows of M lanes are contiguous in a register row, so every loop here is over neighbouring
// lanes.
#include <bit>

#include "lanes.h"
#include "matrix.h"

namespace apb::emu {
namespace {

// The decoding of an element format: width, exponent of its smallest normal number, and its f32 bits from its code.
struct ReadF32 {
  static constexpr int kBits = 32, kSmallest = -126;
  static u32 value(u32 code) { return code; }
};
struct ReadXf32 {
  static constexpr int kBits = 32, kSmallest = -126;
  static u32 value(u32 code) {
    return code & 0xffffe000;
  }  // the low 13 bits are cut off, not rounded (measured: MMA-Sim)
};
struct ReadF16 {
  static constexpr int kBits = 16, kSmallest = -14;
  static u32 value(u32 code) { return f16_to_f32_bits(code); }
};
struct ReadBf16 {
  static constexpr int kBits = 16, kSmallest = -126;
  static u32 value(u32 code) { return code << 16; }
};

// Formats of 8 bits and less: put the fields at their f32 places and correct the bias by an exact product.
enum class Specials { None, Fnuz, NanOnly, Ieee };
template <int Width, int Mantissa, int Bias, Specials Kind>
struct ReadSmall {
  static constexpr int kBits = Width, kSmallest = 1 - Bias;
  static u32 value(u32 code) {
    constexpr u32 kTop = 1u << (Width - 1);
    const u32 magnitude = code & (kTop - 1), sign = (code & kTop) << (32 - Width);
    const float rebias = std::bit_cast<float>(static_cast<u32>(254 - Bias) << 23);  // 2^(127 - bias)
    u32 out = bits_of(as_f32(magnitude << (23 - Mantissa)) * rebias) | sign;
    if constexpr (Kind == Specials::Fnuz) out = code == kTop ? kNanF32 : out;
    if constexpr (Kind == Specials::NanOnly) out = magnitude == kTop - 1 ? kNanF32 : out;
    if constexpr (Kind == Specials::Ieee) out |= magnitude >= 0x7c ? 0x7f800000 : 0;
    return out;
  }
};
using ReadE4m3fnuz = ReadSmall<8, 3, 8, Specials::Fnuz>;
using ReadE5m2fnuz = ReadSmall<8, 2, 16, Specials::Fnuz>;
using ReadE4m3 = ReadSmall<8, 3, 7, Specials::NanOnly>;
using ReadE5m2 = ReadSmall<8, 2, 15, Specials::Ieee>;
using ReadE2m3 = ReadSmall<6, 3, 1, Specials::None>;
using ReadE3m2 = ReadSmall<6, 2, 3, Specials::None>;
using ReadE2m1 = ReadSmall<4, 1, 1, Specials::None>;

// One element of `size` neighbouring lanes. A zero has the exponent -126 whatever its format (MMA-Sim's model of
// CDNA3).
template <class Read, int Size>
[[gnu::always_inline]] inline ExponentRange read_lanes(const u32* __restrict low, const u32* __restrict high, int shift,
                                                       float* __restrict values, i32* __restrict exponents) {
  constexpr u32 kMask = Read::kBits == 32 ? 0xffffffffu : (1u << (Read::kBits % 32)) - 1;
  i32 largest = -126, smallest = 127;
#pragma clang loop vectorize(enable)
  for (int i = 0; i < Size; ++i) {
    u32 code = low[i] >> shift;
    if (Read::kBits == 6 && high) code |= high[i] << (32 - shift);  // a six-bit element across two registers
    const u32 bits = Read::value(code & kMask);
    values[i] = as_f32(bits);
    const i32 field = static_cast<i32>(bits >> 23 & 0xff) - 127;
    i32 exponent = field < Read::kSmallest ? Read::kSmallest : field;
    const bool zero = (bits & 0x7fffffff) == 0;
    exponents[i] = zero ? -126 : exponent;
    const i32 for_smallest = zero ? 127 : exponent, for_largest = zero ? -126 : exponent;
    largest = for_largest > largest ? for_largest : largest;
    smallest = for_smallest < smallest ? for_smallest : smallest;
  }
  return {smallest, largest};
}

// The place along k of element `e` in the lanes of `group`. In halves: each four registers are one half of k.
template <int Bits>
int k_of(const BlockSource& source, int group, int per_lane, int e) {
  constexpr int kChunk = 128 / Bits;
  return source.halves ? e / kChunk * (source.k / 2) + group * kChunk + e % kChunk : group * per_lane + e;
}

template <class Read, int Size>
ExponentRange unpack_block(const BlockSource& source, float* values, i32* exponents) {
  const int groups = 64 / (Size * source.blocks), per_lane = source.k / groups;
  ExponentRange range;
  for (int group = 0; group < groups; ++group) {
    const int lane = Size * (source.block + source.blocks * group);
    for (int e = 0; e < per_lane; ++e) {
      const int k = k_of<Read::kBits>(source, group, per_lane, e);
      const int bit = e * Read::kBits, shift = bit % 32;
      const u32* low = source.rows + bit / 32 * kLanes + lane;
      const u32* high = shift + Read::kBits > 32 ? low + kLanes : nullptr;
      const ExponentRange row = read_lanes<Read, Size>(low, high, shift, values + k * Size, exponents + k * Size);
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
  const bool fnuz = target == Target::Gfx942;
  switch (element) {
    case Element::F32: return unpack_as<ReadF32>(source, values, exponents);
    case Element::Xf32: return unpack_as<ReadXf32>(source, values, exponents);
    case Element::F16: return unpack_as<ReadF16>(source, values, exponents);
    case Element::Bf16: return unpack_as<ReadBf16>(source, values, exponents);
    case Element::Fp8:
      return fnuz ? unpack_as<ReadE4m3fnuz>(source, values, exponents) : unpack_as<ReadE4m3>(source, values, exponents);
    case Element::Bf8:
      return fnuz ? unpack_as<ReadE5m2fnuz>(source, values, exponents) : unpack_as<ReadE5m2>(source, values, exponents);
    case Element::Fp6: return unpack_as<ReadE2m3>(source, values, exponents);
    case Element::Bf6: return unpack_as<ReadE3m2>(source, values, exponents);
    default: return unpack_as<ReadE2m1>(source, values, exponents);
  }
}

void unpack_i8(const BlockSource& source, i32* pairs) {
  const int size = source.size, groups = 64 / (size * source.blocks), per_lane = source.k / groups;
  for (int group = 0; group < groups; ++group) {
    const u32* lane = source.rows + size * (source.block + source.blocks * group);
    for (int e = 0; e < per_lane; e += 2) {
      const u32* row = lane + e / 4 * kLanes;
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
