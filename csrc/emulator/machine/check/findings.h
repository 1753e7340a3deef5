// Findings and their effect: CheckLevel.
#pragma once

#include <string>

#include "execute/wave.h"

namespace apb::emu {

// Reports a finding as raise() does. When findings are reported only the first of its kind at an instruction is, and the wave
// goes on: callers read wave.stop.
[[gnu::cold, gnu::format(printf, 4, 5)]] void find(Wave& wave, FaultKind kind, int lane, const char* format, ...);

// For Workgroup::tolerates, where the level is permissive or continue.
[[gnu::cold]] bool tolerates(const Wave& wave);

// A list: kernel, finding, offset of the instruction in the code, how often. Since the last reset.
std::string findings_json();
void reset_findings();

}  // namespace apb::emu
