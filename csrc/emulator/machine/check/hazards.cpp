// Reads and overwrites of registers whose load has not been waited for.
#include "machine/check/hazards.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "machine/check/findings.h"

namespace apb::emu {

namespace {

// The most operations under way before the hardware stalls the wave: vmcnt has 6 bits, lgkmcnt 4.
constexpr std::uint32_t kMostVector = 63, kMostLds = 15;

enum class Queue : std::uint8_t { None, Vector, Lds, Scalar, Flat };

Queue queue_of(const Instruction& i) {
  switch (i.encoding) {
    case Encoding::Smem: return Queue::Scalar;
    case Encoding::Ds: return i.opcode == Opcode::DS_NOP ? Queue::None : Queue::Lds;
    case Encoding::Flat: return Queue::Flat;
    case Encoding::Global:
    case Encoding::Scratch:
    case Encoding::Mtbuf: return Queue::Vector;
    case Encoding::Mubuf:  // cache control is not counted: compilers wait for it with vmcnt(0)
      return i.opcode == Opcode::BUFFER_INV || i.opcode == Opcode::BUFFER_WBL2 ? Queue::None : Queue::Vector;
    default: return Queue::None;
  }
}

int first_register(const Operand& operand) {
  switch (operand.kind) {
    case OperandKind::Vgpr: return operand.index;
    case OperandKind::Accvgpr: return 256 + operand.index;
    case OperandKind::Sgpr: return 512 + operand.index;
    default: return -1;
  }
}

struct Reach {
  bool memory = false, lds = false;
};

// The memory that the active lanes' flat addresses point to. The high half of an address tells the LDS aperture.
Reach reach_of(const Wave& wave, const Operand& address) {
  Reach reach;
  if (address.kind != OperandKind::Vgpr || wave.group == nullptr) return {true, true};
  const std::uint32_t* high = wave.row(address) + kLanes;
  const auto aperture = static_cast<std::uint32_t>(wave.group->shared_base >> 32);
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!wave.active(lane)) continue;
    (high[lane] == aperture ? reach.lds : reach.memory) = true;
  }
  return reach;
}

std::string register_name(int number) {
  if (number < 512) return (number < 256 ? "v" : "a") + std::to_string(number & 255);
  switch (number - 512) {
    case sreg::kVcc: return "vcc_lo";
    case sreg::kVcc + 1: return "vcc_hi";
    case sreg::kM0: return "m0";
    case sreg::kExec: return "exec_lo";
    case sreg::kExec + 1: return "exec_hi";
    default: return "s" + std::to_string(number - 512);
  }
}

}  // namespace

bool Hazards::loads_to_lds(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::GLOBAL_LOAD_LDS_UBYTE:
    case Opcode::GLOBAL_LOAD_LDS_SBYTE:
    case Opcode::GLOBAL_LOAD_LDS_USHORT:
    case Opcode::GLOBAL_LOAD_LDS_SSHORT:
    case Opcode::GLOBAL_LOAD_LDS_DWORD:
    case Opcode::GLOBAL_LOAD_LDS_DWORDX3:
    case Opcode::GLOBAL_LOAD_LDS_DWORDX4: return true;
    default: return i.lds && i.encoding != Encoding::Ds;
  }
}

void Hazards::reset() { *this = Hazards(); }

void Hazards::before(Wave& wave, const Instruction& i) {
  ++step_;
  if (i.opcode == Opcode::S_WAITCNT) return wait(static_cast<std::uint32_t>(i.immediate));
  const Queue queue = queue_of(i);
  if (outstanding()) {
    // A second load into the same register, through the same ordered queue, arrives after the first: no hazard.
    Load ordered;
    ordered.vector = queue == Queue::Vector;
    ordered.lds = queue == Queue::Lds;
    const Load* in_order = queue == Queue::Vector || queue == Queue::Lds ? &ordered : nullptr;
    bool fine = true;
    for (const Operand& operand : i.source) fine = fine && clear(wave, operand, nullptr);
    for (const Operand& operand : i.scale) fine = fine && clear(wave, operand, nullptr);
    for (const Operand& operand : i.destination) fine = fine && clear(wave, operand, in_order);
    if (fine && (i.opcode == Opcode::S_CBRANCH_VCCZ || i.opcode == Opcode::S_CBRANCH_VCCNZ)) {
      fine = clear(wave, kScalarFirst + sreg::kVcc, 2, nullptr);
    }
    if (fine && loads_to_lds(i)) fine = clear(wave, kScalarFirst + sreg::kM0, 1, nullptr);
    if (!fine) return;
  }
  if (queue != Queue::None) issue(wave, i);
}

// s_waitcnt of gfx9: vmcnt in [3:0] and [15:14], expcnt in [6:4], lgkmcnt in [11:8].
void Hazards::wait(std::uint32_t immediate) {
  const std::uint32_t vector = (immediate & 15) | (immediate >> 14 & 3) << 4, others = immediate >> 8 & 15;
  if (vector_issued_ > vector) vector_done_ = std::max(vector_done_, vector_issued_ - vector);
  // Of n operations in this counter at most n belong to LDS, and those finish in order. The remaining scalar ones are unknown.
  if (lds_issued_ > others) lds_done_ = std::max(lds_done_, lds_issued_ - others);
  if (others == 0) scalar_done_ = scalar_issued_;
}

void Hazards::issue(const Wave& wave, const Instruction& i) {
  Load load;
  load.address = i.address;
  load.step = step_;
  switch (queue_of(i)) {
    case Queue::Vector: load.vector = ++vector_issued_; break;
    case Queue::Lds: load.lds = ++lds_issued_; break;
    case Queue::Scalar: load.scalar = ++scalar_issued_; break;
    case Queue::Flat: {
      // Both counters count it; which of them tells that the data is there depends on where the addresses point.
      const Reach reach = reach_of(wave, i.source[0]);
      ++vector_issued_;
      ++scalar_issued_;
      if (reach.memory) load.vector = vector_issued_;
      if (reach.lds) load.scalar = scalar_issued_;
      break;
    }
    case Queue::None: return;
  }
  if (vector_issued_ > kMostVector) vector_done_ = std::max(vector_done_, vector_issued_ - kMostVector);
  if (lds_issued_ > kMostLds) lds_done_ = std::max(lds_done_, lds_issued_ - kMostLds);
  if (loads_to_lds(i)) return;
  for (const Operand& operand : i.destination) mark(operand, load);
  // Atomics of SMEM and MUBUF return what was there into their data register, when they return it at all.
  const bool into_data = i.category == Category::Atomic &&
                         ((i.encoding == Encoding::Smem && i.glc) || (i.encoding == Encoding::Mubuf && i.sc0));
  if (into_data) mark(i.source[1], load);
}

void Hazards::mark(const Operand& operand, const Load& load) {
  const int first = first_register(operand);
  if (first < 0) return;
  for (int r = first; r < first + operand.dwords && r < kRegisters; ++r) {
    loads_[static_cast<std::size_t>(r)] = load;
    maybe_[static_cast<std::size_t>(r / 64)] |= std::uint64_t{1} << (r % 64);
  }
}

bool Hazards::clear(Wave& wave, const Operand& operand, const Load* in_order) {
  const int first = first_register(operand);
  return first < 0 || clear(wave, first, operand.dwords, in_order);
}

bool Hazards::clear(Wave& wave, int first, int count, const Load* in_order) {
  for (int r = first; r < first + count && r < kRegisters; ++r) {
    std::uint64_t& word = maybe_[static_cast<std::size_t>(r / 64)];
    const std::uint64_t bit = std::uint64_t{1} << (r % 64);
    if ((word & bit) == 0) continue;
    const Load& load = loads_[static_cast<std::size_t>(r)];
    if (!waiting(load)) {
      word &= ~bit;
      continue;
    }
    const bool same_queue = in_order != nullptr && load.scalar == 0 && (load.vector == 0 || in_order->vector != 0) &&
                            (load.lds == 0 || in_order->lds != 0);
    if (same_queue) continue;
    report(wave, r, load);
    if (wave.stop == Stop::Fault) return false;
    word &= ~bit;  // it was said: what follows from it is not said again
  }
  return true;
}

void Hazards::report(Wave& wave, int number, const Load& load) const {
  const std::string name = register_name(number);
  char wanted[48];
  if (load.vector > vector_done_ && load.scalar > scalar_done_) {
    std::snprintf(wanted, sizeof wanted, "vmcnt(0) lgkmcnt(0)");
  } else if (load.vector > vector_done_) {
    std::snprintf(wanted, sizeof wanted, "vmcnt(%u)", vector_issued_ - load.vector);
  } else {
    std::snprintf(wanted, sizeof wanted, "lgkmcnt(%u)", load.lds > lds_done_ ? lds_issued_ - load.lds : 0u);
  }
  find(wave, FaultKind::Hazard, -1,
       "%s is still being loaded by the instruction at code+0x%x, %u instructions earlier; it takes s_waitcnt %s first",
       name.c_str(), load.address, step_ - load.step, wanted);
}

}  // namespace apb::emu
