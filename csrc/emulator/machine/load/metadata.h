// The kernel metadata in a code object's notes (LLVM, AMDGPUUsage, "Code Object V3 and Above Metadata").
#pragma once

#include <vector>

#include "machine/load/code_object.h"
#include "machine/load/elf.h"

namespace apb::emu {

// Far beyond what any kernarg segment holds: sums of offsets stay in 32 bits, and a wrong number is not allocated.
inline constexpr std::uint64_t kMostArgumentBytes = 1u << 20;

// Kernels with what the metadata knows: name, sizes, arguments. A kernel's symbol is returned beside it. Broken
// metadata is a problem; none at all is not (hand-written objects).
struct DescribedKernel {
  Kernel kernel;
  std::string symbol;
};
[[nodiscard]] bool read_metadata(const ElfFile& file, std::vector<DescribedKernel>& out, std::string& problem);

}  // namespace apb::emu
