// Conversions between integers and the IEEE formats, normalised and packed ones. The small formats are in
// vector_convert_small.cpp and vector_convert_scale.cpp.
//
// Float to integer: towards zero, out of range gives the nearest end of the range, NaN gives 0 (the hardware
// saturates). v_cvt_pk_u8_f32 rounds to nearest even and saturates, its byte select is two bits wide: measured on GCN
// hardware (shadPS4, pull request 5194). Integer to float and narrowing conversions round as MODE says, through MXCSR.
#include "vector_convert.h"

#include <vector>

#include "small_float.h"

namespace apb::emu {
namespace {

// One source, one dword out.
template <class Function>
[[gnu::always_inline]] inline void map(VectorCall& call, Function function) {
  const u32* __restrict a = call.source[0];
  u32* __restrict out = call.out;
  for (int lane = 0; lane < kLanes; ++lane) out[lane] = function(a[lane]);
}

template <auto Function>
void unary(VectorCall& call) {
  map(call, Function);
}

// Two sources, their results in the two halves of a dword.
template <auto Function>
void pair(VectorCall& call) {
  const u32* __restrict a = call.source[0];
  const u32* __restrict b = call.source[1];
  u32* __restrict out = call.out;
  for (int lane = 0; lane < kLanes; ++lane) out[lane] = (Function(a[lane]) & 0xffff) | Function(b[lane]) << 16;
}

template <class Float>
inline i32 to_i32(Float value) {
  const Float low = value >= Float(-2147483648.0) ? value : Float(-2147483648.0);
  const i32 inside = low < Float(2147483648.0) ? static_cast<i32>(low) : 0x7fffffff;
  return value != value ? 0 : inside;
}

template <class Float>
inline u32 to_u32(Float value) {
  const Float low = value >= Float(0) ? value : Float(0);  // NaN too
  return low < Float(4294967296.0) ? static_cast<u32>(static_cast<i64>(low)) : 0xffffffffu;
}

inline i32 clamp_i32(i32 value, i32 low, i32 high) { return value < low ? low : value > high ? high : value; }

constexpr auto kI32F32 = [](u32 a) { return static_cast<u32>(to_i32(as_f32(a))); };
constexpr auto kU32F32 = [](u32 a) { return to_u32(as_f32(a)); };
constexpr auto kF32I32 = [](u32 a) { return bits_of(static_cast<float>(static_cast<i32>(a))); };
// Not by a cast: clang's vector code for it makes -0 of 0 when MODE rounds down. The low bit of a halved number is sticky.
constexpr auto kF32U32 = [](u32 a) {
  const bool large = a >> 31;
  const float value = static_cast<float>(static_cast<i32>(large ? a >> 1 | (a & 1) : a));
  return bits_of(large ? value * 2 : value);
};
constexpr auto kRpi = [](u32 a) { return static_cast<u32>(to_i32(__builtin_floorf(as_f32(a) + 0.5f))); };
constexpr auto kFlr = [](u32 a) { return static_cast<u32>(to_i32(__builtin_floorf(as_f32(a)))); };
constexpr auto kOffF32I4 = [](u32 a) { return bits_of(static_cast<float>(static_cast<i32>(a << 28) >> 28) * 0.0625f); };
template <int Byte>
constexpr auto kF32Ubyte = [](u32 a) { return bits_of(static_cast<float>(static_cast<i32>(a >> (8 * Byte) & 0xff))); };
constexpr auto kF32Bf16 = [](u32 a) { return a << 16; };

constexpr auto kI16F16 = [](u32 a) {
  return static_cast<u32>(clamp_i32(to_i32(f16_to_f32(a & 0xffff)), -32768, 32767)) & 0xffff;
};
constexpr auto kU16F16 = [](u32 a) { return static_cast<u32>(clamp_i32(to_i32(f16_to_f32(a & 0xffff)), 0, 65535)); };

// Largest code times the value clamped to [-1, 1] or [0, 1], rounded to nearest even from the exact product; NaN gives
// 0.
inline u32 signed_norm(float value) {
  const double clamped = value >= 1 ? 1.0 : value >= -1 ? static_cast<double>(value) : value < -1 ? -1.0 : 0.0;
  return static_cast<u32>(static_cast<i32>(__builtin_roundeven(clamped * 32767))) & 0xffff;
}
inline u32 unsigned_norm(float value) {
  const double clamped = value >= 1 ? 1.0 : value > 0 ? static_cast<double>(value) : 0.0;
  return static_cast<u32>(static_cast<i32>(__builtin_roundeven(clamped * 65535)));
}
constexpr auto kNormI16F32 = [](u32 a) { return signed_norm(as_f32(a)); };
constexpr auto kNormU16F32 = [](u32 a) { return unsigned_norm(as_f32(a)); };
constexpr auto kNormI16F16 = [](u32 a) { return signed_norm(f16_to_f32(a & 0xffff)); };
constexpr auto kNormU16F16 = [](u32 a) { return unsigned_norm(f16_to_f32(a & 0xffff)); };

constexpr auto kU16U32 = [](u32 a) { return a > 0xffff ? 0xffffu : a; };
constexpr auto kI16I32 = [](u32 a) { return static_cast<u32>(clamp_i32(static_cast<i32>(a), -32768, 32767)); };
constexpr auto kBf16F32 = [](u32 a) { return static_cast<u32>(float_to_brain(as_f32(a))); };
constexpr auto kPrng = [](u32 a) { return next_random(a); };

// --- f16 results: rounded as MODE says (or as the mnemonic says), denormals flushed when MODE says so ---

// FP16_OVFL turns the infinity of a finite source into the largest finite number.
void finish_f16(const VectorCall& call, const u32* single, u32* half) {
  const bool saturate = call.mode.fp16_overflow(), flush = !(call.mode.denorm_f64() & 2);
  if (!saturate && !flush) [[likely]]
    return;
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 magnitude = half[lane] & 0x7fff;
    if (saturate && magnitude == 0x7c00 && (single[lane] & 0x7fffffff) != 0x7f800000) half[lane] -= 1;
    if (flush && magnitude < 0x400) half[lane] &= 0x8000;
  }
}

void f16_f32(VectorCall& call) {
  f32_row_to_f16(call.source[0], call.out);
  finish_f16(call, call.source[0], call.out);
}

template <auto ToF32>
void f16_integer(VectorCall& call) {
  alignas(64) u32 single[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) single[lane] = bits_of(static_cast<float>(ToF32(call.source[0][lane])));
  f32_row_to_f16(single, call.out);
  finish_f16(call, single, call.out);
}
constexpr auto kUnsignedHalf = [](u32 a) { return static_cast<i32>(a & 0xffff); };
constexpr auto kSignedHalf = [](u32 a) { return static_cast<i32>(static_cast<i16>(a)); };

template <int Rounding>
void row_to_f16(const u32* single, u32* half) {
  for (int lane = 0; lane < kLanes; lane += 8) {
    const __m256 value = _mm256_loadu_ps(reinterpret_cast<const float*>(single + lane));
    const __m256i wide = _mm256_cvtepu16_epi32(_mm256_cvtps_ph(value, Rounding));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(half + lane), wide);
  }
}

// v_cvt_pkrtz_f16_f32 towards zero, v_cvt_pk_f16_f32 to nearest even, whatever MODE says.
template <int Rounding>
void pk_f16_f32(VectorCall& call) {
  alignas(64) u32 low[kLanes], high[kLanes];
  row_to_f16<Rounding>(call.source[0], low);
  row_to_f16<Rounding>(call.source[1], high);
  finish_f16(call, call.source[0], low);
  finish_f16(call, call.source[1], high);
  for (int lane = 0; lane < kLanes; ++lane) call.out[lane] = low[lane] | high[lane] << 16;
}

void f32_f16(VectorCall& call) {
  const u32* source = call.source[0];
  for (int lane = 0; lane < kLanes; lane += 8) {
    const __m256i wide = _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + lane)),
                                          _mm256_set1_epi32(0xffff));
    const __m128i half = _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    _mm256_storeu_ps(reinterpret_cast<float*>(call.out + lane),
                     _mm256_cvtph_ps(half));  // a signalling NaN becomes quiet
  }
  if (call.mode.denorm_f64() & 1) [[likely]]
    return;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((source[lane] & 0x7c00) == 0) call.out[lane] &= 0x80000000;
  }
}

// --- doubles ---

void f64_f32(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane)
    put64(call.out, lane, bits_of(static_cast<double>(as_f32(call.source[0][lane]))));
}
void f32_f64(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane)
    call.out[lane] = bits_of(static_cast<float>(as_f64(get64(call.source[0], lane))));
}
void f64_i32(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane)
    put64(call.out, lane, bits_of(static_cast<double>(static_cast<i32>(call.source[0][lane]))));
}
void f64_u32(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane) put64(call.out, lane, bits_of(static_cast<double>(call.source[0][lane])));
}
void i32_f64(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane)
    call.out[lane] = static_cast<u32>(to_i32(as_f64(get64(call.source[0], lane))));
}
void u32_f64(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane) call.out[lane] = to_u32(as_f64(get64(call.source[0], lane)));
}

// --- bytes into a dword ---

inline u32 byte_of(float value) {
  const float rounded = __builtin_roundevenf(value);
  return rounded >= 255 ? 255u : rounded > 0 ? static_cast<u32>(static_cast<i32>(rounded)) : 0u;  // NaN gives 0
}

// Source 2 is the dword that keeps its other bytes: an operand of v_cvt_pk_u8_f32, the old destination of pkaccum.
void pk_u8_f32(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 shift = (call.source[1][lane] & 3) * 8;
    call.out[lane] = (call.source[2][lane] & ~(0xffu << shift)) | byte_of(as_f32(call.source[0][lane])) << shift;
  }
}

// --- stochastic rounding to 16 bits (gfx950); the wrapper puts the half where opsel says ---

void sr_f16_f32(VectorCall& call) {
  const bool saturate = call.mode.fp16_overflow();
  for (int lane = 0; lane < kLanes; ++lane)
    call.out[lane] = float_to_half_stochastic(as_f32(call.source[0][lane]), call.source[1][lane], saturate);
}
void sr_bf16_f32(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane)
    call.out[lane] = float_to_brain_stochastic(as_f32(call.source[0][lane]), call.source[1][lane]);
}

constexpr VectorEntry kEntries[] = {
    {Opcode::V_CVT_I32_F64, i32_f64},
    {Opcode::V_CVT_F64_I32, f64_i32},
    {Opcode::V_CVT_F32_I32, unary<kF32I32>},
    {Opcode::V_CVT_F32_U32, unary<kF32U32>},
    {Opcode::V_CVT_U32_F32, unary<kU32F32>},
    {Opcode::V_CVT_I32_F32, unary<kI32F32>},
    {Opcode::V_CVT_F16_F32, f16_f32},
    {Opcode::V_CVT_F32_F16, f32_f16},
    {Opcode::V_CVT_RPI_I32_F32, unary<kRpi>},
    {Opcode::V_CVT_FLR_I32_F32, unary<kFlr>},
    {Opcode::V_CVT_OFF_F32_I4, unary<kOffF32I4>},
    {Opcode::V_CVT_F32_F64, f32_f64},
    {Opcode::V_CVT_F64_F32, f64_f32},
    {Opcode::V_CVT_F32_UBYTE0, unary<kF32Ubyte<0>>},
    {Opcode::V_CVT_F32_UBYTE1, unary<kF32Ubyte<1>>},
    {Opcode::V_CVT_F32_UBYTE2, unary<kF32Ubyte<2>>},
    {Opcode::V_CVT_F32_UBYTE3, unary<kF32Ubyte<3>>},
    {Opcode::V_CVT_U32_F64, u32_f64},
    {Opcode::V_CVT_F64_U32, f64_u32},
    {Opcode::V_CVT_F16_U16, f16_integer<kUnsignedHalf>},
    {Opcode::V_CVT_F16_I16, f16_integer<kSignedHalf>},
    {Opcode::V_CVT_U16_F16, unary<kU16F16>},
    {Opcode::V_CVT_I16_F16, unary<kI16F16>},
    {Opcode::V_CVT_NORM_I16_F16, unary<kNormI16F16>},
    {Opcode::V_CVT_NORM_U16_F16, unary<kNormU16F16>},
    {Opcode::V_CVT_F32_BF16, unary<kF32Bf16>},
    {Opcode::V_CVT_PKNORM_I16_F32, pair<kNormI16F32>},
    {Opcode::V_CVT_PKNORM_U16_F32, pair<kNormU16F32>},
    {Opcode::V_CVT_PKNORM_I16_F16, pair<kNormI16F16>},
    {Opcode::V_CVT_PKNORM_U16_F16, pair<kNormU16F16>},
    {Opcode::V_CVT_PK_U16_U32, pair<kU16U32>},
    {Opcode::V_CVT_PK_I16_I32, pair<kI16I32>},
    {Opcode::V_CVT_PKRTZ_F16_F32, pk_f16_f32<_MM_FROUND_TO_ZERO>},
    {Opcode::V_CVT_PK_F16_F32, pk_f16_f32<_MM_FROUND_TO_NEAREST_INT>},
    {Opcode::V_CVT_PK_BF16_F32, pair<kBf16F32>},
    {Opcode::V_CVT_PK_U8_F32, pk_u8_f32},
    {Opcode::V_CVT_PKACCUM_U8_F32, pk_u8_f32, Mask::None, true},
    {Opcode::V_CVT_SR_F16_F32, sr_f16_f32, Mask::None, false, true},
    {Opcode::V_CVT_SR_BF16_F32, sr_bf16_f32, Mask::None, false, true},
    {Opcode::V_PRNG_B32, unary<kPrng>},
};

}  // namespace

std::span<const VectorEntry> vector_convert_table() {
  static const std::vector<VectorEntry> table = [] {
    std::vector<VectorEntry> all(std::begin(kEntries), std::end(kEntries));
    for (const auto part : {vector_convert_small(), vector_convert_scale(), vector_convert_scale_block()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return table;
}

}  // namespace apb::emu
