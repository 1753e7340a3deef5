// A token of each row of logits, of rows of any width that begin anywhere: the place of the largest one, or of the largest
// probability over a number of an exponential distribution (a race). Of equal ones the first wins, NaN never does.
//
// Thread t of a row's block has columns 4 t to 4 t + 3, and the same of each 4096 columns behind them: so it draws the numbers that
// AITER's kernel of whole groups draws, from subsequence 1024 row + t.
//
// Build:  T = bf16 | f16 | f32   element type of the logits, and of numbers that are drawn
//         MODE = 0                 the largest
//                1                 a race; numbers are read, or drawn where there are none
//                2                 the numbers themselves
//         BLOCK = 1024             threads of a block
// Launch: grid x = rows, block x = BLOCK, no dynamic LDS. A row has fewer than 2^31 - 4096 columns.
#include "common.hpp"

namespace ap {

using f32 = float;
using elem = T;
inline constexpr u32 kWaves = BLOCK / kWave;
inline constexpr u32 kGroup = 4;  // columns of a thread that lie side by side, and numbers that it draws at once
inline constexpr u32 kStep = BLOCK * kGroup;
inline constexpr float kLowest = -0x1.fffffep+127f;

using group = elem __attribute__((ext_vector_type(kGroup), aligned(4)));
using numbers = float __attribute__((ext_vector_type(kGroup), aligned(4)));

// Every column of a row: `use(first column, values, how many there are)` for each group of this thread.
template <typename F>
AP_INLINE void each_group(const elem* row, u32 columns, F use) {
  // An access of several elements begins at a multiple of 4 bytes, which a row of 16-bit elements may not.
  const bool wide = sizeof(elem) == 4 || reinterpret_cast<u64>(row) % 4 == 0;
  for (u32 first = thread_x() * kGroup; first < columns; first += kStep) {
    u32 left = columns - first;
    group x = 0;
    if (wide && left >= kGroup) {
      x = *reinterpret_cast<const group*>(row + first);
    } else {
#pragma unroll
      for (u32 i = 0; i < kGroup; ++i)
        if (i < left) x[i] = row[first + i];
    }
    use(first, x, left);
  }
}

// ---- the largest of a block -------------------------------------------------------------------------------------------

// Lanes that a step leaves out read 0, below every key.
template <int CTRL, int ROWS>
AP_INLINE u64 larger(u64 x) {
  u32 low =
      static_cast<u32>(__builtin_amdgcn_update_dpp(0, static_cast<int>(static_cast<u32>(x)), CTRL, ROWS, 0xf, false));
  u32 high = static_cast<u32>(
      __builtin_amdgcn_update_dpp(0, static_cast<int>(static_cast<u32>(x >> 32)), CTRL, ROWS, 0xf, false));
  u64 other = static_cast<u64>(high) << 32 | low;
  return other > x ? other : x;
}

AP_INLINE u64 block_largest(u64 x, u64* shared) {
  x = larger<0x111, 0xf>(x);  // row_shr:1
  x = larger<0x112, 0xf>(x);  // row_shr:2
  x = larger<0x114, 0xf>(x);  // row_shr:4
  x = larger<0x118, 0xf>(x);  // row_shr:8
  x = larger<0x142, 0xa>(x);  // row_bcast:15 into rows 1 and 3
  x = larger<0x143, 0xc>(x);  // row_bcast:31 into rows 2 and 3
  block_sync();
  if (thread_x() % kWave == kWave - 1) shared[thread_x() / kWave] = x;
  block_sync();
  u64 found = 0;
#pragma unroll
  for (u32 w = 0; w < kWaves; ++w) found = shared[w] > found ? shared[w] : found;
  return found;
}

// Ordered as the values are, and of equal ones the first column is the largest; 0 for what cannot win.
AP_INLINE u64 key_of(float value, u32 column) {
  if (!(value > kLowest)) return 0;
  u32 bits = __builtin_bit_cast(u32, value + 0.0f);  // -0 is 0
  bits ^= bits >> 31 ? 0xffffffffu : 0x80000000u;
  return static_cast<u64>(bits) << 32 | ~column;
}

AP_INLINE float value_of(u64 key) {
  u32 bits = static_cast<u32>(key >> 32);
  bits ^= bits >> 31 ? 0x80000000u : 0xffffffffu;
  return __builtin_bit_cast(float, bits);
}

AP_INLINE i32 column_of(u64 key) { return key == 0 ? 0 : static_cast<i32>(~static_cast<u32>(key)); }

// The key of a row's largest logit.
AP_INLINE u64 largest(const elem* row, u32 columns, u64* shared) {
  u64 best = 0;
  each_group(row, columns, [&](u32 first, group x, u32 left) {
#pragma unroll
    for (u32 i = 0; i < kGroup; ++i) {
      u64 key = i < left ? key_of(static_cast<float>(x[i]), first + i) : 0;
      best = key > best ? key : best;
    }
  });
  return block_largest(best, shared);
}

// ---- numbers of an exponential distribution ---------------------------------------------------------------------------

// Philox4x32-10: the four words of a counter.
AP_INLINE void philox(u64 seed, u64 subsequence, u64 counter, u32 (&c)[4]) {
  c[0] = static_cast<u32>(counter);
  c[1] = static_cast<u32>(counter >> 32);
  c[2] = static_cast<u32>(subsequence);
  c[3] = static_cast<u32>(subsequence >> 32);
  u32 key[2] = {static_cast<u32>(seed), static_cast<u32>(seed >> 32)};
#pragma unroll
  for (u32 turn = 0; turn < 10; ++turn) {
    u64 a = static_cast<u64>(c[0]) * 0xd2511f53u, b = static_cast<u64>(c[2]) * 0xcd9e8d57u;
    c[0] = static_cast<u32>(b >> 32) ^ c[1] ^ key[0];
    c[1] = static_cast<u32>(b);
    c[2] = static_cast<u32>(a >> 32) ^ c[3] ^ key[1];
    c[3] = static_cast<u32>(a);
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
}

// Numbers `at` to `at` + 3 of a subsequence, which may lie in two counters. A uniform number that is rounded to 1 counts as AITER
// has it: its logarithm is 2^-24.
AP_INLINE numbers draw(u64 seed, u64 subsequence, u64 at, float rate) {
  u32 words[8];
  philox(seed, subsequence, at / 4, reinterpret_cast<u32(&)[4]>(words[0]));
  u32 behind = static_cast<u32>(at % 4);
  if (behind != 0) philox(seed, subsequence, at / 4 + 1, reinterpret_cast<u32(&)[4]>(words[4]));
  numbers drawn;
#pragma unroll
  for (u32 i = 0; i < kGroup; ++i) {
    u32 word = words[i];
#pragma unroll
    for (u32 d = 1; d < 4; ++d) word = behind == d ? words[i + d] : word;
    float uniform = __builtin_fmaf(static_cast<float>(word), 0x1p-32f, 0x1p-32f);
    float logarithm = uniform >= 1.0f - 0x1p-24f ? 0x1p-24f : __builtin_logf(uniform);
    drawn[i] = -logarithm / rate;
  }
  return drawn;
}

}  // namespace ap

#if MODE == 0
// out[rows]; input[rows, columns], rows `stride` apart.
AP_KERNEL(BLOCK)
void sample_greedy(ap::i32* out, const ap::elem* input, ap::i32 columns, ap::i64 stride) {
  using namespace ap;
  __shared__ u64 shared[kWaves];
  i64 row = block_x();
  u64 best = largest(input + row * stride, static_cast<u32>(columns), shared);
  if (thread_x() == 0) out[row] = column_of(best);
}
#elif MODE == 1
// out[rows]; input[rows, columns]; exponentials[rows, columns], or they are drawn; temperatures[rows], of which 0 takes the largest
// logit where `cold`. Rows lie `stride` and `e_stride` apart.
AP_KERNEL(BLOCK)
void sample_race(ap::i32* out, const ap::elem* input, const float* exponentials, const float* temperatures,
                 ap::i32 columns, ap::i64 stride, ap::i64 e_stride, ap::u64 seed, ap::u64 offset, float rate, float eps,
                 ap::i32 cold) {
  using namespace ap;
  __shared__ u64 shared[kWaves];
  i64 row = block_x();
  const elem* logits = input + row * stride;
  float temperature = temperatures[row];
  u64 best = largest(logits, static_cast<u32>(columns), shared);
  if (!(cold && temperature == 0.0f)) {
    float warm = temperature > 1e-5f ? temperature : 1e-5f;
    float top = best == 0 ? kLowest : value_of(best) / warm;
    u64 subsequence = static_cast<u64>(row) * BLOCK + thread_x();
    best = 0;
    each_group(logits, static_cast<u32>(columns), [&](u32 first, group x, u32 left) {
      numbers against = 1.0f;
      if (exponentials != nullptr) {
        const float* theirs = exponentials + row * e_stride + first;
        if (left >= kGroup) {
          against = *reinterpret_cast<const numbers*>(theirs);
        } else {
#pragma unroll
          for (u32 i = 0; i < kGroup; ++i)
            if (i < left) against[i] = theirs[i];
        }
      } else {
        against = draw(seed, subsequence, offset + first / kStep * kGroup, rate);
      }
#pragma unroll
      for (u32 i = 0; i < kGroup; ++i) {
        float weight = __builtin_expf(static_cast<float>(x[i]) / warm - top) / (against[i] + eps);
        u64 key = i < left ? key_of(weight, first + i) : 0;
        best = key > best ? key : best;
      }
    });
    best = block_largest(best, shared);
  }
  if (thread_x() == 0) out[row] = column_of(best);
}
#else
// out[rows, columns], rows `stride` apart.
AP_KERNEL(BLOCK)
void draw_exponential(ap::elem* out, ap::i32 columns, ap::i64 stride, ap::u64 seed, ap::u64 offset, float rate,
                      float eps) {
  using namespace ap;
  i64 row = block_x();
  u64 subsequence = static_cast<u64>(row) * BLOCK + thread_x();
  elem* into = out + row * stride;
  u32 all = static_cast<u32>(columns);
  for (u32 first = thread_x() * kGroup; first < all; first += kStep) {
    numbers drawn = draw(seed, subsequence, offset + first / kStep * kGroup, rate);
#pragma unroll
    for (u32 i = 0; i < kGroup; ++i)
      if (first + i < all) into[first + i] = to_elem<elem>(drawn[i] + eps);
  }
}
#endif
