// Matrix products whose arithmetic IEEE 754 and the integers define: chains of fma for f32 and f64, 32-bit sums for i8.
#include <immintrin.h>

#include "lanes.h"
#include "matrix.h"

namespace apb::emu {
namespace {

template <int W>
using Floats = float __attribute__((ext_vector_type(W)));

template <int N>
void block_f32(const BlockCall& call) {
  constexpr int kW = N < 8 ? N : 8, kV = N / kW;
  using Vector = Floats<kW>;
  const MatrixScratch& s = *call.scratch;
  for (int i = 0; i < N; ++i) {
    const int at = call.place.offset(i);
    Vector sum[kV];
    __builtin_memcpy(sum, call.c + at, sizeof sum);
    for (int k = 0; k < call.k; ++k) {
      const Vector a(s.a[k * N + i]);
      Vector b[kV];
      __builtin_memcpy(b, s.b + k * N, sizeof b);
      for (int v = 0; v < kV; ++v) sum[v] = __builtin_elementwise_fma(a, b[v], sum[v]);
    }
    __builtin_memcpy(call.d + at, sum, sizeof sum);
  }
}

// 16-bit pairs along k: one madd is 16 multiply-adds, exact (|-128 * -128| * 2 < 2^31).
template <int N>
void block_i8(const BlockCall& call, const i32* a, const i32* b) {
  for (int i = 0; i < N; ++i) {
    const int at = call.place.offset(i);
    for (int j = 0; j < N; j += 8) {
      constexpr int kW = N < 8 ? N : 8;
      alignas(32) i32 row[8] = {};
      __builtin_memcpy(row, call.c + at + j, kW * 4);
      __m256i sum = _mm256_load_si256(reinterpret_cast<const __m256i*>(row));
      for (int k = 0; k < call.k / 2; ++k) {
        // N = 4 reads four dwords beyond its row; the scratch arrays are larger than any operand.
        const __m256i columns = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + k * N + j));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_set1_epi32(a[k * N + i]), columns));
      }
      _mm256_store_si256(reinterpret_cast<__m256i*>(row), sum);
      __builtin_memcpy(call.d + at + j, row, kW * 4);
    }
  }
}

double read_f64(const BlockSource& source, int i, int k, bool negate) {
  const int lane = i + source.size * (source.block + source.blocks * k);
  const double value = as_f64(get64(source.rows, lane));
  return negate ? -value : value;
}

}  // namespace

void multiply_f32(const BlockCall& call) {
  switch (call.place.size) {
    case 4: return block_f32<4>(call);
    case 16: return block_f32<16>(call);
    default: return block_f32<32>(call);
  }
}

void multiply_i8(const BlockCall& call, const i32* a, const i32* b) {
  switch (call.place.size) {
    case 4: return block_i8<4>(call, a, b);
    case 16: return block_i8<16>(call, a, b);
    default: return block_i8<32>(call, a, b);
  }
}

// Both f64 shapes have K = 4: one register pair per lane and operand.
void multiply_f64(const BlockSource& a, const BlockSource& b, const BlockCall& call, unsigned negate) {
  const int n = call.place.size;
  double left[16][4], right[4][16];
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < 4; ++k) {
      left[i][k] = read_f64(a, i, k, negate & 1);
      right[k][i] = read_f64(b, i, k, negate & 2);
    }
  }
  for (int i = 0; i < n; ++i) {
    const int at = call.place.offset(i);
    for (int j = 0; j < n; ++j) {
      double sum = as_f64(get64(call.c + at, j));
      if (negate & 4) sum = -sum;
      for (int k = 0; k < 4; ++k) sum = __builtin_fma(left[i][k], right[k][j], sum);
      put64(call.d + at, j, bits_of(sum));
    }
  }
}

}  // namespace apb::emu
