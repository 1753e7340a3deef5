// The waits, bank conflicts and bytes of each place in a kernel's code. An author changes these next.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "machine/load/code_object.h"

namespace apb::emu {

struct Site {
  std::uint64_t executed = 0, wait_cycles = 0, lds_conflicts = 0, bytes_wanted = 0, bytes_touched = 0;
  bool says_something() const { return wait_cycles + lds_conflicts + bytes_touched != 0; }
  void add(const Site& more);
};
// By the instruction's offset in the code, as findings have it.
using Sites = std::unordered_map<std::uint32_t, Site>;

// The sites of one kernel, over its launches.
class KernelSites {
 public:
  void add(const Kernel& kernel, const Sites& sites);
  // [{"offset", "instruction", "executed", ...}] in the code's order; of many those with the most cycles.
  std::string json() const;

 private:
  struct Named {
    std::string instruction;
    Site site;
  };
  std::map<std::uint32_t, Named> sites_;
};

}  // namespace apb::emu
