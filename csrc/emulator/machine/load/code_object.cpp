// The way of a file into device memory: container, ELF, image, relocations, kernels, records.
#include "machine/load/code_object.h"

#include <algorithm>
#include <atomic>

#include "machine/dwarf/debug_sections.h"
#include "machine/load/elf.h"
#include "machine/load/fatbin.h"
#include "machine/load/functions.h"
#include "machine/load/kernels.h"
#include "machine/load/program.h"
#include "machine/load/relocation.h"
#include "machine/memory/allocations.h"
#include "machine/memory/arena.h"
#include "machine/settings/configuration.h"

namespace apb::emu {
namespace {

constexpr std::string_view kDescriptorSuffix = ".kd";
constexpr std::uint64_t kMostSharing = 64;   // of code by kernels, each counted with all that it may reach
constexpr std::uint64_t kLeastImage = 4096;  // page-aligned then, as p_align of AMDGPU objects asks

class Loader {
 public:
  Loader(const ElfFile& file, CodeObject& object, std::string& problem)
      : file_(file), object_(object), problem_(problem) {}

  bool no_memory() const { return no_memory_; }

  bool load() {
    code_ = executable_segment(file_);
    if (!place()) return false;
    globals();
    if (!relocate(file_, object_.base, image_, problem_) || !kernels()) return false;
    decode_code();
    if (DebugSections sections = debug_sections(file_.bytes); code_ && !sections.line.empty())
      object_.lines = std::make_unique<SourceLines>(std::move(sections), code_->address, code_->file_bytes);
    return true;
  }

 private:
  bool place() {
    object_.bytes = std::max(file_.image_bytes, kLeastImage);
    void* memory = Allocations::instance().allocate(object_.device, object_.bytes, AllocationKind::Code, 0);
    if (!memory) {
      no_memory_ = true;
      problem_ = "out of device memory: the image has " + std::to_string(object_.bytes) + " bytes";
      object_.bytes = 0;
      return false;
    }
    object_.base = reinterpret_cast<std::uint64_t>(memory);
    zero_pages(object_.base, object_.bytes);
    image_ = {static_cast<std::uint8_t*>(memory), file_.image_bytes};
    for (const ElfSegment& segment : file_.segments)
      if (segment.file_bytes)
        std::memcpy(image_.data() + segment.address, file_.bytes.data() + segment.offset, segment.file_bytes);
    if (code_) object_.code = object_.base + code_->address;
    return true;
  }

  void globals() {
    for (const ElfSymbol& symbol : file_.dynamic_symbols) {
      Bytes place;
      if (symbol.type != symbol_type::kObject || !symbol.defined() || symbol.name.ends_with(kDescriptorSuffix))
        continue;
      if (slice(image_, symbol.value, symbol.bytes, place))
        object_.globals[std::string(symbol.name)] = {object_.base + symbol.value, symbol.bytes};
    }
  }

  bool kernels() {
    std::vector<DescribedKernel> found;
    if (!read_kernels(file_, image_, code_, found, problem_)) return false;
    for (DescribedKernel& entry : found) {
      Kernel& kernel = entry.kernel;
      kernel.object = &object_;
      kernel.descriptor += object_.base;
      std::string name = kernel.name;
      object_.kernels.insert_or_assign(std::move(name), std::move(kernel));
    }
    return true;
  }

  void decode_code() {
    if (!code_) return;
    const std::vector<FunctionRange> ranges = function_ranges(file_, *code_);
    std::vector<std::uint32_t> starts;
    for (const FunctionRange& range : ranges) {
      starts.push_back(range.begin / 4);
      starts.push_back(range.end / 4);  // what lies between functions is padding: it must not swallow the next one
    }
    for (const auto& [name, kernel] : object_.kernels) starts.push_back(kernel.entry / 4);
    std::ranges::sort(starts);
    std::vector<std::uint32_t> words(code_->file_bytes / 4);
    std::memcpy(words.data(), image_.data() + code_->address, words.size() * 4);
    object_.instructions = decode_program(object_.target, words, starts);
    code_bytes_left_ = kMostSharing * code_->file_bytes;
    for (auto& [name, kernel] : object_.kernels) {
      const auto after = std::ranges::upper_bound(ranges, kernel.entry, {}, &FunctionRange::begin);
      const std::uint32_t end = after == ranges.begin() || std::prev(after)->end <= kernel.entry
                                    ? static_cast<std::uint32_t>(words.size() * 4)
                                    : std::prev(after)->end;
      kernel.code_bytes = end - kernel.entry;
      check_kernel(kernel, end);
    }
  }

  // Kernels may share their code, a few of them: many descriptors on all of a large file would take hours.
  void check_kernel(Kernel& kernel, std::uint32_t end) {
    const std::uint64_t bytes = end - std::min(kernel.entry, end);
    if (bytes > code_bytes_left_) {
      kernel.register_problem = "its registers were not checked: the kernels of this file share too much code";
      return;
    }
    code_bytes_left_ -= bytes;
    kernel.register_problem = check_registers(kernel, object_.instructions, kernel.entry, end);
  }

  const ElfFile& file_;
  CodeObject& object_;
  std::string& problem_;
  const ElfSegment* code_ = nullptr;
  std::span<std::uint8_t> image_;
  std::uint64_t code_bytes_left_ = 0;
  bool no_memory_ = false;
};

}  // namespace

CodeObject::~CodeObject() {
  if (base) Allocations::instance().free(reinterpret_cast<void*>(base), AllocationKind::Code);
}

std::unique_ptr<CodeObject> load_code_object(std::span<const std::uint8_t> image, Target target, int device,
                                             std::string& problem, bool& no_memory) {
  no_memory = false;
  Bytes bytes;
  ElfFile file;
  auto object = std::make_unique<CodeObject>();
  static std::atomic<std::uint64_t> loaded{0};
  object->number = ++loaded;
  object->target = target;
  object->device = device;
  if (!unwrap(image, target, bytes, problem) || !read_elf(bytes, file, problem) ||
      !target_fits(file.flags, target, object->isa, problem))
    return nullptr;
  Loader loader(file, *object, problem);
  if (!loader.load()) {
    no_memory = loader.no_memory();
    return nullptr;
  }
  log(LogLevel::Info, "loaded %s for device %d: %zu bytes, %zu kernels, %zu dwords of code", object->isa.c_str(),
      device, bytes.size(), object->kernels.size(), object->instructions.size());
  return object;
}

}  // namespace apb::emu
