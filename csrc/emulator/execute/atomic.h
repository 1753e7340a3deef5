// Read-modify-write operations as functors `T operator()(T memory, T data, T data2, Mode)`, and how they run on memory
// that other host threads use (compare-and-swap loops) and on LDS (plain: the waves of a workgroup take turns on one
// thread). Formulas: AMD's pseudocode of each instruction.
#pragma once

#include <cstdint>
#include <type_traits>

#include "atomic_float.h"
#include "memory_lanes.h"
#include "wave.h"

namespace apb::emu::atomic {

template <typename T>
struct Add {
  using type = T;
  T operator()(T m, T d, T, Mode) const { return m + d; }
};
template <typename T>
struct Sub {
  using type = T;
  T operator()(T m, T d, T, Mode) const { return m - d; }
};
template <typename T>
struct ReverseSub {
  using type = T;
  T operator()(T m, T d, T, Mode) const { return d - m; }
};
template <typename T>
struct Increment {
  using type = T;
  T operator()(T m, T d, T, Mode) const { return m >= d ? T{0} : m + 1; }
};
template <typename T>
struct Decrement {
  using type = T;
  T operator()(T m, T d, T, Mode) const { return m == 0 || m > d ? d : m - 1; }
};
template <typename T>
struct And {
  using type = T;
  T operator()(T m, T d, T, Mode) const { return m & d; }
};
template <typename T>
struct Or {
  using type = T;
  T operator()(T m, T d, T, Mode) const { return m | d; }
};
template <typename T>
struct Xor {
  using type = T;
  T operator()(T m, T d, T, Mode) const { return m ^ d; }
};
template <typename T>
struct Swap {
  using type = T;
  T operator()(T, T d, T, Mode) const { return d; }
};
template <typename T>
struct UnsignedMin {
  using type = T;
  T operator()(T m, T d, T, Mode) const { return d < m ? d : m; }
};
template <typename T>
struct UnsignedMax {
  using type = T;
  T operator()(T m, T d, T, Mode) const { return d >= m ? d : m; }
};
template <typename T>
struct SignedMin {
  using type = T;
  T operator()(T m, T d, T, Mode) const {
    using S = std::make_signed_t<T>;
    return static_cast<S>(d) < static_cast<S>(m) ? d : m;
  }
};
template <typename T>
struct SignedMax {
  using type = T;
  T operator()(T m, T d, T, Mode) const {
    using S = std::make_signed_t<T>;
    return static_cast<S>(d) >= static_cast<S>(m) ? d : m;
  }
};
// Buffer, global and flat: the first data dword(s) replace, the second are compared with.
template <typename T>
struct CompareSwap {
  using type = T;
  T operator()(T m, T d, T d2, Mode) const { return m == d2 ? d : m; }
};
// LDS has them the other way round.
template <typename T>
struct CompareStore {
  using type = T;
  T operator()(T m, T d, T d2, Mode) const { return m == d ? d2 : m; }
};
template <typename T>
struct MaskOr {
  using type = T;
  T operator()(T m, T d, T d2, Mode) const { return (m & ~d) | d2; }
};
template <typename T>
struct Wrap {
  using type = T;
  T operator()(T m, T d, T d2, Mode) const { return m >= d ? m - d : m + d2; }
};

template <typename T>
inline T data_of(const std::uint32_t* row, int lane) {
  if constexpr (sizeof(T) == 4)
    return row[lane];
  else
    return row[lane] | static_cast<std::uint64_t>(row[kLanes + lane]) << 32;
}
template <typename T>
inline void put(std::uint32_t* row, int lane, T value) {
  row[lane] = static_cast<std::uint32_t>(value);
  if constexpr (sizeof(T) == 8) row[kLanes + lane] = static_cast<std::uint32_t>(value >> 32);
}

// One atomic operation on memory of all host threads, for the lanes of `active`, lowest first. `data` are rows; `old`
// is null or the rows that receive what was there (they may be the data's). Addresses are aligned and checked.
struct MemoryOperation {
  // Says how many lanes left memory as it was: a wave that waits for a flag by atomics writes nothing.
  unsigned (*run)(const std::uint64_t* address, std::uint64_t active, const std::uint32_t* data, std::uint32_t* old);
  std::uint8_t bytes;
};

// The L2 cache and the fabric keep denormals whatever MODE says. (CDNA4's table 53 says that f32 adds flush them;
// LLVM's list of features, made from hardware, says that gfx940 and later keep them, and so does AMD's pseudocode.)
template <typename Op>
unsigned run_memory(const std::uint64_t* address, std::uint64_t active, const std::uint32_t* data, std::uint32_t* old) {
  using T = typename Op::type;
  unsigned unchanged = 0;
  for_lanes(active, [&](int l) {
    const T d = data_of<T>(data, l);
    const T d2 = std::is_same_v<Op, CompareSwap<T>> ? data_of<T>(data + sizeof(T) / 4 * kLanes, l) : T{};
    T* where = reinterpret_cast<T*>(address[l]);
    T before = __atomic_load_n(where, __ATOMIC_RELAXED);
    T after = Op{}(before, d, d2, Mode{});
    while (!__atomic_compare_exchange_n(where, &before, after, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
      after = Op{}(before, d, d2, Mode{});
    unchanged += after == before;
    if (old) put<T>(old, l, before);
  });
  return unchanged;
}
template <typename Op>
inline constexpr MemoryOperation kMemoryOperation{&run_memory<Op>, sizeof(typename Op::type)};

// Counts the bytes that an access moved, and those that it left unchanged.
inline void count(Wave& wave, std::uint64_t active, unsigned unchanged, std::uint32_t bytes) {
  count_read(wave, active, bytes);
  count_written(wave, active, bytes);
  if (wave.counters) wave.counters->written_as_it_was += std::uint64_t{unchanged} * bytes;
}

// Atomics must be aligned to their size, in unaligned mode too.
bool aligned_lanes(Wave& wave, const std::uint64_t* address, std::uint64_t active, std::uint32_t bytes);

}  // namespace apb::emu::atomic

// The rows of a table for one prefix (FLAT, GLOBAL, BUFFER).
#define APB_MEMORY_ATOMICS(PREFIX, HANDLER)                                                                         \
  {Opcode::PREFIX##_ATOMIC_SWAP, HANDLER, &atomic::kMemoryOperation<atomic::Swap<std::uint32_t>>},                  \
      {Opcode::PREFIX##_ATOMIC_CMPSWAP, HANDLER, &atomic::kMemoryOperation<atomic::CompareSwap<std::uint32_t>>},    \
      {Opcode::PREFIX##_ATOMIC_ADD, HANDLER, &atomic::kMemoryOperation<atomic::Add<std::uint32_t>>},                \
      {Opcode::PREFIX##_ATOMIC_SUB, HANDLER, &atomic::kMemoryOperation<atomic::Sub<std::uint32_t>>},                \
      {Opcode::PREFIX##_ATOMIC_SMIN, HANDLER, &atomic::kMemoryOperation<atomic::SignedMin<std::uint32_t>>},         \
      {Opcode::PREFIX##_ATOMIC_UMIN, HANDLER, &atomic::kMemoryOperation<atomic::UnsignedMin<std::uint32_t>>},       \
      {Opcode::PREFIX##_ATOMIC_SMAX, HANDLER, &atomic::kMemoryOperation<atomic::SignedMax<std::uint32_t>>},         \
      {Opcode::PREFIX##_ATOMIC_UMAX, HANDLER, &atomic::kMemoryOperation<atomic::UnsignedMax<std::uint32_t>>},       \
      {Opcode::PREFIX##_ATOMIC_AND, HANDLER, &atomic::kMemoryOperation<atomic::And<std::uint32_t>>},                \
      {Opcode::PREFIX##_ATOMIC_OR, HANDLER, &atomic::kMemoryOperation<atomic::Or<std::uint32_t>>},                  \
      {Opcode::PREFIX##_ATOMIC_XOR, HANDLER, &atomic::kMemoryOperation<atomic::Xor<std::uint32_t>>},                \
      {Opcode::PREFIX##_ATOMIC_INC, HANDLER, &atomic::kMemoryOperation<atomic::Increment<std::uint32_t>>},          \
      {Opcode::PREFIX##_ATOMIC_DEC, HANDLER, &atomic::kMemoryOperation<atomic::Decrement<std::uint32_t>>},          \
      {Opcode::PREFIX##_ATOMIC_ADD_F32, HANDLER, &atomic::kMemoryOperation<atomic::AddF32>},                        \
      {Opcode::PREFIX##_ATOMIC_PK_ADD_F16, HANDLER, &atomic::kMemoryOperation<atomic::PackedAddF16>},               \
      {Opcode::PREFIX##_ATOMIC_PK_ADD_BF16, HANDLER, &atomic::kMemoryOperation<atomic::PackedAddBf16>},             \
      {Opcode::PREFIX##_ATOMIC_ADD_F64, HANDLER, &atomic::kMemoryOperation<atomic::AddF64>},                        \
      {Opcode::PREFIX##_ATOMIC_MIN_F64, HANDLER, &atomic::kMemoryOperation<atomic::Select<double, false>>},         \
      {Opcode::PREFIX##_ATOMIC_MAX_F64, HANDLER, &atomic::kMemoryOperation<atomic::Select<double, true>>},          \
      {Opcode::PREFIX##_ATOMIC_SWAP_X2, HANDLER, &atomic::kMemoryOperation<atomic::Swap<std::uint64_t>>},           \
      {Opcode::PREFIX##_ATOMIC_CMPSWAP_X2, HANDLER, &atomic::kMemoryOperation<atomic::CompareSwap<std::uint64_t>>}, \
      {Opcode::PREFIX##_ATOMIC_ADD_X2, HANDLER, &atomic::kMemoryOperation<atomic::Add<std::uint64_t>>},             \
      {Opcode::PREFIX##_ATOMIC_SUB_X2, HANDLER, &atomic::kMemoryOperation<atomic::Sub<std::uint64_t>>},             \
      {Opcode::PREFIX##_ATOMIC_SMIN_X2, HANDLER, &atomic::kMemoryOperation<atomic::SignedMin<std::uint64_t>>},      \
      {Opcode::PREFIX##_ATOMIC_UMIN_X2, HANDLER, &atomic::kMemoryOperation<atomic::UnsignedMin<std::uint64_t>>},    \
      {Opcode::PREFIX##_ATOMIC_SMAX_X2, HANDLER, &atomic::kMemoryOperation<atomic::SignedMax<std::uint64_t>>},      \
      {Opcode::PREFIX##_ATOMIC_UMAX_X2, HANDLER, &atomic::kMemoryOperation<atomic::UnsignedMax<std::uint64_t>>},    \
      {Opcode::PREFIX##_ATOMIC_AND_X2, HANDLER, &atomic::kMemoryOperation<atomic::And<std::uint64_t>>},             \
      {Opcode::PREFIX##_ATOMIC_OR_X2, HANDLER, &atomic::kMemoryOperation<atomic::Or<std::uint64_t>>},               \
      {Opcode::PREFIX##_ATOMIC_XOR_X2, HANDLER, &atomic::kMemoryOperation<atomic::Xor<std::uint64_t>>},             \
      {Opcode::PREFIX##_ATOMIC_INC_X2, HANDLER, &atomic::kMemoryOperation<atomic::Increment<std::uint64_t>>}, {     \
    Opcode::PREFIX##_ATOMIC_DEC_X2, HANDLER, &atomic::kMemoryOperation<atomic::Decrement<std::uint64_t>>            \
  }
