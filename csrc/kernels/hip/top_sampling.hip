// A token of each row of probabilities, drawn among the most probable ones; or these made to sum to 1.
//
// x is taken where fewer than k numbers of its row are larger, and these sum to less than p: so are all its equals. NaN, infinities
// and numbers below 0 count as 0. A block takes a row. Three steps of a radix select (11, 10 and 10 bits) find the least number
// that is taken: a bin counts its numbers and adds their significands in one word, which is exact since its numbers have one
// exponent; sums over bins are in fp64, in an order that nothing changes. A token is then drawn by where one number from Philox's
// generator lies among the sums of the row in order.
//
// Build:  RENORM = 0             the tokens
//                  1             the probabilities
//         BLOCK = 1024           threads of a block
// Launch: grid x = tokens or rows, block x = BLOCK, no dynamic LDS. A row has fewer than 2^20 numbers.
#include "common.hpp"

namespace ap {

inline constexpr u32 kWaves = BLOCK / kWave;
inline constexpr u32 kGroup = 4;  // numbers of one access, which begins anywhere
inline constexpr u32 kAhead = 4;  // accesses of a thread that are under way at once
inline constexpr u32 kBins = 2048;
inline constexpr u32 kCount = 44;  // bits of a bin's word below its count
inline constexpr u32 kLargest = 0x7f7fffff;

using group = float __attribute__((ext_vector_type(kGroup), aligned(sizeof(float))));

AP_INLINE u32 bits_of(float x) { return __builtin_bit_cast(u32, x); }
// Whether the number with these bits counts and is as large as the one with `least`, which is above 0.
AP_INLINE bool taken(u32 bits, u32 least) { return bits - least <= kLargest - least; }

struct row {
  const float* first;
  u32 size;
  __device__ u32 groups() const { return size / kGroup; }
  __device__ u32 rest() const { return size % kGroup; }  // numbers behind the last group
  __device__ group load(u32 g) const { return *reinterpret_cast<const group*>(first + g * kGroup); }

  // Every number, in no order.
  template <typename F>
  __device__ __attribute__((always_inline)) void each(F use) const {
    u32 g = thread_x();
    for (; g + (kAhead - 1) * BLOCK < groups(); g += kAhead * BLOCK) {
      group x[kAhead];
#pragma unroll
      for (u32 a = 0; a < kAhead; ++a) x[a] = load(g + a * BLOCK);
#pragma unroll
      for (u32 a = 0; a < kAhead; ++a)
#pragma unroll
        for (u32 i = 0; i < kGroup; ++i) use(x[a][i]);
    }
    for (; g < groups(); g += BLOCK) {
      group x = load(g);
#pragma unroll
      for (u32 i = 0; i < kGroup; ++i) use(x[i]);
    }
    if (thread_x() < rest()) use(first[groups() * kGroup + thread_x()]);
  }
};

template <int CTRL, int ROWS>
AP_INLINE u32 dpp(u32 x) {
  return static_cast<u32>(__builtin_amdgcn_update_dpp(0, static_cast<int>(x), CTRL, ROWS, 0xf, false));
}
template <int CTRL, int ROWS>
AP_INLINE double dpp(double x) {
  u64 bits = __builtin_bit_cast(u64, x);
  u64 high = dpp<CTRL, ROWS>(static_cast<u32>(bits >> 32));
  return __builtin_bit_cast(double, high << 32 | dpp<CTRL, ROWS>(static_cast<u32>(bits)));
}

// Sum of the lanes up to this one. Lanes that a step leaves out add 0.
template <typename N>
AP_INLINE N wave_sums(N x) {
  x += dpp<0x111, 0xf>(x);  // row_shr:1
  x += dpp<0x112, 0xf>(x);  // row_shr:2
  x += dpp<0x114, 0xf>(x);  // row_shr:4
  x += dpp<0x118, 0xf>(x);  // row_shr:8
  x += dpp<0x142, 0xa>(x);  // row_bcast:15 into rows 1 and 3
  x += dpp<0x143, 0xc>(x);  // row_bcast:31 into rows 2 and 3
  return x;
}
// The same of the lanes before it.
AP_INLINE double before_lane(double upto) { return dpp<0x138, 0xf>(upto); }  // wave_shr:1
AP_INLINE double last_lane(double x) {
  u64 bits = __builtin_bit_cast(u64, x);
  u64 high = static_cast<u32>(__builtin_amdgcn_readlane(static_cast<int>(bits >> 32), kWave - 1));
  return __builtin_bit_cast(
      double, high << 32 | static_cast<u32>(__builtin_amdgcn_readlane(static_cast<int>(bits), kWave - 1)));
}

struct shared_words {
  u64 bins[kBins];
  double sums[kWaves];
  u32 counts[kWaves];
  u32 place, count, more;
  double above, own;
};

struct found {
  u32 least;   // bits of the least number that is taken
  double sum;  // of all that are
};

// One step: `shift` bits lie below its digit of `bits` bits. `digits`: those that the steps before found; `more`, `above`: count and
// sum of the numbers above them. Gives whether
// what is taken is known.
template <u32 SHIFT, u32 BITS>
AP_INLINE bool select_step(const row& all, i32 k, double p, u32& digits, u32& more, double& above, double& own,
                           shared_words& lds) {
  constexpr u32 each = (1u << BITS) / BLOCK;
  constexpr bool first = SHIFT + BITS == 31;
  for (u32 b = thread_x(); b < 1u << BITS; b += BLOCK) lds.bins[b] = 0;
  if (thread_x() == 0) lds.place = ~0u;
  block_sync();
  const u32 wanted = digits;
  all.each([&](float x) {
    u32 bits = bits_of(x);
    if (!taken(bits, 1) || (!first && bits >> (SHIFT + BITS) != wanted)) return;
    u64 significand = (bits & 0x7fffffu) | (bits >> 23 ? 0x800000u : 0u);
    __hip_atomic_fetch_add(&lds.bins[bits >> SHIFT & ((1u << BITS) - 1)], 1ull << kCount | significand,
                           __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  });
  block_sync();
  // From the largest digit down, some for each thread.
  u32 counts[each], total = 0;
  double sums[each], total_sum = 0;
#pragma unroll
  for (u32 i = 0; i < each; ++i) {
    u32 digit = (1u << BITS) - 1 - (thread_x() * each + i);
    u64 word = lds.bins[digit];
    i32 exponent = static_cast<i32>(first ? digit >> (23 - SHIFT) : digits >> (23 - SHIFT - BITS));
    counts[i] = static_cast<u32>(word >> kCount);
    sums[i] = __builtin_ldexp(static_cast<double>(word & ((1ull << kCount) - 1)), (exponent > 0 ? exponent : 1) - 150);
    total += counts[i];
    total_sum += sums[i];
  }
  u32 count = wave_sums(total), wave = thread_x() / kWave;
  double upto = wave_sums(total_sum), sum = before_lane(upto);
  if (thread_x() % kWave == kWave - 1) {
    lds.counts[wave] = count;
    lds.sums[wave] = upto;
  }
  block_sync();
  count += more - total;
  double whole = above, base = above;
#pragma unroll
  for (u32 w = 0; w < kWaves; ++w) {
    if (w == wave) base = whole;
    if (w < wave) count += lds.counts[w];
    whole += lds.sums[w];
  }
  sum += base;
  // The first digit whose numbers are not all taken. Sums of other orders may differ by a rounding: so the first, not the only one.
  u32 counts_before[each];
  double sums_before[each];
#pragma unroll
  for (u32 i = 0; i < each; ++i) {
    counts_before[i] = count;
    sums_before[i] = sum;
    count += counts[i];
    sum += sums[i];
    if (counts[i] != 0 && !(static_cast<i32>(count) < k && sum < p))
      __hip_atomic_fetch_min(&lds.place, thread_x() * each + i, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  }
  block_sync();
  u32 place = lds.place;
  if (place == ~0u) {  // all
    digits <<= BITS;
    own = whole - above;
    block_sync();
    return true;
  }
#pragma unroll
  for (u32 i = 0; i < each; ++i) {
    if (place == thread_x() * each + i) {
      lds.count = counts[i];
      lds.more = counts_before[i];
      lds.above = sums_before[i];
      lds.own = sums[i];
    }
  }
  block_sync();
  digits = digits << BITS | ((1u << BITS) - 1 - place);
  more = lds.more;
  above = lds.above;
  own = lds.own;
  return lds.count == 1;
}

AP_INLINE found select(const row& all, i32 k, double p, shared_words& lds) {
  u32 digits = 0, more = 0, shift = 20;
  double above = 0, own = 0;
  if (!select_step<20, 11>(all, k, p, digits, more, above, own, lds)) {
    shift = 10;
    if (!select_step<10, 10>(all, k, p, digits, more, above, own, lds)) {
      shift = 0;
      select_step<0, 10>(all, k, p, digits, more, above, own, lds);
    }
  }
  u32 least = digits << shift;
  return {least > 0 ? least : 1, above + own};
}

#if RENORM

AP_INLINE void renorm(const row& all, found found, float* out) {
  double factor = 1.0 / (found.sum > 1e-8f ? found.sum : static_cast<double>(1e-8f));
  auto scaled = [&](float x) {
    return taken(bits_of(x), found.least) ? static_cast<float>(static_cast<double>(x) * factor) : 0.0f;
  };
  for (u32 g = thread_x(); g < all.groups(); g += BLOCK) {
    group x = all.load(g);
#pragma unroll
    for (u32 i = 0; i < kGroup; ++i) x[i] = scaled(x[i]);
    *reinterpret_cast<group*>(out + g * kGroup) = x;
  }
  u32 behind = all.groups() * kGroup + thread_x();
  if (thread_x() < all.rest()) out[behind] = scaled(all.first[behind]);
}

#else

// Philox4x32-10: the four words of a counter, of which `word` is wanted.
AP_INLINE u32 philox(u64 seed, u64 subsequence, u64 at) {
  u32 c[4] = {static_cast<u32>(at / 4), static_cast<u32>(at / 4 >> 32), static_cast<u32>(subsequence),
              static_cast<u32>(subsequence >> 32)};
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
  u32 word = at % 4;
  return word == 0 ? c[0] : word == 1 ? c[1] : word == 2 ? c[2] : c[3];
}

// In [0, 1), of 53 bits: two words of the subsequence.
AP_INLINE double uniform(u64 seed, u64 subsequence, u64 offset) {
  u64 bits = static_cast<u64>(philox(seed, subsequence, offset)) << 32 | philox(seed, subsequence, offset + 1);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// The place of the first number with which the sum in order is above `target`; by one wave, which has the groups from `begin` to
// `end`, and the numbers behind the last group if `rest`. Where rounding leaves none, the last that is taken.
AP_INLINE void draw(const row& all, u32 least, u32 begin, u32 end, bool rest, double target, i32* out) {
  u32 lane = thread_x() % kWave, last = 0;  // the last place and 1
  double before = 0;
  auto step = [&](group x, u32 at) {
    double own = 0;
#pragma unroll
    for (u32 i = 0; i < kGroup; ++i) {
      bool in = taken(bits_of(x[i]), least);
      own += in ? static_cast<double>(x[i]) : 0.0;
      last = in ? at + i + 1 : last;
    }
    double upto = wave_sums(own), base = before + before_lane(upto);
    u64 above = __builtin_amdgcn_ballot_w64(before + upto > target);
    before += last_lane(upto);
    if (above == 0) return false;
    if (lane == static_cast<u32>(__builtin_ctzll(above))) {
      u32 place = last;
#pragma unroll
      for (i32 i = kGroup - 1; i >= 0; --i) {
        double sum = base;
#pragma unroll
        for (i32 j = 0; j <= i; ++j) sum += taken(bits_of(x[j]), least) ? static_cast<double>(x[j]) : 0.0;
        if (sum > target) place = at + static_cast<u32>(i) + 1;
      }
      *out = static_cast<i32>(place - 1);
    }
    return true;
  };
  for (u32 g = begin; g < end; g += kWave) {
    group x = 0;
    if (g + lane < end) x = all.load(g + lane);
    if (step(x, (g + lane) * kGroup)) return;
  }
  if (rest) {
    group x = 0;
    u32 at = all.groups() * kGroup + lane;
    if (lane < all.rest()) x[0] = all.first[at];
    if (step(x, at)) return;
  }
  for (u32 w = 0; w < kWave; ++w) {
    u32 of = static_cast<u32>(__builtin_amdgcn_readlane(static_cast<int>(last), static_cast<int>(w)));
    if (of != 0 && lane == 0) *out = static_cast<i32>(of - 1);
  }
}

AP_INLINE void sample(const row& all, u32 least, double uniform, i32* out, shared_words& lds) {
  // A wave has a part of the row, so that only one of them goes through its part in order.
  u32 wave = static_cast<u32>(__builtin_amdgcn_readfirstlane(static_cast<int>(thread_x() / kWave))),
      lane = thread_x() % kWave;
  u32 part = (all.groups() + kWaves - 1) / kWaves, begin = part * wave;
  u32 end = begin + part < all.groups() ? begin + part : all.groups();
  double own = 0;
  auto add = [&](float x) { own += taken(bits_of(x), least) ? static_cast<double>(x) : 0.0; };
  u32 g = begin + lane;
  for (; g + (kAhead - 1) * kWave < end; g += kAhead * kWave) {
    group x[kAhead];
#pragma unroll
    for (u32 a = 0; a < kAhead; ++a) x[a] = all.load(g + a * kWave);
#pragma unroll
    for (u32 a = 0; a < kAhead; ++a)
#pragma unroll
      for (u32 i = 0; i < kGroup; ++i) add(x[a][i]);
  }
  for (; g < end; g += kWave) {
    group x = all.load(g);
#pragma unroll
    for (u32 i = 0; i < kGroup; ++i) add(x[i]);
  }
  if (wave == kWaves - 1 && lane < all.rest()) add(all.first[all.groups() * kGroup + lane]);
  double sum = wave_sums(own);
  if (lane == kWave - 1) lds.sums[wave] = sum;
  block_sync();
  double whole = 0;
#pragma unroll
  for (u32 w = 0; w < kWaves; ++w) whole += lds.sums[w];
  double target = uniform * whole, upto = 0, before = 0;
  u32 drawn = ~0u;  // the first whose sum is above; where rounding leaves none, the last of those that have any
  bool above = false;
#pragma unroll
  for (u32 w = 0; w < kWaves; ++w) {
    double of = lds.sums[w];
    if (!above && of > 0) {
      drawn = w;
      before = upto;
      above = upto + of > target;
    }
    upto += of;
  }
  if (drawn == ~0u) {
    if (thread_x() == 0) *out = 0;
  } else if (wave == drawn) {
    draw(all, least, begin, end, wave == kWaves - 1, target - before, out);
  }
}

#endif

}  // namespace ap

#if RENORM
// out[rows, size]; probs, rows `stride` apart; ks[rows], or k for all.
AP_KERNEL(BLOCK)
void top_k_renorm(float* out, const float* probs, const ap::i32* ks, ap::i32 size, ap::i64 stride, ap::i32 k) {
  using namespace ap;
  __shared__ shared_words lds;
  i64 r = block_x();
  row all = {probs + r * stride, static_cast<u32>(size)};
  found found = select(all, ks ? ks[r] : k, __builtin_inf(), lds);
  renorm(all, found, out + r * size);
}
#else
// out[tokens]; probs[rows, size], rows `stride` apart; indices[tokens], or the row of each token is its own; ks[rows] and ps[rows], or
// k and p for all. A token of no row is -1.
AP_KERNEL(BLOCK)
void top_sampling(ap::i32* out, const float* probs, const ap::i32* indices, const ap::i32* ks, const float* ps,
                  ap::i32 rows, ap::i32 size, ap::i64 stride, ap::i32 k, float p, ap::u64 seed, ap::u64 offset) {
  using namespace ap;
  __shared__ shared_words lds;
  u32 token = block_x();
  i32 r = indices ? indices[token] : static_cast<i32>(token);
  if (static_cast<u32>(r) >= static_cast<u32>(rows)) {
    if (thread_x() == 0) out[token] = -1;
    return;
  }
  row all = {probs + r * stride, static_cast<u32>(size)};
  found found = select(all, ks ? ks[r] : k, static_cast<double>(ps ? ps[r] : p), lds);
  sample(all, found.least, uniform(seed, token, offset), out + token, lds);
}
#endif
