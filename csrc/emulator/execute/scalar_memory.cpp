// SMEM: loads, stores and atomics of scalar registers, the clocks, and cache hints.
#include "bind.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "observer.h"
#include "operands.h"
#include "reach.h"

namespace apb::emu {

namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

// Loads: sdata | sbase, soffset. Stores and atomics: sbase, sdata, soffset; with GLC the data register is a destination too.
struct Parts {
  const Operand* data;
  const Operand* base;
  const Operand* offset;
};
Parts load_parts(const Instruction& i) { return {&i.destination[0], &i.source[0], &i.source[1]}; }
Parts store_parts(const Instruction& i) { return {&i.source[1], &i.source[0], &i.source[2]}; }

u64 byte_offset(const Wave& wave, const Instruction& i, const Operand& register_offset) {
  const u64 immediate = static_cast<u64>(static_cast<std::int64_t>(i.offset));
  return register_offset.used() ? immediate + read32(wave, register_offset) : immediate;
}

// The two low bits of every scalar address are ignored by the hardware.
u64 address_of(const Wave& wave, const Instruction& i, const Parts& parts) {
  return (read64(wave, *parts.base) + byte_offset(wave, i, *parts.offset)) & ~u64{3};
}

bool touch(Wave& wave, u64 address, u32 bytes) {
  if (!reachable(wave, -1, address, bytes)) return false;
  if (wave.observer != nullptr) wave.observer->global(wave, -1, address, bytes);
  return wave.stop != Stop::Fault;
}

// LLVM turns a uniform load of 8 or 16 bits at an aligned address into one of 32: of a load's last dword only the first byte must be alive.
// The dword's other bytes are there, since memory comes in pages.
bool touch_load(Wave& wave, u64 address, u32 bytes) {
  Range found;
  const bool tail = !wave.recent.holds(address, bytes) && wave.memory != nullptr &&
                    !wave.memory->find(address, bytes, found) && wave.memory->find(address, bytes - 3, found);
  return tail || touch(wave, address, bytes);
}

template <typename T> T* pointer(u64 address) { return reinterpret_cast<T*>(address); }

// A buffer descriptor as scalar instructions see it: 48-bit base, 14-bit stride, records (bytes, or strides when there is a stride).
struct Buffer {
  u64 base, size;
  Buffer(const Wave& wave, const Operand& descriptor) {
    const u32* word = wave.scalar + descriptor.index;
    base = word[0] | static_cast<u64>(word[1] & 0xffff) << 32;
    const u32 stride = word[1] >> 16 & 0x3fff;
    size = stride == 0 ? word[2] : static_cast<u64>(stride) * word[2];
  }
  bool holds(u64 offset, u32 bytes) const { return offset + bytes >= offset && offset + bytes <= size; }
};

void load(Wave& wave, const Instruction& i) {
  const Parts parts = load_parts(i);
  const u64 address = address_of(wave, i, parts);
  const u32 bytes = parts.data->dwords * 4u;
  if (touch_load(wave, address, bytes)) std::memcpy(wave.scalar + parts.data->index, pointer<void>(address), bytes);
}

// Each dword for itself: outside the buffer it reads 0.
void buffer_load(Wave& wave, const Instruction& i) {
  const Parts parts = load_parts(i);
  const Buffer buffer(wave, *parts.base);
  const u64 offset = byte_offset(wave, i, *parts.offset) & ~u64{3};
  const u64 address = (buffer.base + offset) & ~u64{3};
  u32 value[16] = {};
  const unsigned count = std::min<unsigned>(parts.data->dwords, 16);
  for (unsigned d = 0; d < count; ++d) {
    if (!buffer.holds(offset + 4 * d, 4)) continue;
    if (!touch(wave, address + 4 * d, 4)) return;
    value[d] = *pointer<u32>(address + 4 * d);
  }
  std::copy_n(value, count, wave.scalar + parts.data->index);
}

void store(Wave& wave, const Instruction& i) {
  const Parts parts = store_parts(i);
  const u64 address = address_of(wave, i, parts);
  const u32 bytes = parts.data->dwords * 4u;
  if (touch(wave, address, bytes)) std::memcpy(pointer<void>(address), wave.scalar + parts.data->index, bytes);
}

void buffer_store(Wave& wave, const Instruction& i) {
  const Parts parts = store_parts(i);
  const Buffer buffer(wave, *parts.base);
  const u64 offset = byte_offset(wave, i, *parts.offset) & ~u64{3};
  const u64 address = (buffer.base + offset) & ~u64{3};
  for (unsigned d = 0; d < parts.data->dwords; ++d) {
    if (!buffer.holds(offset + 4 * d, 4)) continue;
    if (!touch(wave, address + 4 * d, 4)) return;
    *pointer<u32>(address + 4 * d) = wave.scalar[parts.data->index + d];
  }
}

// memory = F(memory, data, compare); with GLC the old value replaces the data register.
template <typename T, bool Buffered, auto F> void atomic(Wave& wave, const Instruction& i) {
  const Parts parts = store_parts(i);
  u64 address = 0;
  if constexpr (Buffered) {
    const Buffer buffer(wave, *parts.base);
    const u64 offset = byte_offset(wave, i, *parts.offset) & ~u64{3};
    if (!buffer.holds(offset, sizeof(T))) {
      if (i.glc) std::memset(wave.scalar + parts.data->index, 0, sizeof(T));
      return;
    }
    address = (buffer.base + offset) & ~u64{3};
  } else {
    address = address_of(wave, i, parts);
  }
  if (sizeof(T) == 8 && (address & 7) != 0) {
    raise(wave, FaultKind::Misaligned, -1, "64-bit atomic at 0x%llx", static_cast<unsigned long long>(address));
    return;
  }
  if (!touch(wave, address, sizeof(T))) return;
  T data{}, compare{};
  std::memcpy(&data, wave.scalar + parts.data->index, sizeof(T));
  constexpr std::size_t kRegisters = sizeof(T) / 4;
  if (parts.data->dwords >= 2 * kRegisters)
    std::memcpy(&compare, wave.scalar + parts.data->index + kRegisters, sizeof(T));
  T old = __atomic_load_n(pointer<T>(address), __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(pointer<T>(address), &old, F(old, data, compare), false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_RELAXED)) {
  }
  if (i.glc) std::memcpy(wave.scalar + parts.data->index, &old, sizeof(T));
}

constexpr auto kSwap = [](auto, auto data, auto) { return data; };
constexpr auto kCmpswap = [](auto old, auto data, auto compare) { return old == compare ? data : old; };
constexpr auto kAdd = [](auto old, auto data, auto) { return static_cast<decltype(old)>(old + data); };
constexpr auto kSub = [](auto old, auto data, auto) { return static_cast<decltype(old)>(old - data); };
template <typename T> constexpr auto as_signed(T value) { return static_cast<std::make_signed_t<T>>(value); }
constexpr auto kSmin = [](auto old, auto data, auto) { return as_signed(data) < as_signed(old) ? data : old; };
constexpr auto kSmax = [](auto old, auto data, auto) { return as_signed(data) >= as_signed(old) ? data : old; };
constexpr auto kUmin = [](auto old, auto data, auto) { return data < old ? data : old; };
constexpr auto kUmax = [](auto old, auto data, auto) { return data >= old ? data : old; };
constexpr auto kAnd = [](auto old, auto data, auto) { return old & data; };
constexpr auto kOr = [](auto old, auto data, auto) { return old | data; };
constexpr auto kXor = [](auto old, auto data, auto) { return old ^ data; };
constexpr auto kInc = [](auto old, auto data, auto) {
  return old >= data ? decltype(old){0} : static_cast<decltype(old)>(old + 1);
};
constexpr auto kDec = [](auto old, auto data, auto) {
  return old == 0 || old > data ? data : static_cast<decltype(old)>(old - 1);
};

u64 nanoseconds() {
  return static_cast<u64>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}
// s_memtime counts shader cycles, the timing model's or those of a 2 GHz clock; s_memrealtime counts at 100 MHz, as on both cards.
u64 peak_megahertz(Target target) { return target == Target::Gfx950 ? 2400 : 2100; }
void shader_clock(Wave& wave, const Instruction& i) {
  write64(wave, i.destination[0], wave.cycles != nullptr ? *wave.cycles : nanoseconds() * 2);
}
void constant_clock(Wave& wave, const Instruction& i) {
  const u64 modelled = wave.cycles != nullptr ? *wave.cycles * 100 / peak_megahertz(wave.target) : 0;
  write64(wave, i.destination[0], wave.cycles != nullptr ? modelled : nanoseconds() / 10);
}

// Caches are not modelled: nothing to invalidate, write back or probe.
void nothing(Wave&, const Instruction&) {}

struct Entry {
  Opcode opcode;
  Handler handler;
};

#define APB_SCALAR_ATOMIC(NAME, F)                                                                         \
  {Opcode::S_ATOMIC_##NAME, atomic<u32, false, F>}, {Opcode::S_ATOMIC_##NAME##_X2, atomic<u64, false, F>}, \
      {Opcode::S_BUFFER_ATOMIC_##NAME, atomic<u32, true, F>}, {                                            \
    Opcode::S_BUFFER_ATOMIC_##NAME##_X2, atomic<u64, true, F>                                              \
  }

constexpr Entry kTable[] = {
    {Opcode::S_LOAD_DWORD, load},
    {Opcode::S_LOAD_DWORDX2, load},
    {Opcode::S_LOAD_DWORDX4, load},
    {Opcode::S_LOAD_DWORDX8, load},
    {Opcode::S_LOAD_DWORDX16, load},
    {Opcode::S_BUFFER_LOAD_DWORD, buffer_load},
    {Opcode::S_BUFFER_LOAD_DWORDX2, buffer_load},
    {Opcode::S_BUFFER_LOAD_DWORDX4, buffer_load},
    {Opcode::S_BUFFER_LOAD_DWORDX8, buffer_load},
    {Opcode::S_BUFFER_LOAD_DWORDX16, buffer_load},
    {Opcode::S_STORE_DWORD, store},
    {Opcode::S_STORE_DWORDX2, store},
    {Opcode::S_STORE_DWORDX4, store},
    {Opcode::S_BUFFER_STORE_DWORD, buffer_store},
    {Opcode::S_BUFFER_STORE_DWORDX2, buffer_store},
    {Opcode::S_BUFFER_STORE_DWORDX4, buffer_store},
    APB_SCALAR_ATOMIC(SWAP, kSwap),
    APB_SCALAR_ATOMIC(CMPSWAP, kCmpswap),
    APB_SCALAR_ATOMIC(ADD, kAdd),
    APB_SCALAR_ATOMIC(SUB, kSub),
    APB_SCALAR_ATOMIC(SMIN, kSmin),
    APB_SCALAR_ATOMIC(UMIN, kUmin),
    APB_SCALAR_ATOMIC(SMAX, kSmax),
    APB_SCALAR_ATOMIC(UMAX, kUmax),
    APB_SCALAR_ATOMIC(AND, kAnd),
    APB_SCALAR_ATOMIC(OR, kOr),
    APB_SCALAR_ATOMIC(XOR, kXor),
    APB_SCALAR_ATOMIC(INC, kInc),
    APB_SCALAR_ATOMIC(DEC, kDec),
    {Opcode::S_MEMTIME, shader_clock},
    {Opcode::S_MEMREALTIME, constant_clock},
    {Opcode::S_DCACHE_INV, nothing},
    {Opcode::S_DCACHE_INV_VOL, nothing},
    {Opcode::S_DCACHE_WB, nothing},
    {Opcode::S_DCACHE_WB_VOL, nothing},
    {Opcode::S_DCACHE_DISCARD, nothing},
    {Opcode::S_DCACHE_DISCARD_X2, nothing},
    {Opcode::S_ATC_PROBE, nothing},
    {Opcode::S_ATC_PROBE_BUFFER, nothing},
};
#undef APB_SCALAR_ATOMIC

}  // namespace

// Not here: s_scratch_load_* and s_scratch_store_*. They address the wave's scratch in the hardware's swizzled layout, which the
// lane-major scratch of wave.h has no counterpart for; no compiler emits them.
bool bind_scalar_memory(Target, Instruction& instruction) {
  const auto* entry = std::find_if(std::begin(kTable), std::end(kTable),
                                   [&](const Entry& e) { return e.opcode == instruction.opcode; });
  if (entry == std::end(kTable)) return false;
  instruction.execute = entry->handler;
  return true;
}

}  // namespace apb::emu
