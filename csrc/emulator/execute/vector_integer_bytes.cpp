// Sums of absolute differences, bytes, packing, and the opcode for partitioning a screen.
#include "vector_integer.h"

namespace apb::emu {
namespace {

inline u32 byte(u32 value, int index) { return value >> index * 8 & 0xff; }
inline u32 distance(u32 a, u32 b) { return a > b ? a - b : b - a; }

inline u32 sad_u8(u32 a, u32 b) {
  u32 sum = 0;
  for (int i = 0; i < 4; ++i) sum += distance(byte(a, i), byte(b, i));
  return sum;
}
// Bytes of the reference (S1) that are zero do not count.
inline u32 masked_sad_u8(u32 a, u32 reference) {
  u32 sum = 0;
  for (int i = 0; i < 4; ++i) sum += byte(reference, i) ? distance(byte(a, i), byte(reference, i)) : 0;
  return sum;
}
inline u32 sad_high_u8(u32 a, u32 b) { return sad_u8(a, b) << 16; }
inline u32 sad_u16(u32 a, u32 b) { return distance(a & 0xffff, b & 0xffff) + distance(a >> 16, b >> 16); }
inline u32 sad_u32(u32 a, u32 b) { return distance(a, b); }

// CLAMP saturates the sum with S2.
template <auto Difference>
void sum_of_differences(VectorCall& call) {
  const u32 *a = call.source[0], *b = call.source[1], *c = call.source[2];
  const bool clamp = call.instruction->clamp;
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 sum = Difference(a[lane], b[lane]) + c[lane];
    call.out[lane] = clamp && sum < c[lane] ? ~0u : sum;
  }
}

// Four sums over the bytes 0-3, 1-4, 2-5, 3-6 of S0.
template <auto Difference, bool Wide>
void quad_sums(VectorCall& call) {
  const bool clamp = call.instruction->clamp;
  for (int lane = 0; lane < kLanes; ++lane) {
    const u64 bytes = get64(call.source[0], lane);
    const u32 reference = call.source[1][lane];
    u32 sum[4];
    for (int i = 0; i < 4; ++i) {
      const u32 addend =
          Wide ? call.source[2][i * kLanes + lane] : call.source[2][i / 2 * kLanes + lane] >> i % 2 * 16 & 0xffff;
      sum[i] = Difference(static_cast<u32>(bytes >> i * 8), reference) + addend;
      if (clamp && Wide && sum[i] < addend) sum[i] = ~0u;
      if (clamp && !Wide && sum[i] > 0xffff) sum[i] = 0xffff;
    }
    for (int i = 0; i < 4; ++i) {
      if (Wide)
        call.out[i * kLanes + lane] = sum[i];
      else if (i % 2 == 0)
        call.out[i / 2 * kLanes + lane] = (sum[i] & 0xffff) | sum[i + 1] << 16;
    }
  }
}

// Each byte: (a + b + rounding bit) / 2.
constexpr auto kAverage = [](u32 a, u32 b, u32 rounding) {
  u32 result = 0;
  for (int i = 0; i < 4; ++i) result |= ((byte(a, i) + byte(b, i) + (byte(rounding, i) & 1)) >> 1) << i * 8;
  return result;
};

// Selectors 0-3 bytes of S1, 4-7 of S0, 8-11 the signs of bytes 1, 3, 5, 7 spread out, 12 zeros, above ones.
// `data`: S1 and S0 of two lanes in each 128 bits; `selector`: the selectors of the first lane in dword 0, of the second in 2.
inline __m256i permute_pairs(__m256i data, __m256i selector) {
  const __m256i second = _mm256_set_epi64x(0x0808080808080808, 0, 0x0808080808080808, 0);
  const auto every = [](int value) { return _mm256_set1_epi8(static_cast<char>(value)); };
  const __m256i bytes = _mm256_shuffle_epi8(data, _mm256_add_epi8(_mm256_and_si256(selector, every(7)), second));
  const __m256i odd = _mm256_or_si256(_mm256_slli_epi16(_mm256_and_si256(selector, every(3)), 1), every(1));
  const __m256i signs =
      _mm256_cmpgt_epi8(_mm256_setzero_si256(), _mm256_shuffle_epi8(data, _mm256_add_epi8(odd, second)));
  const auto at_least = [&](int value) { return _mm256_cmpeq_epi8(_mm256_max_epu8(selector, every(value)), selector); };
  __m256i result = _mm256_blendv_epi8(bytes, signs, at_least(8));
  result = _mm256_andnot_si256(at_least(12), result);
  return _mm256_or_si256(result, at_least(13));
}

void permute(VectorCall& call) {
  const auto load = [&](int source, int lane) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(call.source[source] + lane));
  };
  for (int lane = 0; lane < kLanes; lane += 8) {
    const __m256i high = load(0, lane), low = load(1, lane), selector = load(2, lane), zero = _mm256_setzero_si256();
    const __m256i first = permute_pairs(_mm256_unpacklo_epi32(low, high), _mm256_unpacklo_epi32(selector, zero));
    const __m256i second = permute_pairs(_mm256_unpackhi_epi32(low, high), _mm256_unpackhi_epi32(selector, zero));
    const __m256 joined = _mm256_shuffle_ps(_mm256_castsi256_ps(first), _mm256_castsi256_ps(second), 0x88);
    _mm256_storeu_ps(reinterpret_cast<float*>(call.out + lane), joined);
  }
}

constexpr auto kPack16 = [](u32 low, u32 high) { return (low & 0xffff) | high << 16; };

inline u32 saturated(i32 value, i32 low, i32 high) {
  return static_cast<u32>(value < low ? low : value > high ? high : value) & 0xff;
}
constexpr auto kSaturatePack = [](u32 a) {
  return saturated(static_cast<i16>(a), 0, 255) | saturated(static_cast<i16>(a >> 16), 0, 255) << 8;
};
template <i32 Low, i32 High>
constexpr auto kShiftPack = [](u32 a, u32 b, u32 by) {
  return saturated(static_cast<i32>(a) >> (by & 31), Low, High) | saturated(static_cast<i32>(b) >> (by & 31), Low, High)
                                                                      << 8;
};

// The shader engines, of four, that a rectangle of 32 x 32 tiles touches. S0: x_min, y_min, x_max, y_max, two bits each from the
// top, modulo four tiles; tile (x, y) belongs to engine {x[0] ^ y[1], y[0] ^ x[1]} (AMD's Vega ISA document).
constexpr auto kScreenPartition = [](u32 select) {
  const u32 x_min = select >> 6 & 3, y_min = select >> 4 & 3, x_max = select >> 2 & 3, y_max = select & 3;
  u32 mask = 0;
  for (u32 i = 0; i <= ((x_max - x_min) & 3); ++i) {
    for (u32 j = 0; j <= ((y_max - y_min) & 3); ++j) {
      const u32 x = (x_min + i) & 3, y = (y_min + j) & 3;
      mask |= 1u << (((x & 1) ^ y >> 1) << 1 | ((y & 1) ^ x >> 1));
    }
  }
  return mask;
};

constexpr VectorEntry kEntries[] = {
    {Opcode::V_SAD_U8, sum_of_differences<sad_u8>},
    {Opcode::V_SAD_HI_U8, sum_of_differences<sad_high_u8>},
    {Opcode::V_SAD_U16, sum_of_differences<sad_u16>},
    {Opcode::V_SAD_U32, sum_of_differences<sad_u32>},
    {Opcode::V_MSAD_U8, sum_of_differences<masked_sad_u8>},
    {Opcode::V_QSAD_PK_U16_U8, quad_sums<sad_u8, false>},
    {Opcode::V_MQSAD_PK_U16_U8, quad_sums<masked_sad_u8, false>},
    {Opcode::V_MQSAD_U32_U8, quad_sums<masked_sad_u8, true>},
    {Opcode::V_LERP_U8, three_u32<kAverage>},
    {Opcode::V_PERM_B32, permute},
    {Opcode::V_PACK_B32_F16, two_u32<kPack16>},
    {Opcode::V_SAT_PK_U8_I16, one_u32<kSaturatePack>},
    {Opcode::V_ASHR_PK_I8_I32, three_u32<kShiftPack<-128, 127>>, Mask::None, false, true},
    {Opcode::V_ASHR_PK_U8_I32, three_u32<kShiftPack<0, 255>>, Mask::None, false, true},
    {Opcode::V_SCREEN_PARTITION_4SE_B32, one_u32<kScreenPartition>},
};

}  // namespace

std::span<const VectorEntry> vector_integer_bytes() { return kEntries; }

}  // namespace apb::emu
