#include "machine/load/program.h"

#include "isa/decode.h"

namespace apb::emu {

std::vector<Instruction> decode_program(Target target, std::span<const std::uint32_t> code,
                                        std::span<const std::uint32_t> starts) {
  std::vector<Instruction> records(code.size());
  auto start = starts.begin();
  for (std::size_t at = 0; at < code.size();) {
    while (start != starts.end() && *start <= at) ++start;
    const std::size_t end = start != starts.end() && *start < code.size() ? *start : code.size();
    // An instruction never runs over the start of a function.
    Instruction& record = records[at];
    if (decode(target, code.subspan(at, end - at), static_cast<std::uint32_t>(at * 4), record)) {
      bind(target, record);
      at += record.dwords ? record.dwords : 1;
    } else {
      record.address = static_cast<std::uint32_t>(at * 4);
      ++at;
    }
  }
  return records;
}

}  // namespace apb::emu
