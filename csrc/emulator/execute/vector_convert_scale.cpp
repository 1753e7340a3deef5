// gfx950: v_cvt_scalef32_* of one or two elements. The scale is the exponent field of an f32 operand (its sign and
// mantissa do not count): sources of a small format are multiplied by 2^(field - 127), results in one are divided by
// it; one rounding. A field of 255 is E8M0's NaN and makes the result a NaN, where the format has one.
//
// op_sel here chooses bytes and words of packed small formats, so it is read here and not by the wrapper:
// [0] the word, [1:0] the byte of a small source; [3] the word, [3:2] the byte of a small destination; other bytes
// stay.
#include "vector_convert.h"

namespace apb::emu {
namespace {

inline u32 scale_field(u32 bits) { return bits >> 23 & 0xff; }

struct F32 {
  static u32 bits(u32 value) { return value; }
  static u32 make(double value, bool) { return bits_of(static_cast<float>(value)); }
};
struct F16 {
  static u32 bits(u32 value) { return f16_to_f32_bits(value & 0xffff); }
  static u32 make(double value, bool saturate) { return widened_half(value, saturate); }
};
struct Bf16 {
  static u32 bits(u32 value) { return value << 16; }
  static u32 make(double value, bool) { return float_to_brain(static_cast<float>(value)); }
};

template <SmallFormat F, class Wide>
inline u32 widen(u32 code, u32 field, bool saturate) {
  const double factor = as_f64(static_cast<u64>(field + 1023 - 127) << 52);
  const double value =
      field == kE8m0Nan ? static_cast<double>(as_f32(kNanF32)) : static_cast<double>(decode_small<F>(code)) * factor;
  return Wide::make(value, saturate);
}

template <SmallFormat F, class Wide, SmallRounding R = SmallRounding::Nearest>
inline u32 shrink(u32 value, u32 field, bool saturate, u32 random = 0) {
  if (field == kE8m0Nan) [[unlikely]]
    return encode_small<F>(kNanF32, saturate);
  return encode_small<F, R>(Wide::bits(value), saturate, e8m0_exponent(field), random);
}

inline u32 merge(u32 old, u32 value, u32 mask, u32 shift) { return (old & ~(mask << shift)) | value << shift; }
inline u32 opsel(const VectorCall& call) { return call.instruction->opsel; }

// v_cvt_scalef32_{f32,f16}_{fp8,bf8}: one byte. The f16 goes into the half that op_sel[3] names (the wrapper does
// that).
template <SmallFormat F, class Wide>
void one_from(VectorCall& call) {
  const u32 shift = (opsel(call) & 3) * 8;
  const bool saturate = call.mode.fp16_overflow();
  for (int lane = 0; lane < kLanes; ++lane)
    call.out[lane] = widen<F, Wide>(call.source[0][lane] >> shift & 0xff, scale_field(call.source[1][lane]), saturate);
}

// v_cvt_scalef32_pk_*_{fp8,bf8,fp4}: two elements from one word or, of four bits each, from one byte.
template <SmallFormat F, class Wide>
void two_from(VectorCall& call) {
  constexpr u32 kBits = kSmallTraits<F>.bits, kMask = (1u << kBits) - 1;
  const u32 shift = kBits == 8 ? (opsel(call) & 1) * 16 : (opsel(call) & 3) * 8;
  const bool saturate = call.mode.fp16_overflow();
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 codes = call.source[0][lane] >> shift, field = scale_field(call.source[1][lane]);
    const u32 first = widen<F, Wide>(codes & kMask, field, saturate);
    const u32 second = widen<F, Wide>(codes >> kBits & kMask, field, saturate);
    if constexpr (std::is_same_v<Wide, F32>) {
      call.out[lane] = first;
      call.out[kLanes + lane] = second;
    } else {
      call.out[lane] = first | second << 16;
    }
  }
}

// The places of two elements of a small format.
template <SmallFormat F>
inline u32 pair_shift(const VectorCall& call) {
  return kSmallTraits<F>.bits == 8 ? (opsel(call) >> 3 & 1) * 16 : selected_byte(call);
}

// v_cvt_scalef32_pk_{fp8,bf8,fp4}_f32: two operands and the scale.
template <SmallFormat F>
void two_to_f32(VectorCall& call) {
  constexpr u32 kBits = kSmallTraits<F>.bits;
  const bool saturate = call.mode.fp16_overflow();
  const u32 shift = pair_shift<F>(call);
  const u32* old = old_destination(call);
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 field = scale_field(call.source[2][lane]);
    const u32 codes = shrink<F, F32>(call.source[0][lane], field, saturate) |
                      shrink<F, F32>(call.source[1][lane], field, saturate) << kBits;
    call.out[lane] = merge(old[lane], codes, (1u << 2 * kBits) - 1, shift);
  }
}

// v_cvt_scalef32_pk_{fp8,bf8,fp4}_{f16,bf16}: one operand with two elements and the scale.
template <SmallFormat F, class Wide>
void two_to(VectorCall& call) {
  constexpr u32 kBits = kSmallTraits<F>.bits;
  const bool saturate = call.mode.fp16_overflow();
  const u32 shift = pair_shift<F>(call);
  const u32* old = old_destination(call);
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 both = call.source[0][lane], field = scale_field(call.source[1][lane]);
    const u32 codes = shrink<F, Wide>(both & 0xffff, field, saturate) | shrink<F, Wide>(both >> 16, field, saturate)
                                                                            << kBits;
    call.out[lane] = merge(old[lane], codes, (1u << 2 * kBits) - 1, shift);
  }
}

// v_cvt_scalef32_sr_{fp8,bf8}_*: one element, random number, scale. A 16-bit source's half is op_sel[0]'s business of
// the wrapper.
template <SmallFormat F, class Wide>
void one_stochastic(VectorCall& call) {
  const bool saturate = call.mode.fp16_overflow();
  const u32 shift = selected_byte(call);
  const u32* old = old_destination(call);
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 code = shrink<F, Wide, SmallRounding::Stochastic>(call.source[0][lane], scale_field(call.source[2][lane]),
                                                                saturate, call.source[1][lane]);
    call.out[lane] = merge(old[lane], code, 0xff, shift);
  }
}

// v_cvt_scalef32_sr_pk_fp4_*: the second element gets the generator's next number.
template <class Wide>
void two_stochastic_fp4(VectorCall& call) {
  const u32 shift = selected_byte(call);
  const u32* old = old_destination(call);
  for (int lane = 0; lane < kLanes; ++lane) {
    constexpr bool kWide = std::is_same_v<Wide, F32>;
    const u32 first = kWide ? call.source[0][lane] : call.source[0][lane] & 0xffff;
    const u32 second = kWide ? call.source[0][kLanes + lane] : call.source[0][lane] >> 16;
    const u32 field = scale_field(call.source[2][lane]), random = call.source[1][lane];
    const u32 low = shrink<SmallFormat::E2m1, Wide, SmallRounding::Stochastic>(first, field, true, random);
    const u32 high =
        shrink<SmallFormat::E2m1, Wide, SmallRounding::Stochastic>(second, field, true, next_random(random));
    call.out[lane] = merge(old[lane], low | high << 4, 0xff, shift);
  }
}

using enum SmallFormat;
constexpr VectorEntry kEntries[] = {
    {Opcode::V_CVT_SCALEF32_F32_FP8, one_from<E4m3, F32>},
    {Opcode::V_CVT_SCALEF32_F32_BF8, one_from<E5m2, F32>},
    {Opcode::V_CVT_SCALEF32_F16_FP8, one_from<E4m3, F16>, Mask::None, false, true},
    {Opcode::V_CVT_SCALEF32_F16_BF8, one_from<E5m2, F16>, Mask::None, false, true},
    {Opcode::V_CVT_SCALEF32_PK_F32_FP8, two_from<E4m3, F32>},
    {Opcode::V_CVT_SCALEF32_PK_F32_BF8, two_from<E5m2, F32>},
    {Opcode::V_CVT_SCALEF32_PK_F32_FP4, two_from<E2m1, F32>},
    {Opcode::V_CVT_SCALEF32_PK_F16_FP8, two_from<E4m3, F16>},
    {Opcode::V_CVT_SCALEF32_PK_F16_BF8, two_from<E5m2, F16>},
    {Opcode::V_CVT_SCALEF32_PK_F16_FP4, two_from<E2m1, F16>},
    {Opcode::V_CVT_SCALEF32_PK_BF16_FP8, two_from<E4m3, Bf16>},
    {Opcode::V_CVT_SCALEF32_PK_BF16_BF8, two_from<E5m2, Bf16>},
    {Opcode::V_CVT_SCALEF32_PK_BF16_FP4, two_from<E2m1, Bf16>},
    {Opcode::V_CVT_SCALEF32_PK_FP8_F32, two_to_f32<E4m3>, Mask::None, true},
    {Opcode::V_CVT_SCALEF32_PK_BF8_F32, two_to_f32<E5m2>, Mask::None, true},
    {Opcode::V_CVT_SCALEF32_PK_FP4_F32, two_to_f32<E2m1>, Mask::None, true},
    {Opcode::V_CVT_SCALEF32_PK_FP8_F16, two_to<E4m3, F16>, Mask::None, true},
    {Opcode::V_CVT_SCALEF32_PK_BF8_F16, two_to<E5m2, F16>, Mask::None, true},
    {Opcode::V_CVT_SCALEF32_PK_FP4_F16, two_to<E2m1, F16>, Mask::None, true},
    {Opcode::V_CVT_SCALEF32_PK_FP8_BF16, two_to<E4m3, Bf16>, Mask::None, true},
    {Opcode::V_CVT_SCALEF32_PK_BF8_BF16, two_to<E5m2, Bf16>, Mask::None, true},
    {Opcode::V_CVT_SCALEF32_PK_FP4_BF16, two_to<E2m1, Bf16>, Mask::None, true},
    {Opcode::V_CVT_SCALEF32_SR_FP8_F32, one_stochastic<E4m3, F32>, Mask::None, true},
    {Opcode::V_CVT_SCALEF32_SR_BF8_F32, one_stochastic<E5m2, F32>, Mask::None, true},
    {Opcode::V_CVT_SCALEF32_SR_FP8_F16, one_stochastic<E4m3, F16>, Mask::None, true},
    {Opcode::V_CVT_SCALEF32_SR_BF8_F16, one_stochastic<E5m2, F16>, Mask::None, true},
    {Opcode::V_CVT_SCALEF32_SR_FP8_BF16, one_stochastic<E4m3, Bf16>, Mask::None, true},
    {Opcode::V_CVT_SCALEF32_SR_BF8_BF16, one_stochastic<E5m2, Bf16>, Mask::None, true},
    {Opcode::V_CVT_SCALEF32_SR_PK_FP4_F32, two_stochastic_fp4<F32>, Mask::None, true},
    {Opcode::V_CVT_SCALEF32_SR_PK_FP4_F16, two_stochastic_fp4<F16>, Mask::None, true},
    {Opcode::V_CVT_SCALEF32_SR_PK_FP4_BF16, two_stochastic_fp4<Bf16>, Mask::None, true},
};

}  // namespace

std::span<const VectorEntry> vector_convert_scale() { return kEntries; }

}  // namespace apb::emu
