// Lists the instructions of a code object without loading it.
#include <algorithm>
#include <cstdio>

#include "execute/bind.h"
#include "isa/decode.h"
#include "machine/load/code_object.h"
#include "machine/load/elf.h"
#include "machine/load/fatbin.h"
#include "machine/load/functions.h"

namespace apb::emu {
namespace {

// The fill behind the last kernel of a segment: zeros, and the s_code_end with which LLVM pads for the instruction
// prefetch.
constexpr std::uint32_t kSCodeEnd = 0xbf9f0000u;

using Words = std::vector<std::uint32_t>;

struct Count {
  std::uint64_t count = 0;
  bool decoded = false, executable = false;
};

void count_range(Target target, const Words& words, FunctionRange range, std::map<std::string, Count>& counts) {
  std::size_t end = range.end / 4;
  while (end > range.begin / 4 && (words[end - 1] == 0 || words[end - 1] == kSCodeEnd)) --end;
  for (std::size_t at = range.begin / 4; at < end;) {
    Instruction instruction;
    if (!decode(target, std::span(words).subspan(at, end - at), static_cast<std::uint32_t>(at * 4), instruction)) {
      char text[32];
      std::snprintf(text, sizeof text, "0x%08x", words[at]);
      counts[text].count++;
      ++at;
      continue;
    }
    Count& row = counts[std::string(mnemonic(instruction.opcode))];
    const bool executable = bind(target, instruction);
    row.executable =
        executable && (row.executable || row.count == 0);  // one form that cannot run makes the mnemonic missing
    row.decoded = true;
    row.count++;
    at += std::max<std::size_t>(instruction.dwords, 1);
  }
}

}  // namespace

bool code_object_coverage(std::span<const std::uint8_t> image, Target& target, std::vector<CoverageRow>& rows,
                          std::string& problem) {
  Bytes bytes;
  ElfFile file;
  std::string isa;
  if (!unwrap_any(image, bytes, problem) || !read_elf(bytes, file, problem)) return false;
  if (!target_of(file.flags, target))
    return target_fits(file.flags, target, isa, problem);  // false: it says which target the file is for
  const ElfSegment* code = executable_segment(file);
  if (!code) {
    problem = "the file has no code";
    return false;
  }
  Words words(code->file_bytes / 4);
  std::memcpy(words.data(), bytes.data() + code->offset, words.size() * 4);
  std::vector<FunctionRange> ranges = function_ranges(file, *code);
  if (ranges.empty()) ranges.push_back({0, static_cast<std::uint32_t>(words.size() * 4)});
  std::map<std::string, Count> counts;
  for (const FunctionRange range : ranges) count_range(target, words, range, counts);
  for (const auto& [name, row] : counts) rows.push_back({name, row.count, row.decoded, row.executable});
  return true;
}

}  // namespace apb::emu
