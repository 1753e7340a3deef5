// MUBUF without format conversion: loads, stores, loads to LDS, atomics and cache control.
#include "buffer.h"

#include <atomic>

#include "atomic.h"
#include "bind.h"
#include "buffer_resource.h"
#include "memory_direct.h"
#include "memory_table.h"

namespace apb::emu {
namespace {

// Reaches one dword (or less) of one lane, with the observer.
bool reach_piece(Wave& wave, int lane, std::uint64_t address, std::uint32_t bytes) {
  if (!reachable(wave, lane, address, bytes)) return false;
  if (wave.observer) wave.observer->global(wave, lane, address, bytes);
  return wave.stop != Stop::Fault;
}

constexpr std::uint32_t piece_bytes(Shape shape) { return shape.bytes < 4 ? shape.bytes : 4; }

// Loads into `rows`; every dword that is out of range becomes 0. False: the wave has stopped.
template <Shape S>
bool load_rows(Wave& wave, const BufferAccess& access, std::uint64_t active, std::uint32_t* rows) {
  const std::uint64_t whole = access.whole(active, S.bytes);
  const bool contiguous = whole == kAllLanes && is_contiguous(access.linear(), S.bytes);
  if (!reach_lanes(wave, access.linear(), whole, contiguous, S.bytes)) return false;
  load_lanes<S>(access.linear(), whole, contiguous, rows);
  constexpr std::uint32_t kBytes = piece_bytes(S);
  for (std::uint64_t rest = active & ~whole; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    for (int d = 0; d < S.dwords(); ++d) {
      std::uint32_t value = 0, *to = rows + d * kLanes + l;
      if (access.in_range(l, 4 * d, kBytes)) {
        const std::uint64_t at = access.address(l, 4 * d);
        if (!reach_piece(wave, l, at, kBytes)) return false;
        count_read(wave, 1, kBytes);
        if constexpr (S.bytes < 4)
          value = read_small<S>(at);
        else
          value = read_host<std::uint32_t>(at);
      }
      *to = placed<S>(value, *to);
    }
  }
  count_read(wave, whole, S.bytes);
  return true;
}

template <Shape S>
void load(Wave& wave, const Instruction& instruction) {
  const BufferOperands operands = buffer_load_operands(instruction);
  const BufferAccess access(wave, instruction, operands, false);
  load_rows<S>(wave, access, wave.exec(), wave.row(*operands.data));
}

// Lanes that are out of range put 0 into LDS.
template <Shape S>
void load_to_lds(Wave& wave, const Instruction& instruction) {
  const BufferAccess access(wave, instruction, buffer_load_operands(instruction), false);
  alignas(64) std::uint32_t rows[S.dwords() * kLanes];
  if (load_rows<S>(wave, access, wave.exec(), rows)) write_direct<S>(wave, instruction, rows);
}

template <Shape S>
void store(Wave& wave, const Instruction& instruction) {
  const BufferOperands operands = buffer_store_operands(instruction);
  const BufferAccess access(wave, instruction, operands, false);
  const std::uint32_t* rows = wave.row(*operands.data);
  const std::uint64_t active = wave.exec(), whole = access.whole(active, S.bytes);
  const bool contiguous = whole == kAllLanes && is_contiguous(access.linear(), S.bytes);
  if (!reach_lanes(wave, access.linear(), whole, contiguous, S.bytes)) return;
  store_lanes<S>(access.linear(), whole, contiguous, rows);
  constexpr Shape kPiece = S.bytes < 4 ? S : Shape{4};
  for (std::uint64_t rest = active & ~whole; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    for (int d = 0; d < S.dwords(); ++d) {
      if (!access.in_range(l, 4 * d, kPiece.bytes)) continue;
      const std::uint64_t at = access.address(l, 4 * d);
      if (!reach_piece(wave, l, at, kPiece.bytes)) return;
      store_lane<kPiece>(at, rows + d * kLanes + l);
      count_written(wave, 1, kPiece.bytes);
    }
  }
  count_written(wave, whole, S.bytes);
}

// In range or not as a whole; lanes out of range change nothing and return 0.
void atomic_operation(Wave& wave, const Instruction& instruction) {
  const auto& operation = *static_cast<const atomic::MemoryOperation*>(instruction.function);
  const BufferOperands operands = buffer_store_operands(instruction);
  const BufferAccess access(wave, instruction, operands, false);
  const std::uint64_t active = wave.exec();
  std::uint64_t inside = 0;
  alignas(64) std::uint64_t at[kLanes] = {};
  for_lanes(active, [&](int l) {
    if (!access.in_range(l, 0, operation.bytes)) return;
    inside |= std::uint64_t{1} << l;
    at[l] = access.address(l, 0);
  });
  if (!atomic::aligned_lanes(wave, at, inside, operation.bytes)) return;
  if (!reach_lanes(wave, at, inside, false, operation.bytes)) return;
  std::uint32_t* data = wave.row(*operands.data);
  const unsigned unchanged = operation.run(at, inside, data, instruction.sc0 ? data : nullptr);
  if (instruction.sc0) {
    for_lanes(active & ~inside, [&](int l) {
      for (int d = 0; d < operation.bytes / 4; ++d) data[d * kLanes + l] = 0;
    });
  }
  atomic::count(wave, inside, unchanged, operation.bytes);
}

// Device memory is host memory and coherent; only the order of this thread's accesses is left to say.
void fence(Wave&, const Instruction&) { std::atomic_thread_fence(std::memory_order_seq_cst); }

const MemoryTable& table() {
  static const MemoryTable rows{
      APB_MEMORY_LOADS_AND_STORES(BUFFER, load, store),
      APB_MEMORY_ATOMICS(BUFFER, atomic_operation),
      {Opcode::BUFFER_WBL2, fence},
      {Opcode::BUFFER_INV, fence},
  };
  return rows;
}

// The loads that may have the lds bit (9.1.9; buffer_load_format_x is with the other formats).
const MemoryTable& direct_table() {
  static const MemoryTable rows{
      {Opcode::BUFFER_LOAD_UBYTE, load_to_lds<Shape{1}>},    {Opcode::BUFFER_LOAD_SBYTE, load_to_lds<Shape{1, true}>},
      {Opcode::BUFFER_LOAD_USHORT, load_to_lds<Shape{2}>},   {Opcode::BUFFER_LOAD_SSHORT, load_to_lds<Shape{2, true}>},
      {Opcode::BUFFER_LOAD_DWORD, load_to_lds<Shape{4}>},    {Opcode::BUFFER_LOAD_DWORDX3, load_to_lds<Shape{12}>},
      {Opcode::BUFFER_LOAD_DWORDX4, load_to_lds<Shape{16}>},
  };
  return rows;
}

}  // namespace

bool bind_buffer(Target target, Instruction& instruction) {
  const bool gfx950 = target == Target::Gfx950;
  const Opcode opcode = instruction.opcode;
  if (opcode == Opcode::BUFFER_ATOMIC_PK_ADD_BF16 && !gfx950) return false;  // new in gfx950
  if (bind_buffer_format(instruction)) return true;
  if (!instruction.lds) return table().bind(instruction);
  const bool wide = opcode == Opcode::BUFFER_LOAD_DWORDX3 || opcode == Opcode::BUFFER_LOAD_DWORDX4;
  return (gfx950 || !wide) && direct_table().bind(instruction);
}

}  // namespace apb::emu
