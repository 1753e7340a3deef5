// Breakpoints as they are asked for, and as places in the code objects that have been launched.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "machine/load/code_object.h"
#include "machine/settings/trace_filter.h"

namespace apb::emu {

struct Breakpoint {
  enum class Kind : std::uint8_t { Line, Kernel, Address };
  std::uint64_t id = 0;
  Kind kind{};
  std::string name;          // the file, or the kernel
  std::uint64_t number = 0;  // the line, the offset in the kernel, or the address
  TraceFilter condition;     // of workgroups and waves
};

// The place of a breakpoint in one code object.
struct Resolved {
  std::uint64_t id = 0;
  std::uint32_t line = 0;  // of a line that has no code the next one
  std::vector<std::uint32_t> offsets;
};

// One code object that has been launched. Waves look at `flags` before each instruction, from any thread.
struct DebuggedCode {
  explicit DebuggedCode(const CodeObject& code) : object(&code), flags(code.instructions.size()) {}
  const CodeObject* object;
  std::vector<std::atomic<std::uint8_t>> flags;                     // per dword: is there a breakpoint?
  std::multimap<std::uint32_t, std::uint64_t> at;                   // offset: breakpoint
  std::vector<Resolved> place(const std::vector<Breakpoint>& all);  // those that have a place here
};

}  // namespace apb::emu
