// Queries of a debugger about stopped waves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/debug/debug_state.h"

namespace apb::emu {

// Each writes fields of a JSON object with a comma before them to `out`, or returns false with `problem`. `serial`: of a workgroup,
// `number`: of a wave in it.
struct DebugLook {
  const std::vector<LiveGroup*>& live;
  std::string out, problem;

  bool waves();
  bool frames(std::uint64_t serial, std::uint64_t number);
  bool scalars(std::uint64_t serial, std::uint64_t number);
  bool rows(std::uint64_t serial, std::uint64_t number, std::uint64_t first, std::uint64_t count);
  bool lds(std::uint64_t serial, std::uint64_t address, std::uint64_t count);
  bool memory(std::uint64_t address, std::uint64_t count);
  bool code(std::uint64_t address, std::uint64_t before, std::uint64_t count);
  bool files();

 private:
  const LiveGroup* group_of(std::uint64_t serial);
  const LiveGroup::Seat* seat_of(std::uint64_t serial, std::uint64_t number);
  bool fail(std::string text);
};

}  // namespace apb::emu
