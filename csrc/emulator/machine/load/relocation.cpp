#include "machine/load/relocation.h"

namespace apb::emu {
namespace {

constexpr std::uint8_t kBindingWeak = 2;

// LLVM, AMDGPUUsage, "Relocation Records": S + A, or S + A - P, and which half of it.
struct Rule {
  std::uint32_t type;
  std::uint8_t bytes;
  bool relative, high;
};
constexpr Rule kRules[] = {
    {1, 4, false, false},  // R_AMDGPU_ABS32_LO
    {2, 4, false, true},   // R_AMDGPU_ABS32_HI
    {3, 8, false, false},  // R_AMDGPU_ABS64
    {4, 4, true, false},   // R_AMDGPU_REL32
    {5, 8, true, false},   // R_AMDGPU_REL64
    {6, 4, false, false},  // R_AMDGPU_ABS32
    {10, 4, true, false},  // R_AMDGPU_REL32_LO
    {11, 4, true, true},   // R_AMDGPU_REL32_HI
};
constexpr std::uint32_t kTypeNone = 0, kTypeRelative64 = 13;

bool symbol_value(const ElfFile& file, std::uint32_t index, std::uint64_t base, std::uint64_t& out,
                  std::string& problem) {
  out = 0;
  if (index == 0) return true;
  if (index >= file.dynamic_symbols.size()) {
    problem =
        "a relocation names symbol " + std::to_string(index) + " of " + std::to_string(file.dynamic_symbols.size());
    return false;
  }
  const ElfSymbol& symbol = file.dynamic_symbols[index];
  if (symbol.defined()) {
    out = base + symbol.value;
    return true;
  }
  if (symbol.binding == kBindingWeak) return true;  // undefined and weak: null
  problem = "undefined symbol '" + std::string(symbol.name) + "'";
  return false;
}

bool apply(const ElfFile& file, const ElfRelocation& entry, std::uint64_t base, std::span<std::uint8_t> image,
           std::string& problem) {
  if (entry.type == kTypeNone) return true;
  std::uint64_t value = base;
  Rule rule{kTypeRelative64, 8, false, false};
  if (entry.type != kTypeRelative64) {
    rule.bytes = 0;
    for (const Rule& known : kRules)
      if (known.type == entry.type) rule = known;
    if (rule.bytes == 0) {
      problem = "unknown relocation type " + std::to_string(entry.type);
      return false;
    }
    if (!symbol_value(file, entry.symbol, base, value, problem)) return false;
  }
  if (entry.offset > image.size() || rule.bytes > image.size() - entry.offset) {
    problem = "a relocation lies outside the image";
    return false;
  }
  value += static_cast<std::uint64_t>(entry.addend) - (rule.relative ? base + entry.offset : 0);
  if (rule.high) value >>= 32;
  std::memcpy(image.data() + entry.offset, &value, rule.bytes);
  return true;
}

}  // namespace

bool relocate(const ElfFile& file, std::uint64_t base, std::span<std::uint8_t> image, std::string& problem) {
  for (const ElfRelocation& entry : file.relocations)
    if (!apply(file, entry, base, image, problem)) return false;
  return true;
}

}  // namespace apb::emu
