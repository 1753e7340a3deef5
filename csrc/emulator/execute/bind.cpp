// Which family executes an instruction, and what can be refused before it ever runs.
#include "bind.h"

#include "operands.h"

namespace apb::emu {

namespace {

void unknown(Wave& wave, const Instruction&) {
  raise(wave, FaultKind::unknown_instruction, -1, "this library does not execute it on %s",
        wave.target == Target::gfx942 ? "gfx942" : "gfx950");
}

void outside_file(Wave& wave, const Instruction&) {
  raise(wave, FaultKind::illegal_register, -1, "an operand runs past the end of its register file");
}

// Handlers index the register files without asking: an operand that runs past the end of its file must not get to them.
bool fits(const Operand& operand) {
  switch (operand.kind) {
    case OperandKind::sgpr: return operand.index + operand.dwords <= sreg::count;
    case OperandKind::vgpr:
    case OperandKind::accvgpr: return operand.index + operand.dwords <= 256;
    default: return true;
  }
}

bool known_special(const Operand& operand) {
  if (operand.kind != OperandKind::special) return true;
  switch (operand.index) {
    case source_number::shared_base:
    case source_number::shared_limit:
    case source_number::private_base:
    case source_number::private_limit:
    case source_number::pops_exiting_wave_id:
    case source_number::vccz:
    case source_number::execz:
    case source_number::scc: return true;
    default: return false;  // lds_direct went away with gfx90a
  }
}

bool family(Target target, Instruction& i) {
  switch (i.encoding) {
    case Encoding::sop1:
    case Encoding::sop2:
    case Encoding::sopc:
    case Encoding::sopk:
    case Encoding::sopp: return bind_scalar(target, i);
    case Encoding::smem: return bind_scalar_memory(target, i);
    case Encoding::vop3p_mfma:
    case Encoding::vop3px2: return bind_cross_lane(target, i) || bind_matrix(target, i);
    case Encoding::vop1:
    case Encoding::vop2:
    case Encoding::vopc:
    case Encoding::vop3:
    case Encoding::vop3sd:
    case Encoding::vop3p: return bind_cross_lane(target, i) || bind_vector(target, i) || bind_matrix(target, i);
    case Encoding::flat:
    case Encoding::global:
    case Encoding::scratch: return bind_global(target, i);
    case Encoding::mubuf:
    case Encoding::mtbuf: return bind_buffer(target, i);
    case Encoding::ds: return bind_lds(target, i);
  }
  return false;
}

}  // namespace

bool bind(Target target, Instruction& instruction) {
  bool fitting = true, known = true;
  const auto look = [&](const Operand& operand) {
    fitting = fitting && fits(operand);
    known = known && known_special(operand);
  };
  for (const Operand& operand : instruction.destination) look(operand);
  for (const Operand& operand : instruction.source) look(operand);
  for (const Operand& operand : instruction.scale) look(operand);
  if (!fitting) {
    instruction.execute = outside_file;
    return false;
  }
  if (known && family(target, instruction) && instruction.execute != nullptr) return true;
  instruction.execute = unknown;
  instruction.function = nullptr;
  return false;
}

}  // namespace apb::emu
