// Stops a wave with a message, and has the cold half of the address check.
#include "fault.h"

#include <cstdarg>
#include <cstdio>

#include "isa/decode.h"
#include "lines.h"
#include "operands.h"
#include "reach.h"
#include "wave.h"

namespace apb::emu {

const char* name(FaultKind kind) {
  switch (kind) {
    case FaultKind::None: return "none";
    case FaultKind::UnknownInstruction: return "unknown instruction";
    case FaultKind::IllegalAddress: return "illegal address";
    case FaultKind::Misaligned: return "misaligned address";
    case FaultKind::LdsOutOfBounds: return "LDS access out of bounds";
    case FaultKind::LdsUninitialised: return "read of uninitialised LDS";
    case FaultKind::LdsRace: return "LDS race";
    case FaultKind::Hazard: return "missing s_waitcnt";
    case FaultKind::IllegalJump: return "illegal jump";
    case FaultKind::IllegalRegister: return "illegal register";
    case FaultKind::InstructionLimit: return "instruction limit";
    case FaultKind::Interrupted: return "interrupted";
    case FaultKind::Trap: return "trap";
  }
  return "?";
}

std::string place(const Wave& wave, FaultKind kind, int lane) {
  std::string text = name(kind);
  char part[160];
  if (wave.current != nullptr) {
    std::snprintf(part, sizeof part, " at code+0x%x `", wave.current->address);
    text += part;
    text += wave.current->dwords != 0 ? disassemble(wave.target, *wave.current) : std::string("undecodable");
    text += '`';
    const Lines* lines = wave.group != nullptr ? wave.group->lines : nullptr;
    const std::string source = lines != nullptr ? lines->text(wave.current->address) : std::string();
    if (!source.empty()) text.append(" (").append(source).append(")");
  }
  if (wave.group != nullptr) {
    const Workgroup& group = *wave.group;
    std::snprintf(part, sizeof part, ", workgroup (%u, %u, %u), wave %u", group.id[0], group.id[1], group.id[2],
                  wave.number);
    text += part;
  }
  if (lane >= 0) {
    std::snprintf(part, sizeof part, ", lane %d", lane);
    text += part;
  }
  return text;
}

void raise(Wave& wave, FaultKind kind, int lane, const char* format, ...) {
  if (wave.stop == Stop::Fault) return;  // the first one is the cause
  char detail[512];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(detail, sizeof detail, format, arguments);
  va_end(arguments);
  wave.stop = Stop::Fault;
  wave.fault.kind = kind;
  wave.fault.lane = lane;
  wave.fault.text = place(wave, kind, lane);
  if (detail[0] != '\0') wave.fault.text.append(": ").append(detail);
}

bool reach_other(Wave& wave, int lane, std::uint64_t address, std::uint32_t bytes) {
  Range found;
  if (wave.memory != nullptr && wave.memory->find(address, bytes, found) && found.holds(address, bytes)) {
    wave.recent = found;
    return true;
  }
  char where[320] = "no memory";
  if (wave.memory != nullptr) wave.memory->describe(address, bytes, where, sizeof where);
  raise(wave, FaultKind::IllegalAddress, lane, "%u bytes at 0x%llx: %s", bytes,
        static_cast<unsigned long long>(address), where);
  return false;
}

std::uint64_t special(const Wave& wave, const Operand& operand) {
  constexpr std::uint64_t kAperture = 0xffffffffu;  // each aperture is 4 GiB: the limit is its last byte
  const Workgroup none;
  const Workgroup& group = wave.group != nullptr ? *wave.group : none;
  switch (operand.index) {
    case source_number::kSharedBase: return group.shared_base;
    case source_number::kSharedLimit: return group.shared_base + kAperture;
    case source_number::kPrivateBase: return group.private_base;
    case source_number::kPrivateLimit: return group.private_base + kAperture;
    case source_number::kVccz: return wave.vcc() == 0;
    case source_number::kExecz: return wave.exec() == 0;
    case source_number::kScc: return wave.scc;
    default:
      return 0;  // pops_exiting_wave_id: compute waves are in no ordered pixel section; bind() lets nothing else through
  }
}

}  // namespace apb::emu
