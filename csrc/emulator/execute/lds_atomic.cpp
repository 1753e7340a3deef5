// DS atomics. The waves of a workgroup take turns on one host thread, so plain reads and writes are atomic here.
#include "atomic.h"
#include "lds.h"
#include "memory_table.h"

namespace apb::emu {
namespace {

// ds_cmpst compares with data0 and stores data1; mskor and wrap use both too.
template <typename Op>
inline constexpr bool kTwoSources = false;
template <typename T>
inline constexpr bool kTwoSources<atomic::CompareStore<T>> = true;
template <typename F>
inline constexpr bool kTwoSources<atomic::CompareStoreFloat<F>> = true;
template <typename T>
inline constexpr bool kTwoSources<atomic::MaskOr<T>> = true;
template <typename T>
inline constexpr bool kTwoSources<atomic::Wrap<T>> = true;

// LDS atomics force the alignment of their size ("ADDR is a dword address"); we stop instead.
bool aligned(Wave& wave, const std::uint32_t* row, std::uint32_t offset, std::uint32_t bytes) {
  for (std::uint64_t rest = wave.exec(); rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    if ((row[l] + offset) % bytes == 0) continue;
    raise(wave, FaultKind::Misaligned, l, "atomic of %u bytes at LDS address %u, which is no multiple of its size",
          bytes, row[l] + offset);
    return false;
  }
  return true;
}

template <typename Op, bool Return>
void operate(Wave& wave, const Instruction& instruction) {
  using T = typename Op::type;
  alignas(64) std::uint64_t at[kLanes];
  const std::uint32_t *row = wave.row(lds_address(instruction)), offset = lds_offset(instruction);
  if (!lds_lanes(wave, row, offset, sizeof(T), LdsAccess::Atomic, at) || !aligned(wave, row, offset, sizeof(T))) return;
  const std::uint32_t* data = wave.row(lds_data(instruction));
  const std::uint32_t* data2 = kTwoSources<Op> ? wave.row(lds_data2(instruction)) : data;
  std::uint32_t* out = Return ? wave.row(instruction.destination[0]) : nullptr;
  for_lanes(wave.exec(), [&](int l) {
    const T before = read_host<T>(at[l]);
    write_host<T>(at[l], Op{}(before, atomic::data_of<T>(data, l), atomic::data_of<T>(data2, l), wave.mode));
    if constexpr (Return) atomic::put<T>(out, l, before);
  });
  count_lds(wave, wave.exec(), sizeof(T), LdsAccess::Atomic);
}

// ds_wrxchg2: two exchanges from one address.
template <typename T, int Scale>
void exchange2(Wave& wave, const Instruction& instruction) {
  alignas(64) std::uint64_t first[kLanes], second[kLanes];
  const std::uint32_t* row = wave.row(lds_address(instruction));
  constexpr std::uint32_t kUnit = sizeof(T) * Scale;
  const std::uint32_t offset0 = instruction.offset0 * kUnit, offset1 = instruction.offset1 * kUnit;
  if (!lds_lanes(wave, row, offset0, sizeof(T), LdsAccess::Atomic, first) || !aligned(wave, row, offset0, sizeof(T)))
    return;
  if (!lds_lanes(wave, row, offset1, sizeof(T), LdsAccess::Atomic, second) || !aligned(wave, row, offset1, sizeof(T)))
    return;
  const std::uint32_t *data = wave.row(lds_data(instruction)), *data2 = wave.row(lds_data2(instruction));
  std::uint32_t* out = wave.row(instruction.destination[0]);
  for_lanes(wave.exec(), [&](int l) {
    // Both are read before either is written (AMD's pseudocode); the sources may be the destination's registers.
    const T before = read_host<T>(first[l]), before2 = read_host<T>(second[l]);
    const T value = atomic::data_of<T>(data, l), value2 = atomic::data_of<T>(data2, l);
    write_host<T>(first[l], value);
    write_host<T>(second[l], value2);
    atomic::put<T>(out, l, before);
    atomic::put<T>(out + sizeof(T) / 4 * kLanes, l, before2);
  });
  count_lds(wave, wave.exec(), 2 * sizeof(T), LdsAccess::Atomic);
}

// Two dwords side by side; each is replaced when bit 31 of its data says so, without that bit.
void conditional_exchange(Wave& wave, const Instruction& instruction) {
  alignas(64) std::uint64_t at[kLanes];
  std::uint32_t row[kLanes];
  const std::uint32_t *address = wave.row(lds_address(instruction)), *data = wave.row(lds_data(instruction));
  for (int l = 0; l < kLanes; ++l) row[l] = (address[l] + lds_offset(instruction)) & 0xfff8;
  if (!lds_lanes(wave, row, 0, 8, LdsAccess::Atomic, at)) return;
  std::uint32_t* out = wave.row(instruction.destination[0]);
  for_lanes(wave.exec(), [&](int l) {
    const std::uint32_t value[2] = {data[l], data[kLanes + l]};
    for (int d = 0; d < 2; ++d) {
      out[d * kLanes + l] = read_host<std::uint32_t>(at[l] + 4 * d);
      if (value[d] >> 31) write_host<std::uint32_t>(at[l] + 4 * d, value[d] & 0x7fffffff);
    }
  });
  count_lds(wave, wave.exec(), 8, LdsAccess::Atomic);
}

using u32 = std::uint32_t;
using u64 = std::uint64_t;

#define APB_LDS_ATOMIC(NAME, TYPE, ...)                                \
  {Opcode::DS_##NAME##_##TYPE, operate<atomic::__VA_ARGS__, false>}, { \
    Opcode::DS_##NAME##_RTN_##TYPE, operate<atomic::__VA_ARGS__, true> \
  }

}  // namespace

bool bind_lds_atomic(Instruction& instruction) {
  static const MemoryTable rows{
      APB_LDS_ATOMIC(ADD, U32, Add<u32>),
      APB_LDS_ATOMIC(SUB, U32, Sub<u32>),
      APB_LDS_ATOMIC(RSUB, U32, ReverseSub<u32>),
      APB_LDS_ATOMIC(INC, U32, Increment<u32>),
      APB_LDS_ATOMIC(DEC, U32, Decrement<u32>),
      APB_LDS_ATOMIC(MIN, I32, SignedMin<u32>),
      APB_LDS_ATOMIC(MAX, I32, SignedMax<u32>),
      APB_LDS_ATOMIC(MIN, U32, UnsignedMin<u32>),
      APB_LDS_ATOMIC(MAX, U32, UnsignedMax<u32>),
      APB_LDS_ATOMIC(AND, B32, And<u32>),
      APB_LDS_ATOMIC(OR, B32, Or<u32>),
      APB_LDS_ATOMIC(XOR, B32, Xor<u32>),
      APB_LDS_ATOMIC(MSKOR, B32, MaskOr<u32>),
      APB_LDS_ATOMIC(CMPST, B32, CompareStore<u32>),
      APB_LDS_ATOMIC(CMPST, F32, CompareStoreFloat<float>),
      APB_LDS_ATOMIC(MIN, F32, Select<float, false>),
      APB_LDS_ATOMIC(MAX, F32, Select<float, true>),
      APB_LDS_ATOMIC(ADD, F32, AddF32),
      APB_LDS_ATOMIC(PK_ADD, F16, PackedAddF16),
      APB_LDS_ATOMIC(PK_ADD, BF16, PackedAddBf16),
      APB_LDS_ATOMIC(ADD, U64, Add<u64>),
      APB_LDS_ATOMIC(SUB, U64, Sub<u64>),
      APB_LDS_ATOMIC(RSUB, U64, ReverseSub<u64>),
      APB_LDS_ATOMIC(INC, U64, Increment<u64>),
      APB_LDS_ATOMIC(DEC, U64, Decrement<u64>),
      APB_LDS_ATOMIC(MIN, I64, SignedMin<u64>),
      APB_LDS_ATOMIC(MAX, I64, SignedMax<u64>),
      APB_LDS_ATOMIC(MIN, U64, UnsignedMin<u64>),
      APB_LDS_ATOMIC(MAX, U64, UnsignedMax<u64>),
      APB_LDS_ATOMIC(AND, B64, And<u64>),
      APB_LDS_ATOMIC(OR, B64, Or<u64>),
      APB_LDS_ATOMIC(XOR, B64, Xor<u64>),
      APB_LDS_ATOMIC(MSKOR, B64, MaskOr<u64>),
      APB_LDS_ATOMIC(CMPST, B64, CompareStore<u64>),
      APB_LDS_ATOMIC(CMPST, F64, CompareStoreFloat<double>),
      APB_LDS_ATOMIC(MIN, F64, Select<double, false>),
      APB_LDS_ATOMIC(MAX, F64, Select<double, true>),
      APB_LDS_ATOMIC(ADD, F64, AddF64),
      {Opcode::DS_WRXCHG_RTN_B32, operate<atomic::Swap<u32>, true>},
      {Opcode::DS_WRXCHG_RTN_B64, operate<atomic::Swap<u64>, true>},
      {Opcode::DS_WRXCHG2_RTN_B32, exchange2<u32, 1>},
      {Opcode::DS_WRXCHG2ST64_RTN_B32, exchange2<u32, 64>},
      {Opcode::DS_WRXCHG2_RTN_B64, exchange2<u64, 1>},
      {Opcode::DS_WRXCHG2ST64_RTN_B64, exchange2<u64, 64>},
      {Opcode::DS_WRAP_RTN_B32, operate<atomic::Wrap<u32>, true>},
      {Opcode::DS_CONDXCHG32_RTN_B64, conditional_exchange},
  };
  return rows.bind(instruction);
}

}  // namespace apb::emu
