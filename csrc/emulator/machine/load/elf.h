// An AMDGPU ELF file as records, before anything of it is in device memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa/instruction.h"
#include "machine/load/bytes.h"

namespace apb::emu {

struct ElfSegment {
  std::uint64_t offset = 0, address = 0, file_bytes = 0, memory_bytes = 0;
  bool executable = false;
};

struct ElfSymbol {
  std::string_view name;
  std::uint64_t value = 0, bytes = 0;
  std::uint8_t type = 0;     // STT_*
  std::uint8_t binding = 0;  // STB_*
  std::uint16_t section = 0;
  bool defined() const { return section != 0; }
};

struct ElfRelocation {
  std::uint64_t offset = 0;
  std::uint32_t type = 0, symbol = 0;
  std::int64_t addend = 0;
};

struct ElfFile {
  Bytes bytes;
  std::uint8_t abi_version = 0;  // 2 is code object v4, 3 is v5, 4 is v6
  std::uint32_t flags = 0;
  std::vector<ElfSegment> segments;  // PT_LOAD, by address, disjoint
  std::vector<ElfSymbol> dynamic_symbols;
  std::vector<ElfSymbol> symbols;  // .symtab and .dynsym together
  std::vector<ElfRelocation> relocations;
  std::vector<Bytes> metadata;    // payloads of NT_AMDGPU_METADATA
  std::uint64_t image_bytes = 0;  // end of the last segment
};

namespace symbol_type {
inline constexpr std::uint8_t kObject = 1, kFunction = 2, kAmdgpuKernel = 10;
}

// False with `problem` for everything that is not a linked 64-bit AMDGPU ELF file of code object v4 to v6.
[[nodiscard]] bool read_elf(Bytes bytes, ElfFile& out, std::string& problem);

// May code for this e_flags run on `target` as our cards are (sramecc+, xnack-)? `isa` gets the file's own target in
// words, "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-".
[[nodiscard]] bool target_fits(std::uint32_t flags, Target target, std::string& isa, std::string& problem);

// The target that a file is for, without a device to compare with; false when it is none of ours.
[[nodiscard]] bool target_of(std::uint32_t flags, Target& target);

}  // namespace apb::emu
