// Moving data between the rows of a vector register and 64 host addresses. Whoever calls has checked the addresses.
#pragma once

#include <emmintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "observer.h"
#include "reach.h"
#include "wave.h"

namespace apb::emu {

// The half of the register that a 16-bit ("d16") load or store uses.
enum class Half : std::uint8_t { None, Low, High };

// The data that one lane moves.
struct Shape {
  std::uint8_t bytes;  // 1, 2, 4, 8, 12, 16
  bool sign = false;   // sub-dword loads extend the sign
  Half half = Half::None;
  constexpr int dwords() const { return bytes < 4 ? 1 : bytes / 4; }
};

// Both targets have SRAM ECC on (gcnArchName says "sramecc+"): a register cannot be written by halves from memory, so a
// d16 load writes all 32 bits and the half that was not loaded becomes 0 (CDNA3 and CDNA4 ISA, 9.1.6; LLVM therefore
// never relies on the other half). AMD's pseudocode describes the parts without ECC, which keep it.
inline constexpr bool kD16LoadKeepsOtherHalf = false;

inline constexpr std::uint64_t kAllLanes = ~std::uint64_t{0};

// Calls function(lane) for every bit of `mask`, lowest first: the order in which hardware resolves conflicts.
template <typename Function>
inline void for_lanes(std::uint64_t mask, Function&& function) {
  for (; mask; mask &= mask - 1) function(std::countr_zero(mask));
}

template <typename T>
inline T read_host(std::uint64_t address) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);  // one move: does not tear where aligned
  return value;
}

template <typename T>
inline void write_host(std::uint64_t address, T value) {
  std::memcpy(reinterpret_cast<void*>(address), &value, sizeof value);
}

// A sub-dword value in memory, extended to 32 bits.
template <Shape S>
inline std::uint32_t read_small(std::uint64_t address) {
  if constexpr (S.bytes == 1) {
    return S.sign ? static_cast<std::uint32_t>(static_cast<std::int32_t>(read_host<std::int8_t>(address)))
                  : read_host<std::uint8_t>(address);
  } else {
    return S.sign ? static_cast<std::uint32_t>(static_cast<std::int32_t>(read_host<std::int16_t>(address)))
                  : read_host<std::uint16_t>(address);
  }
}

// The value as the register receives it; `old` is the register's content.
template <Shape S>
inline std::uint32_t placed(std::uint32_t value, std::uint32_t old) {
  if constexpr (S.half == Half::None) return value;
  const std::uint32_t kept = kD16LoadKeepsOtherHalf ? old : 0;
  if constexpr (S.half == Half::Low) return (value & 0xffff) | (kept & 0xffff0000);
  return value << 16 | (kept & 0xffff);
}

template <Shape S>
inline void load_lane(std::uint64_t address, std::uint32_t* at) {
  if constexpr (S.bytes < 4) {
    *at = placed<S>(read_small<S>(address), *at);
  } else {
    for (int d = 0; d < S.dwords(); ++d) at[d * kLanes] = read_host<std::uint32_t>(address + 4 * d);
  }
}

template <Shape S>
inline void store_lane(std::uint64_t address, const std::uint32_t* at) {
  const std::uint32_t value = S.half == Half::High ? *at >> 16 : *at;
  if constexpr (S.bytes == 1) {
    write_host(address, static_cast<std::uint8_t>(value));
  } else if constexpr (S.bytes == 2) {
    write_host(address, static_cast<std::uint16_t>(value));
  } else {
    for (int d = 0; d < S.dwords(); ++d) write_host(address + 4 * d, at[d * kLanes]);
  }
}

// Four lanes of four dwords each, to four dwords of four lanes each; it is its own inverse.
inline void transpose(__m128i (&rows)[4]) {
  const __m128i low = _mm_unpacklo_epi32(rows[0], rows[1]), high = _mm_unpackhi_epi32(rows[0], rows[1]);
  const __m128i other_low = _mm_unpacklo_epi32(rows[2], rows[3]), other_high = _mm_unpackhi_epi32(rows[2], rows[3]);
  rows[0] = _mm_unpacklo_epi64(low, other_low);
  rows[1] = _mm_unpackhi_epi64(low, other_low);
  rows[2] = _mm_unpacklo_epi64(high, other_high);
  rows[3] = _mm_unpackhi_epi64(high, other_high);
}

inline __m128i* vector_at(std::uint32_t* p) { return reinterpret_cast<__m128i*>(p); }
inline const __m128i* vector_at(const std::uint32_t* p) { return reinterpret_cast<const __m128i*>(p); }

// All 64 lanes of 8 or 16 bytes, four at a time.
template <Shape S>
inline void load_wide(const std::uint64_t* address, std::uint32_t* row) {
  for (int l = 0; l < kLanes; l += 4) {
    __m128i four[4];
    for (int i = 0; i < 4; ++i) {
      const auto* from = reinterpret_cast<const __m128i*>(address[l + i]);
      four[i] = S.bytes == 16 ? _mm_loadu_si128(from) : _mm_loadl_epi64(from);
    }
    transpose(four);
    for (int d = 0; d < S.dwords(); ++d) _mm_storeu_si128(vector_at(row + d * kLanes + l), four[d]);
  }
}
template <Shape S>
inline void store_wide(const std::uint64_t* address, const std::uint32_t* row) {
  for (int l = 0; l < kLanes; l += 4) {
    __m128i four[4] = {};
    for (int d = 0; d < S.dwords(); ++d) four[d] = _mm_loadu_si128(vector_at(row + d * kLanes + l));
    transpose(four);
    for (int i = 0; i < 4; ++i) {  // in order: the highest lane wins
      auto* to = reinterpret_cast<__m128i*>(address[l + i]);
      if constexpr (S.bytes == 16)
        _mm_storeu_si128(to, four[i]);
      else
        _mm_storel_epi64(to, four[i]);
    }
  }
}

// `contiguous`: the address of lane l is address[0] + l * bytes for all 64 lanes, all active.
template <Shape S>
inline void load_lanes(const std::uint64_t* address, std::uint64_t active, bool contiguous, std::uint32_t* row) {
  if constexpr (S.bytes == 8 || S.bytes == 16) {
    if (active == kAllLanes) return load_wide<S>(address, row);
  }
  if (contiguous) {
    const std::uint64_t first = address[0];
    if constexpr (S.bytes == 4) {
      std::memcpy(row, reinterpret_cast<const void*>(first), kRowBytes);
    } else {
      for (int l = 0; l < kLanes; ++l) load_lane<S>(first + static_cast<std::uint64_t>(l) * S.bytes, row + l);
    }
  } else if (active == kAllLanes) {
    for (int l = 0; l < kLanes; ++l) load_lane<S>(address[l], row + l);
  } else {
    for_lanes(active, [&](int l) { load_lane<S>(address[l], row + l); });
  }
}

template <Shape S>
inline void store_lanes(const std::uint64_t* address, std::uint64_t active, bool contiguous, const std::uint32_t* row) {
  if constexpr (S.bytes == 8 || S.bytes == 16) {
    if (active == kAllLanes) return store_wide<S>(address, row);
  }
  if (contiguous) {
    const std::uint64_t first = address[0];
    if constexpr (S.bytes == 4) {
      std::memcpy(reinterpret_cast<void*>(first), row, kRowBytes);
    } else {
      for (int l = 0; l < kLanes; ++l) store_lane<S>(first + static_cast<std::uint64_t>(l) * S.bytes, row + l);
    }
  } else {
    for_lanes(active, [&](int l) { store_lane<S>(address[l], row + l); });  // in order: the highest lane wins
  }
}

// Is this the contiguous case? Only asked when all lanes are active.
inline bool is_contiguous(const std::uint64_t* address, std::uint32_t bytes) {
  std::uint64_t difference = 0;
  for (int l = 0; l < kLanes; ++l) difference |= address[l] - address[0] - static_cast<std::uint64_t>(l) * bytes;
  return difference == 0;
}

// Are `bytes` at the address of every active lane inside live allocations? One look at the whole range when it is in
// the allocation of the last access, lane by lane otherwise. False: the wave has stopped. Asks the observer too.
inline bool reach_lanes(Wave& wave, const std::uint64_t* address, std::uint64_t active, bool contiguous,
                        std::uint32_t bytes) {
  if (!active) return true;
  const int first = std::countr_zero(active);
  std::uint64_t low = address[first], high = low;
  if (contiguous) {
    high = low + static_cast<std::uint64_t>(kLanes - 1) * bytes;
  } else if (active == kAllLanes) {
    for (int l = 0; l < kLanes; ++l)
      low = address[l] < low ? address[l] : low, high = address[l] > high ? address[l] : high;
  } else {
    for_lanes(active,
              [&](int l) { low = address[l] < low ? address[l] : low, high = address[l] > high ? address[l] : high; });
  }
  const std::uint64_t span = high - low + bytes;
  if (!wave.recent.holds(low, span)) [[unlikely]] {
    if (!reachable(wave, first, address[first], bytes)) return false;
    if (!wave.recent.holds(low, span)) {
      for (std::uint64_t rest = active; rest; rest &= rest - 1) {
        const int l = std::countr_zero(rest);
        if (!reachable(wave, l, address[l], bytes)) return false;
      }
    }
  }
  if (wave.observer) [[unlikely]] {
    wave.observer->global_lanes(wave, address, active, bytes);
    if (wave.stop == Stop::Fault) return false;
  }
  return true;
}

// `active`: the lanes that moved `bytes` each; what lies outside a buffer moves none.
inline void count_read(Wave& wave, std::uint64_t active, std::uint32_t bytes) {
  if (wave.counters) wave.counters->global_read += static_cast<std::uint64_t>(std::popcount(active)) * bytes;
}
inline void count_written(Wave& wave, std::uint64_t active, std::uint32_t bytes) {
  if (wave.counters) wave.counters->global_written += static_cast<std::uint64_t>(std::popcount(active)) * bytes;
}

// LDS accesses: bounds (a card reads 0 and drops writes outside the allocation; we check, so we stop), observer,
// counters.
inline bool reach_lds(Wave& wave, int lane, std::uint64_t address, std::uint32_t bytes, LdsAccess access) {
  if (address + bytes > wave.group->lds_bytes) [[unlikely]] {
    raise(wave, FaultKind::LdsOutOfBounds, lane,
          "%s of %u bytes at LDS address %llu, outside the workgroup's %u bytes of LDS",
          access == LdsAccess::Read    ? "read"
          : access == LdsAccess::Write ? "write"
                                       : "atomic",
          bytes, static_cast<unsigned long long>(address), wave.group->lds_bytes);
    return false;
  }
  if (wave.observer) [[unlikely]] {
    const auto at = static_cast<std::uint32_t>(address);
    if (access == LdsAccess::Read) wave.observer->lds_read(wave, lane, at, bytes);
    if (access == LdsAccess::Write) wave.observer->lds_write(wave, lane, at, bytes);
    if (access == LdsAccess::Atomic) wave.observer->lds_atomic(wave, lane, at, bytes);
    return wave.stop != Stop::Fault;
  }
  return true;
}
inline void count_lds(Wave& wave, std::uint64_t active, std::uint32_t bytes, LdsAccess access) {
  if (!wave.counters) return;
  const std::uint64_t all = static_cast<std::uint64_t>(std::popcount(active)) * bytes;
  if (access != LdsAccess::Write) wave.counters->lds_read += all;
  if (access != LdsAccess::Read) wave.counters->lds_written += all;
}

}  // namespace apb::emu
