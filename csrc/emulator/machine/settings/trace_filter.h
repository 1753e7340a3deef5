// The instructions that AITER_PREBUILT_EMULATOR_TRACE selects: keys with commas between, values of one key with + between.
//   kernel=NAME        with * for any text               launch=3         of the process, counted from 1
//   workgroup=1:0:0    * for any number, 0-3 for several  wave=2           pc=0x40-0x80   offsets in the code as messages say them
//   line=x.hip:12-15   inlined from there, too            class=mfma+lds   as the counters sort instructions
//   lanes=0-3+63       whose registers are printed        registers=no     format=json
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa/instruction.h"

namespace apb::emu {

class SourceLines;

struct TraceFilter {
  struct Span {
    std::uint64_t first = 0, last = ~std::uint64_t{0};
    bool holds(std::uint64_t value) const { return first <= value && value <= last; }
  };
  struct Line {
    std::string file;
    std::uint32_t first = 0, last = 0;
  };
  bool on = false, registers = true, json = false;
  std::vector<std::string> kernels;
  std::vector<Span> launches, waves, places;
  std::vector<std::array<Span, 3>> workgroups;
  std::vector<Line> lines;
  std::uint32_t classes = ~0u;  // bits by Category
  std::uint64_t lanes = ~std::uint64_t{0};

  // An empty list lets everything pass.
  bool wants_launch(std::string_view kernel, std::uint64_t number) const;
  bool wants_workgroup(const std::uint32_t (&id)[3]) const;
  bool wants_wave(std::uint32_t number) const;
  // `source`: null when the code has no lines.
  bool wants(const Instruction& instruction, const SourceLines* source) const;
};

// Empty when `text` is right; else what was found and what to write.
std::string read_trace_filter(std::string_view text, TraceFilter& out);

// "mfma", as the counters call it.
const char* name(Category category);

}  // namespace apb::emu
