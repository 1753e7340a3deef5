// Minimum, maximum, median. All in integers: the order of the bit patterns is exact, knows -0 < +0, and raises nothing.
#include "vector_float.h"

namespace apb::emu {
namespace {

// Bit patterns as signed integers in the numbers' order; NaNs lie outside both infinities.
template <class T>
inline auto key(typename T::Bits bits) {
  if constexpr (sizeof(bits) == 8) {
    const i64 value = static_cast<i64>(bits);
    return value ^ static_cast<i64>(static_cast<u64>(value >> 63) >> 1);
  } else if constexpr (T::kMantissaBits == 10) {
    const i32 value = static_cast<i16>(bits);
    return value ^ static_cast<i32>(static_cast<u32>(value >> 31) & 0x7fff);
  } else {
    const i32 value = static_cast<i32>(bits);
    return value ^ static_cast<i32>(static_cast<u32>(value >> 31) >> 1);
  }
}

// IEEE mode: a signalling NaN wins and becomes quiet, S0 first. Otherwise a NaN loses against a number; of two NaNs S1 stays.
template <class T, bool Maximum>
inline typename T::Bits pick(typename T::Bits a, typename T::Bits b, bool ieee) {
  const bool smaller = key<T>(a) < key<T>(b);
  typename T::Bits result = smaller != Maximum ? a : b;
  result = is_nan<T>(b) ? a : result;
  result = is_nan<T>(a) ? b : result;
  result = ieee && is_signalling<T>(b) ? b | T::kQuiet : result;
  return ieee && is_signalling<T>(a) ? a | T::kQuiet : result;
}

template <class T, bool Maximum>
void two(VectorCall& call) {
  const u32 *a = call.source[0], *b = call.source[1];
  u32* __restrict out = call.out;
  const bool ieee = call.mode.ieee();
  for (int lane = 0; lane < kLanes; ++lane)
    T::put_bits(out, lane, pick<T, Maximum>(T::bits(a, lane), T::bits(b, lane), ieee));
}

template <class T, bool Maximum>
void three(VectorCall& call) {
  const u32 *a = call.source[0], *b = call.source[1], *c = call.source[2];
  u32* __restrict out = call.out;
  const bool ieee = call.mode.ieee();
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto first = pick<T, Maximum>(T::bits(a, lane), T::bits(b, lane), ieee);
    T::put_bits(out, lane, pick<T, Maximum>(first, T::bits(c, lane), ieee));
  }
}

// Equal as numbers: -0 and +0 are.
template <class T>
inline bool equal(typename T::Bits a, typename T::Bits b) {
  return a == b || ((a | b) & T::kMagnitude) == 0;
}

// Without NaNs.
template <class T, bool Maximum>
inline typename T::Bits pick_number(typename T::Bits a, typename T::Bits b) {
  return (key<T>(a) < key<T>(b)) != Maximum ? a : b;
}

// The larger of the two that are left when (one of) the largest is taken away; the minimum of all when a NaN is among them.
template <class T>
void median(VectorCall& call) {
  const u32 *a = call.source[0], *b = call.source[1], *c = call.source[2];
  u32* __restrict out = call.out;
  u32 any_nan = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto x = T::bits(a, lane), y = T::bits(b, lane), z = T::bits(c, lane);
    const auto most = pick_number<T, true>(pick_number<T, true>(x, y), z);
    // Taken away: x when it equals the largest, else y when it does, else z.
    const auto left = equal<T>(most, x) ? y : x, right = equal<T>(most, x) || equal<T>(most, y) ? z : y;
    T::put_bits(out, lane, pick_number<T, true>(left, right));
    any_nan |= static_cast<u32>(is_nan<T>(x)) | static_cast<u32>(is_nan<T>(y)) | static_cast<u32>(is_nan<T>(z));
  }
  if (!any_nan) [[likely]]
    return;
  const bool ieee = call.mode.ieee();
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto x = T::bits(a, lane), y = T::bits(b, lane), z = T::bits(c, lane);
    if (is_nan<T>(x) || is_nan<T>(y) || is_nan<T>(z))
      T::put_bits(out, lane, pick<T, false>(pick<T, false>(x, y, ieee), z, ieee));
  }
}

// IEEE 754-2019 minimum and maximum: any NaN wins, signalling ones first, S0 before S1.
template <class T, bool Maximum>
inline typename T::Bits pick_propagating(typename T::Bits a, typename T::Bits b) {
  typename T::Bits result = (key<T>(a) < key<T>(b)) != Maximum ? a : b;
  result = is_nan<T>(b) ? b | T::kQuiet : result;
  result = is_nan<T>(a) ? a | T::kQuiet : result;
  return is_signalling<T>(b) && !is_signalling<T>(a) ? b | T::kQuiet : result;
}

template <bool Maximum>
void three_propagating(VectorCall& call) {
  const u32 *a = call.source[0], *b = call.source[1], *c = call.source[2];
  u32* __restrict out = call.out;
  for (int lane = 0; lane < kLanes; ++lane) {
    out[lane] = pick_propagating<Single, Maximum>(pick_propagating<Single, Maximum>(a[lane], b[lane]), c[lane]);
  }
}

constexpr VectorEntry kEntries[] = {
    {Opcode::V_MIN_F32, two<Single, false>},
    {Opcode::V_MAX_F32, two<Single, true>},
    {Opcode::V_MIN_F64, two<Double, false>},
    {Opcode::V_MAX_F64, two<Double, true>},
    {Opcode::V_MIN_F16, two<Half, false>},
    {Opcode::V_MAX_F16, two<Half, true>},
    {Opcode::V_MIN3_F32, three<Single, false>},
    {Opcode::V_MAX3_F32, three<Single, true>},
    {Opcode::V_MED3_F32, median<Single>},
    {Opcode::V_MIN3_F16, three<Half, false>, Mask::None, false, true},
    {Opcode::V_MAX3_F16, three<Half, true>, Mask::None, false, true},
    {Opcode::V_MED3_F16, median<Half>, Mask::None, false, true},
    {Opcode::V_MINIMUM3_F32, three_propagating<false>},
    {Opcode::V_MAXIMUM3_F32, three_propagating<true>},
};

}  // namespace

std::span<const VectorEntry> vector_float_minmax() { return kEntries; }

}  // namespace apb::emu
