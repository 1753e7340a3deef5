// Vector instructions that are not one function per lane: lane reads and writes, swaps, AccVGPR moves, and those that do nothing.
#include "bind.h"

#include "operands.h"

namespace apb::emu {

namespace {

void read_first_lane(Wave& wave, const Instruction& i) {
  const std::uint64_t exec = wave.exec();
  const int lane = exec == 0 ? 0 : std::countr_zero(exec);
  const Operand& from = i.source[0];
  const bool vector = from.kind == OperandKind::Vgpr || from.kind == OperandKind::Accvgpr;
  write32(wave, i.destination[0], vector ? wave.row(from)[lane] : read32(wave, from));
}

// EXEC does not matter for v_readlane and v_writelane.
void read_lane(Wave& wave, const Instruction& i) {
  const std::uint32_t lane = read32(wave, i.source[1]) & 63;
  const Operand& from = i.source[0];
  const bool vector = from.kind == OperandKind::Vgpr || from.kind == OperandKind::Accvgpr;
  write32(wave, i.destination[0], vector ? wave.row(from)[lane] : read32(wave, from));
}
void write_lane(Wave& wave, const Instruction& i) {
  const std::uint32_t value = read32(wave, i.source[0]);
  wave.row(i.destination[0])[read32(wave, i.source[1]) & 63] = value;
}

// Active lanes of `to` get `from`. Both rows may be the same.
void move_row(const Wave& wave, std::uint32_t* to, const std::uint32_t* from) {
  const std::uint64_t exec = wave.exec();
  if (exec == ~std::uint64_t{0}) {
    std::memmove(to, from, kRowBytes);
    return;
  }
  for (int lane = 0; lane < kLanes; ++lane) to[lane] = exec >> lane & 1 ? from[lane] : to[lane];
}

// v_accvgpr_read, v_accvgpr_write, v_accvgpr_mov: a plain move between the files; the source of a write may be a constant or a scalar.
void move(Wave& wave, const Instruction& i) {
  const Operand& from = i.source[0];
  std::uint32_t* to = wave.row(i.destination[0]);
  if (from.kind == OperandKind::Vgpr || from.kind == OperandKind::Accvgpr) {
    move_row(wave, to, wave.row(from));
    return;
  }
  const std::uint32_t value = read32(wave, from);
  const std::uint64_t exec = wave.exec();
  for (int lane = 0; lane < kLanes; ++lane) to[lane] = exec >> lane & 1 ? value : to[lane];
}

void swap(Wave& wave, const Instruction& i) {
  std::uint32_t* a = wave.row(i.destination[0]);
  std::uint32_t* b = wave.row(i.source[0]);
  const std::uint64_t exec = wave.exec();
  for (int lane = 0; lane < kLanes; ++lane) {
    const bool active = exec >> lane & 1;
    const std::uint32_t old = a[lane];
    a[lane] = active ? b[lane] : old;
    b[lane] = active ? old : b[lane];
  }
}

// v_permlane16_swap, v_permlane32_swap: with rows of Width lanes, the odd rows of the destination change places with the even rows
// of the source. A lane that is off is not written. One that is on but whose partner is off reads it anyway with fetch-invalid
// (OPSEL[0], `fi:1`), reads 0 with bound_ctrl (OPSEL[1]), and keeps its value with neither.
template <int Width> void permlane_swap(Wave& wave, const Instruction& i) {
  std::uint32_t* first = wave.row(i.destination[0]);
  std::uint32_t* second = wave.row(i.source[0]);
  const std::uint64_t exec = wave.exec();
  const bool fetch_inactive = (i.opsel & 1) != 0, zero = (i.opsel & 2) != 0;
  for (int even = 0; even < kLanes; ++even) {
    if ((even & Width) != 0) continue;
    const int odd = even + Width;
    const bool even_on = exec >> even & 1, odd_on = exec >> odd & 1;
    const std::uint32_t up = second[even], down = first[odd];
    if (odd_on && (even_on || fetch_inactive || zero)) first[odd] = even_on || fetch_inactive ? up : 0;
    if (even_on && (odd_on || fetch_inactive || zero)) second[even] = odd_on || fetch_inactive ? down : 0;
  }
}

void nothing(Wave&, const Instruction&) {}
void clear_exceptions(Wave& wave, const Instruction&) { wave.trap_status &= ~0x1ffu; }  // the sticky bits of TRAPSTS

// Operands of these must be rows; everything else would index the register file with a scalar's number.
bool is_row(const Operand& operand) {
  return operand.kind == OperandKind::Vgpr || operand.kind == OperandKind::Accvgpr;
}

Handler handler_of(Target target, const Instruction& i) {
  switch (i.opcode) {
    case Opcode::V_NOP: return nothing;
    case Opcode::V_CLREXCP: return clear_exceptions;
    case Opcode::V_READFIRSTLANE_B32: return read_first_lane;
    case Opcode::V_READLANE_B32: return read_lane;
    case Opcode::V_WRITELANE_B32: return is_row(i.destination[0]) ? write_lane : nullptr;
    case Opcode::V_ACCVGPR_READ:
    case Opcode::V_ACCVGPR_WRITE:
    case Opcode::V_ACCVGPR_MOV_B32: return is_row(i.destination[0]) ? move : nullptr;
    case Opcode::V_SWAP_B32: return is_row(i.destination[0]) && is_row(i.source[0]) ? swap : nullptr;
    case Opcode::V_PERMLANE16_SWAP_B32:
    case Opcode::V_PERMLANE32_SWAP_B32:
      if (target != Target::Gfx950 || !is_row(i.destination[0]) || !is_row(i.source[0])) return nullptr;
      return i.opcode == Opcode::V_PERMLANE16_SWAP_B32 ? permlane_swap<16> : permlane_swap<32>;
    default: return nullptr;
  }
}

}  // namespace

bool bind_cross_lane(Target target, Instruction& instruction) {
  if (instruction.variant != Variant::Plain)
    return false;  // none of them has a DPP or SDWA form that differs from the move of vector.h
  const Handler handler = handler_of(target, instruction);
  if (handler == nullptr) return false;
  instruction.execute = handler;
  return true;
}

}  // namespace apb::emu
