// The sums of a launch, before they have rocprofv3's names. Workgroups add them up in any order.
#pragma once

#include <array>
#include <cstdint>

#include "execute/wave.h"
#include "machine/profile/matrix_work.h"

namespace apb::emu {

enum class Event : std::uint8_t {
  Waves,
  WavesOf64,
  WavesBelow64,
  WavesBelow48,
  WavesBelow32,
  WavesBelow16,
  Items,
  Instructions,
  Valu,
  Salu,
  Smem,
  Branch,
  SendMessage,
  Lds,
  LdsLoad,
  LdsStore,
  LdsAtomic,
  FlatEncoded,
  FlatSegment,
  VmemRead,
  VmemWrite,
  BufferRead,
  BufferWrite,
  BufferAtomic,
  BufferReadLds,
  FlatRead,
  FlatWrite,
  FlatAtomic,
  FlatReadLds,
  ScalarRead1,
  ScalarRead2,
  ScalarRead4,
  ScalarRead8,
  ScalarRead16,
  ScalarAtomic,
  ScalarCacheControl,
  AddF16,
  AddF32,
  AddF64,
  MulF16,
  MulF32,
  MulF64,
  FmaF16,
  FmaF32,
  FmaF64,
  TransF16,
  TransF32,
  TransF64,
  Convert,
  Int32,
  Int64,
  Matrix,
  MatrixF16,
  MatrixBf16,
  MatrixF32,
  MatrixF64,
  MatrixI8,
  MatrixF8,
  MatrixXf32,
  MatrixF6F4,
  OperationsF16,
  OperationsBf16,
  OperationsF32,
  OperationsF64,
  OperationsI8,
  OperationsF8,
  OperationsXf32,
  OperationsF6F4,
  LdsReadBytes,
  LdsWriteBytes,
  LdsAtomicBytes,
  LdsPhases,
  LdsConflicts,
  LdsSame,
  LdsUnaligned,
  LdsReturns,
  DirectConflicts,
  ReadWanted,
  WriteWanted,
  ScratchBytes,
  Lines,
  Halves,
  HalvesRead,
  HalvesWritten,
  HalvesAtomic,
  HalvesAtomicReturning,
  LanesRead,
  LanesWritten,
  LanesAtomic,
  LanesAtomicReturning,
  QuadLines,
  GroupLinesRead,
  GroupHalvesWritten,
  CyclesValu,
  CyclesSalu,
  CyclesSmem,
  CyclesVmem,
  CyclesLds,
  CyclesFlat,
  CyclesBranch,
  ThreadCycles,
  MatrixBusy,
  WaitVector,
  WaitLds,
  WaitBarrier,
  WaitMatrix
};
inline constexpr std::size_t kEvents = static_cast<std::size_t>(Event::WaitMatrix) + 1;

constexpr Event event_of(MatrixKind kind, Event first) {
  return static_cast<Event>(static_cast<unsigned>(first) + static_cast<unsigned>(kind));
}

struct Sums {
  std::array<std::uint64_t, kEvents> all{};
  std::uint64_t& operator[](Event event) { return all[static_cast<std::size_t>(event)]; }
  std::uint64_t operator[](Event event) const { return all[static_cast<std::size_t>(event)]; }
  void add(const Sums& more) {
    for (std::size_t i = 0; i < kEvents; ++i) all[i] += more.all[i];
  }
};

// The unit that an instruction is issued to, for the estimate.
enum class Unit : std::uint8_t { Vector, Matrix, Scalar, ScalarMemory, Memory, Lds, Flat, Branch, None };

struct OpcodeClass {
  std::array<Event, 6> event{};
  std::uint8_t events = 0;
  std::uint8_t cycles = 4;  // of issue: a wave's 64 lanes on 16 ALUs
  Unit unit = Unit::None;
  bool known = false;
  void add(Event more) { event[events++] = more; }
  bool has(Event one) const {
    for (std::uint8_t e = 0; e < events; ++e)
      if (event[e] == one) return true;
    return false;
  }
};

// By opcode, encoding and the bits that make an instruction another one (lds, sc0).
OpcodeClass classify(const Instruction& instruction);

}  // namespace apb::emu
