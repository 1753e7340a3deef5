// What AITER's HIP sources use of hipcub and rocprim, in our own words: a reduction over a block, its operators, lanes that move.
#pragma once

#include <hip/hip_runtime.h>

#include <type_traits>

namespace hipcub {

struct Max {
  template <typename T>
  __host__ __device__ constexpr T operator()(const T& a, const T& b) const {
    return a < b ? b : a;
  }
};
struct Min {
  template <typename T>
  __host__ __device__ constexpr T operator()(const T& a, const T& b) const {
    return b < a ? b : a;
  }
};
struct Sum {
  template <typename T>
  __host__ __device__ constexpr T operator()(const T& a, const T& b) const {
    return a + b;
  }
};

template <typename Key, typename Value>
struct KeyValuePair {
  Key key;
  Value value;
};
// Of two equal values the lower key. Members are chosen one by one: pairs that are chosen whole end up in memory.
struct ArgMax {
  template <typename Pair>
  __host__ __device__ constexpr Pair operator()(const Pair& a, const Pair& b) const {
    const bool second = b.value > a.value || (b.value == a.value && b.key < a.key);
    return {second ? b.key : a.key, second ? b.value : a.value};
  }
};
struct ArgMin {
  template <typename Pair>
  __host__ __device__ constexpr Pair operator()(const Pair& a, const Pair& b) const {
    const bool second = b.value < a.value || (b.value == a.value && b.key < a.key);
    return {second ? b.key : a.key, second ? b.value : a.value};
  }
};

}  // namespace hipcub

namespace rocprim {

// f(word, ...) for each 32-bit word of a value.
template <typename T, typename F>
__device__ inline T by_words(const T& value, F f) {
  static_assert(sizeof(T) % 4 == 0 && std::is_trivially_copyable_v<T>);
  struct words {
    int word[sizeof(T) / 4];
  };
  auto moved = __builtin_bit_cast(words, value);
  for (int& word : moved.word) word = f(word);
  return __builtin_bit_cast(T, moved);
}

namespace detail {
// A lane whose source does not exist keeps its own value.
template <typename T, int Control, int RowMask = 0xf, int BankMask = 0xf, bool BoundControl = false>
__device__ inline T warp_move_dpp(const T& value) {
  return by_words(value, [](int word) {
    return __builtin_amdgcn_update_dpp(word, word, Control, RowMask, BankMask, BoundControl);
  });
}
}  // namespace detail

template <typename T>
__device__ inline T warp_shuffle(const T& value, int lane, int width = 64) {
  return by_words(value, [=](int word) { return __shfl(word, lane, width); });
}
template <typename T>
__device__ inline T warp_shuffle_down(const T& value, unsigned by, int width = 64) {
  return by_words(value, [=](int word) { return __shfl_down(word, by, width); });
}

}  // namespace rocprim

namespace hipcub {

// The result is thread 0's. Whoever uses the storage again puts a barrier before it.
template <typename T, int Threads>
class BlockReduce {
 public:
  struct TempStorage {
    T waves[(Threads + 63) / 64];
  };
  __device__ explicit BlockReduce(TempStorage& storage) : storage_(storage) {}

  template <typename F>
  __device__ T Reduce(T value, F f, int valid = Threads) {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 64;
    for (int by = 32; by > 0; by /= 2) {
      T other = rocprim::warp_shuffle_down(value, by);
      if (lane + by < 64 && thread + by < valid) value = f(value, other);
    }
    if (lane == 0) storage_.waves[thread / 64] = value;
    __syncthreads();
    if (thread == 0) {
      for (int wave = 1; wave * 64 < valid; ++wave) value = f(value, storage_.waves[wave]);
    }
    return value;
  }
  __device__ T Sum(T value) { return Reduce(value, hipcub::Sum()); }

 private:
  TempStorage& storage_;
};

}  // namespace hipcub
