// Chooses the family that executes an instruction, and refuses unknown ones before they run.
#include "bind.h"

#include "operands.h"

namespace apb::emu {

namespace {

void unknown(Wave& wave, const Instruction&) {
  raise(wave, FaultKind::UnknownInstruction, -1, "this library does not execute it on %s",
        wave.target == Target::Gfx942 ? "gfx942" : "gfx950");
}

void outside_file(Wave& wave, const Instruction&) {
  raise(wave, FaultKind::IllegalRegister, -1, "an operand runs past the end of its register file");
}

// Handlers index the register files without asking: an operand that runs past the end of its file must not get to them.
bool fits(const Operand& operand) {
  switch (operand.kind) {
    case OperandKind::Sgpr: return operand.index + operand.dwords <= sreg::kCount;
    case OperandKind::Vgpr:
    case OperandKind::Accvgpr: return operand.index + operand.dwords <= 256;
    default: return true;
  }
}

bool known_special(const Operand& operand) {
  if (operand.kind != OperandKind::Special) return true;
  switch (operand.index) {
    case source_number::kSharedBase:
    case source_number::kSharedLimit:
    case source_number::kPrivateBase:
    case source_number::kPrivateLimit:
    case source_number::kPopsExitingWaveId:
    case source_number::kVccz:
    case source_number::kExecz:
    case source_number::kScc: return true;
    default: return false;  // lds_direct went away with gfx90a
  }
}

bool family(Target target, Instruction& i) {
  switch (i.encoding) {
    case Encoding::Sop1:
    case Encoding::Sop2:
    case Encoding::Sopc:
    case Encoding::Sopk:
    case Encoding::Sopp: return bind_scalar(target, i);
    case Encoding::Smem: return bind_scalar_memory(target, i);
    case Encoding::Vop3pMfma:
    case Encoding::Vop3px2: return bind_cross_lane(target, i) || bind_matrix(target, i);
    case Encoding::Vop1:
    case Encoding::Vop2:
    case Encoding::Vopc:
    case Encoding::Vop3:
    case Encoding::Vop3sd:
    case Encoding::Vop3p: return bind_cross_lane(target, i) || bind_vector(target, i) || bind_matrix(target, i);
    case Encoding::Flat:
    case Encoding::Global:
    case Encoding::Scratch: return bind_global(target, i);
    case Encoding::Mubuf:
    case Encoding::Mtbuf: return bind_buffer(target, i);
    case Encoding::Ds: return bind_lds(target, i);
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
