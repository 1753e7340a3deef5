// Why a wave stopped, in words a person can act on.
#pragma once

#include <cstdint>
#include <string>

namespace apb::emu {

enum class FaultKind : std::uint8_t {
  none,
  unknown_instruction,  // not decoded, or decoded and not executed by this library: never skipped
  illegal_address,      // outside every live allocation, or freed
  misaligned,
  lds_out_of_bounds,
  lds_uninitialised,  // check
  lds_race,           // check
  hazard,             // check: a loaded register used before its s_waitcnt
  illegal_jump,       // the program counter left the code
  illegal_register,   // a register beyond what the kernel descriptor allocates
  instruction_limit,
  trap,
};

struct Fault {
  FaultKind kind = FaultKind::none;
  std::string text;  // the whole message
};

const char* name(FaultKind kind);

}  // namespace apb::emu
