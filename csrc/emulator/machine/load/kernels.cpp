#include "machine/load/kernels.h"

#include <set>
#include <string_view>
#include <unordered_map>

#include "machine/load/descriptor.h"

namespace apb::emu {
namespace {

constexpr std::string_view kDescriptorSuffix = ".kd";
constexpr std::uint64_t kDescriptorBytes = 64;

using Symbols = std::unordered_map<std::string_view, const ElfSymbol*>;

// The first of each name that is defined: a file may have as many kernels as symbols.
Symbols defined_symbols(const ElfFile& file) {
  Symbols found;
  for (const ElfSymbol& symbol : file.symbols)
    if (symbol.defined()) found.try_emplace(symbol.name, &symbol);
  return found;
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
  const Symbols defined = defined_symbols(file);
  std::set<std::string, std::less<>> names;
  for (DescribedKernel& entry : out) {
    if (!names.insert(entry.kernel.name).second) {
      problem = "metadata: two kernels are named " + entry.kernel.name;
      return false;
    }
    const auto symbol = defined.find(entry.symbol);
    if (symbol == defined.end()) {
      problem = "kernel " + entry.kernel.name + ": no symbol '" + entry.symbol + "'";
      return false;
    }
    if (!describe(entry, true, symbol->second->value, image, code, problem)) return false;
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
