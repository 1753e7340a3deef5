// gfx950: v_cvt_scalef32_* of 32 elements between f32, f16, bf16 and the six-bit formats. Element i of a six-bit block
// is at bits 6i..6i+5 of six dwords. Sources and results are up to 32 dwords; a lane is gathered, converted and
// scattered.
#include "vector_convert.h"

namespace apb::emu {
namespace {

constexpr int kElements = 32, kSmallDwords = 6;

inline u32 scale_field(u32 bits) { return bits >> 23 & 0xff; }

inline void put6(u32* packed, int element, u32 code) {
  const int bit = element * 6, word = bit / 32, shift = bit % 32;
  packed[word] |= code << shift;
  if (shift > 26) packed[word + 1] |= code >> (32 - shift);
}

inline u32 get6(const u32* packed, int element) {
  const int bit = element * 6, word = bit / 32, shift = bit % 32;
  u32 code = packed[word] >> shift;
  if (shift > 26) code |= packed[word + 1] << (32 - shift);
  return code & 63;
}

enum class Wide : u8 { F32, F16, Bf16 };

// f32 bits of element i of a source operand.
template <Wide W>
inline u32 element_bits(const u32* source, int lane, int i) {
  if constexpr (W == Wide::F32) return source[i * kLanes + lane];
  const u32 half = source[i / 2 * kLanes + lane] >> (i % 2 * 16) & 0xffff;
  return W == Wide::F16 ? f16_to_f32_bits(half) : half << 16;
}

template <SmallFormat F, SmallRounding R = SmallRounding::Nearest>
inline u32 shrink(u32 bits, u32 field, u32 random = 0) {
  if (field == kE8m0Nan) [[unlikely]]
    return encode_small<F>(kNanF32, true);
  return encode_small<F, R>(bits, true, e8m0_exponent(field), random);
}

inline void store_block(VectorCall& call, int lane, const u32* packed) {
  for (int d = 0; d < kSmallDwords; ++d) call.out[d * kLanes + lane] = packed[d];
}

// v_cvt_scalef32_pk32_{fp6,bf6}_{f16,bf16}: 32 elements, scale.
template <SmallFormat F, Wide W>
void block_to(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane) {
    u32 packed[kSmallDwords] = {};
    const u32 field = scale_field(call.source[1][lane]);
    for (int i = 0; i < kElements; ++i) put6(packed, i, shrink<F>(element_bits<W>(call.source[0], lane, i), field));
    store_block(call, lane, packed);
  }
}

// v_cvt_scalef32_2xpk16_{fp6,bf6}_f32: two operands of 16 elements, interleaved in the result (AMD's pseudocode),
// scale.
template <SmallFormat F>
void interleaved_to(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane) {
    u32 packed[kSmallDwords] = {};
    const u32 field = scale_field(call.source[2][lane]);
    for (int i = 0; i < kElements; ++i) put6(packed, i, shrink<F>(call.source[i % 2][i / 2 * kLanes + lane], field));
    store_block(call, lane, packed);
  }
}

// v_cvt_scalef32_sr_pk32_{fp6,bf6}_*: 32 elements, random number (one step of the generator per element), scale.
template <SmallFormat F, Wide W>
void block_stochastic(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane) {
    u32 packed[kSmallDwords] = {};
    const u32 field = scale_field(call.source[2][lane]);
    u32 random = call.source[1][lane];
    for (int i = 0; i < kElements; ++i) {
      put6(packed, i, shrink<F, SmallRounding::Stochastic>(element_bits<W>(call.source[0], lane, i), field, random));
      random = next_random(random);
    }
    store_block(call, lane, packed);
  }
}

// v_cvt_scalef32_pk32_{f32,f16,bf16}_{fp6,bf6}: six dwords, scale.
template <SmallFormat F, Wide W>
void block_from(VectorCall& call) {
  const bool saturate = call.mode.fp16_overflow();
  for (int lane = 0; lane < kLanes; ++lane) {
    u32 packed[kSmallDwords];
    for (int d = 0; d < kSmallDwords; ++d) packed[d] = call.source[0][d * kLanes + lane];
    const u32 field = scale_field(call.source[1][lane]);
    const double factor =
        field == kE8m0Nan ? static_cast<double>(as_f32(kNanF32)) : as_f64(static_cast<u64>(field + 1023 - 127) << 52);
    u32 low = 0;
    for (int i = 0; i < kElements; ++i) {
      const double value = static_cast<double>(decode_small<F>(get6(packed, i))) * factor;
      if constexpr (W == Wide::F32) {
        call.out[i * kLanes + lane] = bits_of(static_cast<float>(value));
      } else {
        const u32 half = W == Wide::F16 ? widened_half(value, saturate) : float_to_brain(static_cast<float>(value));
        if (i % 2)
          call.out[i / 2 * kLanes + lane] = low | half << 16;
        else
          low = half;
      }
    }
  }
}

using enum SmallFormat;
constexpr VectorEntry kEntries[] = {
    {Opcode::V_CVT_SCALEF32_2XPK16_FP6_F32, interleaved_to<E2m3>},
    {Opcode::V_CVT_SCALEF32_2XPK16_BF6_F32, interleaved_to<E3m2>},
    {Opcode::V_CVT_SCALEF32_SR_PK32_FP6_F32, block_stochastic<E2m3, Wide::F32>},
    {Opcode::V_CVT_SCALEF32_SR_PK32_BF6_F32, block_stochastic<E3m2, Wide::F32>},
    {Opcode::V_CVT_SCALEF32_SR_PK32_FP6_F16, block_stochastic<E2m3, Wide::F16>},
    {Opcode::V_CVT_SCALEF32_SR_PK32_BF6_F16, block_stochastic<E3m2, Wide::F16>},
    {Opcode::V_CVT_SCALEF32_SR_PK32_FP6_BF16, block_stochastic<E2m3, Wide::Bf16>},
    {Opcode::V_CVT_SCALEF32_SR_PK32_BF6_BF16, block_stochastic<E3m2, Wide::Bf16>},
    {Opcode::V_CVT_SCALEF32_PK32_FP6_F16, block_to<E2m3, Wide::F16>},
    {Opcode::V_CVT_SCALEF32_PK32_BF6_F16, block_to<E3m2, Wide::F16>},
    {Opcode::V_CVT_SCALEF32_PK32_FP6_BF16, block_to<E2m3, Wide::Bf16>},
    {Opcode::V_CVT_SCALEF32_PK32_BF6_BF16, block_to<E3m2, Wide::Bf16>},
    {Opcode::V_CVT_SCALEF32_PK32_F32_FP6, block_from<E2m3, Wide::F32>},
    {Opcode::V_CVT_SCALEF32_PK32_F32_BF6, block_from<E3m2, Wide::F32>},
    {Opcode::V_CVT_SCALEF32_PK32_F16_FP6, block_from<E2m3, Wide::F16>},
    {Opcode::V_CVT_SCALEF32_PK32_F16_BF6, block_from<E3m2, Wide::F16>},
    {Opcode::V_CVT_SCALEF32_PK32_BF16_FP6, block_from<E2m3, Wide::Bf16>},
    {Opcode::V_CVT_SCALEF32_PK32_BF16_BF6, block_from<E3m2, Wide::Bf16>},
};

}  // namespace

std::span<const VectorEntry> vector_convert_scale_block() { return kEntries; }

}  // namespace apb::emu
