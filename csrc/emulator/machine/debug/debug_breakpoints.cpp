#include "machine/debug/debug_breakpoints.h"

namespace apb::emu {
namespace {

bool starts_instruction(const CodeObject& code, std::uint64_t offset) {
  return offset % 4 == 0 && offset / 4 < code.instructions.size() && code.instructions[offset / 4].execute != nullptr;
}

Resolved resolve(const Breakpoint& one, const CodeObject& code) {
  Resolved found{one.id, 0, {}};
  switch (one.kind) {
    case Breakpoint::Kind::Line:
      if (code.lines) found.offsets = code.lines->places(one.name, static_cast<std::uint32_t>(one.number), found.line);
      break;
    case Breakpoint::Kind::Kernel:
      if (const auto kernel = code.kernels.find(one.name); kernel != code.kernels.end()) {
        const std::uint64_t offset = kernel->second.entry + one.number;
        if (starts_instruction(code, offset)) found.offsets.push_back(static_cast<std::uint32_t>(offset));
      }
      break;
    case Breakpoint::Kind::Address:
      if (one.number >= code.code && starts_instruction(code, one.number - code.code))
        found.offsets.push_back(static_cast<std::uint32_t>(one.number - code.code));
      break;
  }
  std::erase_if(found.offsets, [&code](std::uint32_t offset) { return !starts_instruction(code, offset); });
  return found;
}

}  // namespace

std::vector<Resolved> DebuggedCode::place(const std::vector<Breakpoint>& all) {
  for (const auto& [offset, id] : at) flags[offset / 4].store(0, std::memory_order_relaxed);
  at.clear();
  std::vector<Resolved> placed;
  for (const Breakpoint& one : all) {
    Resolved found = resolve(one, *object);
    if (found.offsets.empty()) continue;
    for (const std::uint32_t offset : found.offsets) {
      at.emplace(offset, one.id);
      flags[offset / 4].store(1, std::memory_order_relaxed);
    }
    placed.push_back(std::move(found));
  }
  return placed;
}

}  // namespace apb::emu
