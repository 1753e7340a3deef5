// This loader's reading of a code object, as text. Tests compare it with the other readers of this project.
#include <cstdlib>
#include <memory>

#include "machine/load/descriptor.h"
#include "machine/load/fatbin.h"
#include "machine/load/functions.h"
#include "machine/load/kernels.h"
#include "machine/output/json.h"

namespace apb::emu {
namespace {

std::string field(const char* name, std::uint64_t value) {
  return std::string(", \"") + name + "\": " + std::to_string(value);
}

std::string arguments_json(const Kernel& kernel) {
  std::string out;
  for (const KernelArgument& argument : kernel.arguments)
    out += std::string(out.empty() ? "" : ", ") + "[" + std::to_string(argument.offset) + ", " +
           std::to_string(argument.size) + ", " + json_text(argument.value_kind) + "]";
  return "[" + out + "]";
}

std::string kernel_json(const DescribedKernel& entry) {
  const Kernel& k = entry.kernel;
  std::string required;
  for (const std::uint32_t size : k.required_block) required += (required.empty() ? "" : ", ") + std::to_string(size);
  return "{\"name\": " + json_text(k.name) + ", \"symbol\": " + json_text(entry.symbol) +
         field("kernarg_size", k.kernarg_bytes) + field("lds_static", k.static_lds) +
         field("scratch", k.private_bytes) + field("max_threads", k.max_block) + field("sgprs", k.sgprs) +
         ", \"required_block\": [" + required + "], \"uses_dynamic_stack\": " + (k.dynamic_stack ? "true" : "false") +
         field("rsrc1", k.rsrc1) + field("rsrc2", k.rsrc2) + field("rsrc3", k.rsrc3) +
         field("properties", k.properties) + field("allocated_vgprs", k.vgprs) + field("accum_offset", k.accum_offset) +
         field("preload_length", k.preload_length) + field("preload_offset", k.preload_offset) +
         field("entry", k.entry) + ", \"args\": " + arguments_json(k) + "}";
}

std::string error_json(const std::string& problem) { return "{\"version\": 1, \"error\": " + json_text(problem) + "}"; }

struct Freed {
  void operator()(std::uint8_t* memory) const { std::free(memory); }
};

}  // namespace

std::string metadata_json(Bytes image) {
  Bytes bytes;
  ElfFile file;
  Target target{};
  std::string isa, problem;
  std::vector<DescribedKernel> kernels;
  if (!unwrap_any(image, bytes, problem) || !read_elf(bytes, file, problem)) return error_json(problem);
  const bool fits = target_fits(file.flags, Target::Gfx942, isa, problem);  // the words, also where it does not
  if (!target_of(file.flags, target) && !fits) return error_json(problem);
  // Zeroed by the system when touched: a claimed size costs nothing.
  const std::unique_ptr<std::uint8_t[], Freed> memory(static_cast<std::uint8_t*>(std::calloc(file.image_bytes, 1)));
  if (!memory) return error_json("out of memory: the image has " + std::to_string(file.image_bytes) + " bytes");
  for (const ElfSegment& segment : file.segments)
    if (segment.file_bytes)
      std::memcpy(memory.get() + segment.address, bytes.data() + segment.offset, segment.file_bytes);
  if (!read_kernels(file, {memory.get(), file.image_bytes}, executable_segment(file), kernels, problem))
    return error_json(problem);
  std::string rows;
  for (const DescribedKernel& entry : kernels) rows += (rows.empty() ? "" : ", ") + kernel_json(entry);
  // EI_ABIVERSION 2 is code object v4.
  return "{\"version\": 1, \"isa\": " + json_text(isa) + field("code_object", file.abi_version + 2u) +
         ", \"kernels\": [" + rows + "]}";
}

}  // namespace apb::emu
