// Source lines of instructions, for messages. machine/ reads them from the code object on demand.
#pragma once

#include <cstdint>
#include <string>

namespace apb::emu {

class Lines {
 public:
  virtual ~Lines() = default;
  // "/home/me/x.hip:12 in twice, inlined at /home/me/x.hip:30 in kernel" of the instruction at `offset` in the code; empty: not known.
  virtual std::string text(std::uint32_t offset) const = 0;
};

}  // namespace apb::emu
