// Why a wave stopped, in words a person can act on.
#pragma once

#include <cstdint>
#include <string>

namespace apb::emu {

enum class FaultKind : std::uint8_t {
  None,
  UnknownInstruction,  // not decoded, or decoded and not executed by this library: never skipped
  IllegalAddress,      // outside every live allocation, or freed
  Misaligned,
  LdsOutOfBounds,
  LdsUninitialised,  // check
  LdsRace,           // check
  Hazard,            // check: a loaded register used before its s_waitcnt
  IllegalJump,       // the program counter left the code
  IllegalRegister,   // a register beyond what the kernel descriptor allocates
  InstructionLimit,
  Trap,
  Interrupted,  // by SIGINT
};

struct Fault {
  FaultKind kind = FaultKind::None;
  std::string text;  // the whole message
  int lane = -1;     // of the first access that was wrong; -1: a scalar one, or none
};

const char* name(FaultKind kind);

struct Wave;
// "missing s_waitcnt at code+0x1c `v_add_f32_e32 v0, v1, v2` (x.hip:12 in f), workgroup (3, 0, 0), wave 1, lane 5": what the wave is
// at, with its source line where the code object says it.
std::string place(const Wave& wave, FaultKind kind, int lane);

}  // namespace apb::emu
