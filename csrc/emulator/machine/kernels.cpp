#include "kernels.h"

#include <set>

#include "descriptor.h"

namespace apb::emu {
namespace {

constexpr std::string_view kDescriptorSuffix = ".kd";
constexpr std::uint64_t kDescriptorBytes = 64;

const ElfSymbol* find_symbol(const ElfFile& file, std::string_view wanted) {
  for (const ElfSymbol& symbol : file.symbols)
    if (symbol.name == wanted && symbol.defined()) return &symbol;
  return nullptr;
}

bool describe(DescribedKernel& entry, bool described, std::uint64_t address, Bytes image, const ElfSegment* code,
              std::string& problem) {
  Bytes descriptor;
  if (!code) {
    problem = "kernel " + entry.kernel.name + ": the file has no code";
    return false;
  }
  if (!slice(image, address, kDescriptorBytes, descriptor)) descriptor = {};
  entry.kernel.descriptor = address;
  return read_descriptor(descriptor, address, code->address, code->file_bytes / 4 * 4, described, entry.kernel,
                         problem);
}

}  // namespace

bool read_kernels(const ElfFile& file, Bytes image, const ElfSegment* code, std::vector<DescribedKernel>& out,
                  std::string& problem) {
  if (!read_metadata(file, out, problem)) return false;
  std::set<std::string, std::less<>> names;
  for (DescribedKernel& entry : out) {
    if (!names.insert(entry.kernel.name).second) {
      problem = "metadata: two kernels are named " + entry.kernel.name;
      return false;
    }
    const ElfSymbol* symbol = find_symbol(file, entry.symbol);
    if (!symbol) {
      problem = "kernel " + entry.kernel.name + ": no symbol '" + entry.symbol + "'";
      return false;
    }
    if (!describe(entry, true, symbol->value, image, code, problem)) return false;
  }
  // Hand-written objects may describe fewer kernels than they have.
  std::set<std::string, std::less<>> symbols;
  for (const DescribedKernel& entry : out) symbols.insert(entry.symbol);
  for (const ElfSymbol& symbol : file.dynamic_symbols) {
    if (!symbol.defined() || symbol.type != symbol_type::kObject || !symbol.name.ends_with(kDescriptorSuffix)) continue;
    DescribedKernel entry;
    entry.kernel.name = symbol.name.substr(0, symbol.name.size() - kDescriptorSuffix.size());
    entry.symbol = symbol.name;
    if (symbols.contains(entry.symbol) || !names.insert(entry.kernel.name).second) continue;
    if (!describe(entry, false, symbol.value, image, code, problem)) return false;
    out.push_back(std::move(entry));
  }
  return true;
}

}  // namespace apb::emu
