// The first and last bytes of the functions of a code object.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/load/code_object.h"
#include "machine/load/elf.h"

namespace apb::emu {

struct FunctionRange {
  std::uint32_t begin = 0, end = 0;
};  // bytes from the start of the executable segment

// One range per function and kernel symbol inside `code`, by begin; of several with the same begin the longest. A
// symbol without a size (hand-written code) reaches to the next one or the end of the segment.
std::vector<FunctionRange> function_ranges(const ElfFile& file, const ElfSegment& code);

// The executable segment with contents; null when there is none.
const ElfSegment* executable_segment(const ElfFile& file);

// Names the first instruction of [begin, end) whose registers go beyond what the kernel's descriptor allocates; empty
// when all fit. Where the kernel names a register of the unified file both as v and as a, its instructions are changed
// to one name.
std::string check_registers(const Kernel& kernel, std::vector<Instruction>& code, std::uint32_t begin,
                            std::uint32_t end);

}  // namespace apb::emu
