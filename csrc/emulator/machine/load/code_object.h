// A code object in device memory, ready to run: read, relocated, decoded once, bound.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "execute/bind.h"
#include "machine/dwarf/source_lines.h"

namespace apb::emu {

enum class ArgumentKind : std::uint8_t { Value, GlobalBuffer, DynamicSharedPointer, Hidden };
struct KernelArgument {
  std::uint32_t offset = 0, size = 0;
  ArgumentKind kind{};
  std::string value_kind, name;  // as the metadata says: "by_value", "global_buffer", "hidden_block_count_x", ...
};

struct CodeObject;

struct Kernel {
  std::string name;  // .name; the symbol is name + ".kd"
  const CodeObject* object = nullptr;
  std::uint32_t entry = 0;  // bytes from the start of the code
  std::uint32_t kernarg_bytes = 0, static_lds = 0, private_bytes = 0;
  std::uint32_t max_block = 1024, required_block[3] = {};
  std::uint32_t vgprs = 0, accum_offset = 0, sgprs = 0;
  std::uint32_t rsrc1 = 0, rsrc2 = 0, rsrc3 = 0;
  std::uint16_t properties = 0;                          // kernel_code_properties of the descriptor
  std::uint16_t preload_length = 0, preload_offset = 0;  // kernarg preload, in dwords
  bool dynamic_stack = false;
  std::vector<KernelArgument> arguments;
  std::uint64_t descriptor = 0;  // address of the kernel descriptor in device memory
  std::uint32_t code_bytes = 0;  // size of the kernel's own code, from its symbol
  std::string register_problem;  // not empty: an instruction names a register beyond what the descriptor allocates; a
                                 // launch is then a fault
};

struct CodeObject {
  CodeObject() = default;
  CodeObject(const CodeObject&) = delete;
  CodeObject& operator=(const CodeObject&) = delete;
  ~CodeObject();  // gives the image's memory back

  std::uint64_t number = 0;  // of the process, 1, 2, 3 ...: unlike its address it is nobody else's later
  Target target{};
  std::string isa;  // "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-"
  int device = 0;
  std::uint64_t base = 0;  // where the image lies (an allocation of kind `code`)
  std::uint64_t bytes = 0;
  std::uint64_t code = 0;                 // host address of the first byte of the executable segment
  std::vector<Instruction> instructions;  // one slot per dword of the executable segment
  std::map<std::string, Kernel, std::less<>> kernels;
  struct Global {
    std::uint64_t address = 0, bytes = 0;
  };
  std::map<std::string, Global, std::less<>> globals;
  std::unique_ptr<SourceLines> lines;  // null: the file has no line tables
};

// Reads, loads and decodes. Null with `problem` (what was asked, what was found). Accepts an ELF, an uncompressed clang
// offload bundle
// (__CLANG_OFFLOAD_BUNDLE__) or a CUDA-style fat binary wrapper's payload, and picks the image for `target`.
// `image` may start anywhere in a file; it is copied. The object's memory is freed with it. `no_memory`: the device is full, and
// nothing is wrong with the image.
std::unique_ptr<CodeObject> load_code_object(std::span<const std::uint8_t> image, Target target, int device,
                                             std::string& problem, bool& no_memory);

// hipModuleLoadData gives an address without a length: the bytes from `image` that its own headers claim, cut at the
// end of the readable mapping it lies in. Empty with `problem` when there is no readable memory or no known header.
std::span<const std::uint8_t> image_at(const void* image, std::string& problem);

// Without a device: what a file uses and what this library cannot execute. `text` is for people; false when unreadable.
struct CoverageRow {
  std::string mnemonic;
  std::uint64_t count = 0;
  bool decoded = false, executable = false;
};
bool code_object_coverage(std::span<const std::uint8_t> image, Target& target, std::vector<CoverageRow>& rows,
                          std::string& problem);

}  // namespace apb::emu
