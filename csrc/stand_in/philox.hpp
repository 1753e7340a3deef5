// Philox4x32-10 (Salmon et al., 2011) under the names of hiprand's device interface, as far as AITER's HIP sources use them.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>

// `counter`: which four numbers come next; `at`: how many of them were taken.
struct hiprandStatePhilox4_32_10_t {
  uint4 counter, made;
  uint2 key;
  unsigned at;
};

namespace stand_in {

__device__ inline uint4 philox(uint4 c, uint2 k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c.x, b = uint64_t{0xCD9E8D57u} * c.z;
    c = uint4{static_cast<unsigned>(b >> 32) ^ c.y ^ k.x, static_cast<unsigned>(b),
              static_cast<unsigned>(a >> 32) ^ c.w ^ k.y, static_cast<unsigned>(a)};
    k.x += 0x9E3779B9u;
    k.y += 0xBB67AE85u;
  }
  return c;
}

__device__ inline void skip_groups(hiprandStatePhilox4_32_10_t& s, uint64_t groups) {
  const uint64_t low = (uint64_t{s.counter.y} << 32 | s.counter.x) + groups;
  if (low < groups && ++s.counter.z == 0) ++s.counter.w;
  s.counter.x = static_cast<unsigned>(low);
  s.counter.y = static_cast<unsigned>(low >> 32);
}

__device__ inline unsigned next(hiprandStatePhilox4_32_10_t& s) {
  const unsigned number = s.at == 0 ? s.made.x : s.at == 1 ? s.made.y : s.at == 2 ? s.made.z : s.made.w;
  if (++s.at == 4) {
    s.at = 0;
    skip_groups(s, 1);
    s.made = philox(s.counter, s.key);
  }
  return number;
}

// (0, 1]
__device__ inline float unit(unsigned x) { return 2.3283064e-10f + x * 2.3283064e-10f; }

}  // namespace stand_in

// Each subsequence has 2^64 groups of four numbers.
__device__ inline void hiprand_init(uint64_t seed, uint64_t subsequence, uint64_t offset,
                                    hiprandStatePhilox4_32_10_t* state) {
  state->key = uint2{static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32)};
  state->counter = uint4{0, 0, static_cast<unsigned>(subsequence), static_cast<unsigned>(subsequence >> 32)};
  stand_in::skip_groups(*state, offset / 4);
  state->at = static_cast<unsigned>(offset % 4);
  state->made = stand_in::philox(state->counter, state->key);
}

__device__ inline float4 hiprand_uniform4(hiprandStatePhilox4_32_10_t* state) {
  float4 numbers;
  numbers.x = stand_in::unit(stand_in::next(*state));
  numbers.y = stand_in::unit(stand_in::next(*state));
  numbers.z = stand_in::unit(stand_in::next(*state));
  numbers.w = stand_in::unit(stand_in::next(*state));
  return numbers;
}
