#include "machine/load/functions.h"

#include <algorithm>
#include <bitset>
#include <cstdio>

#include "isa/decode.h"

namespace apb::emu {

const ElfSegment* executable_segment(const ElfFile& file) {
  for (const ElfSegment& segment : file.segments)
    if (segment.executable && segment.file_bytes >= 4) return &segment;
  return nullptr;
}

std::vector<FunctionRange> function_ranges(const ElfFile& file, const ElfSegment& code) {
  std::vector<FunctionRange> ranges;
  const std::uint64_t code_bytes = code.file_bytes / 4 * 4;
  for (const ElfSymbol& symbol : file.symbols) {
    const bool is_code = symbol.type == symbol_type::kFunction || symbol.type == symbol_type::kAmdgpuKernel;
    if (!is_code || !symbol.defined() || symbol.value % 4 || symbol.value < code.address ||
        symbol.value - code.address >= code_bytes)
      continue;
    const std::uint64_t begin = symbol.value - code.address, end = begin + std::min(symbol.bytes, code_bytes - begin);
    ranges.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
  }
  std::ranges::sort(ranges, [](const FunctionRange& a, const FunctionRange& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  const auto tail = std::ranges::unique(ranges, {}, &FunctionRange::begin);
  ranges.erase(tail.begin(), tail.end());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::uint32_t limit = i + 1 < ranges.size() ? ranges[i + 1].begin : static_cast<std::uint32_t>(code_bytes);
    if (ranges[i].end == ranges[i].begin || ranges[i].end > limit) ranges[i].end = limit;
  }
  return ranges;
}

namespace {

// The unified file of gfx90a and later: a wave has `vgprs` registers, v0 is the first, a0 is number `accum_offset`.
// Vector operands may reach into the upper part (hand-written kernels do): v[accum_offset] and a0 are one register.
class RegisterCheck {
 public:
  explicit RegisterCheck(const Kernel& kernel)
      : kernel_(kernel), accvgprs_(kernel.vgprs - std::min(kernel.accum_offset, kernel.vgprs)) {}

  // Empty when every register of the instruction is allocated.
  std::string look(const Instruction& instruction) {
    for (const Operand& operand : instruction.destination)
      if (!allocated(operand)) return text(instruction, operand);
    for (const Operand& operand : instruction.source)
      if (!allocated(operand)) return text(instruction, operand);
    return {};
  }

  // Has one register been named both ways?
  bool overlap() const { return (vector_ & acc_).any(); }

 private:
  bool allocated(const Operand& operand) {
    if (operand.kind != OperandKind::Vgpr && operand.kind != OperandKind::Accvgpr) return true;
    const bool vector = operand.kind == OperandKind::Vgpr;
    for (std::uint32_t i = operand.index; i < std::min<std::uint32_t>(operand.index + operand.dwords, 256); ++i)
      (vector ? vector_ : acc_).set(i + (vector ? 0 : kernel_.accum_offset));
    return operand.index < (vector ? kernel_.vgprs : accvgprs_);
  }

  std::string text(const Instruction& instruction, const Operand& operand) const {
    char where[32], rest[160];
    std::snprintf(where, sizeof where, "` at code+0x%x", instruction.address);
    std::snprintf(rest, sizeof rest, " names %c%u, the kernel descriptor allocates %u VGPRs, %u of them as AccVGPRs",
                  operand.kind == OperandKind::Vgpr ? 'v' : 'a', operand.index, kernel_.vgprs, accvgprs_);
    return "`" + disassemble(kernel_.object->target, instruction) + where + rest;
  }

  const Kernel& kernel_;
  std::uint32_t accvgprs_;
  std::bitset<512> vector_, acc_;  // registers of the unified file that have been named as v and as a
};

// The executor keeps v and a in two files. Where a kernel names one register both ways, the vector name is turned into
// the other one.
bool unify(Operand& operand, std::uint32_t accum_offset) {
  if (operand.kind != OperandKind::Vgpr || operand.index + operand.dwords <= accum_offset) return true;
  if (operand.index < accum_offset) return false;  // half of it in each file
  operand.kind = OperandKind::Accvgpr;
  operand.index = static_cast<std::uint16_t>(operand.index - accum_offset);
  return true;
}

}  // namespace

std::string check_registers(const Kernel& kernel, std::vector<Instruction>& code, std::uint32_t begin,
                            std::uint32_t end) {
  RegisterCheck check(kernel);
  const auto each = [&](auto visit) {
    std::string problem;
    for (std::uint32_t at = begin / 4; at < end / 4 && at < code.size() && problem.empty();
         at += std::max<std::uint32_t>(code[at].dwords, 1))
      if (code[at].execute) problem = visit(code[at]);
    return problem;
  };
  std::string problem = each([&](Instruction& instruction) { return check.look(instruction); });
  if (!problem.empty() || !check.overlap()) return problem;
  return each([&](Instruction& instruction) {
    const Instruction before = instruction;
    bool whole = true;
    for (Operand& operand : instruction.destination) whole = unify(operand, kernel.accum_offset) && whole;
    for (Operand& operand : instruction.source) whole = unify(operand, kernel.accum_offset) && whole;
    bind(kernel.object->target, instruction);
    return whole ? std::string()
                 : "`" + disassemble(kernel.object->target, before) +
                       "` names registers on both sides of accum_offset " + std::to_string(kernel.accum_offset);
  });
}

}  // namespace apb::emu
