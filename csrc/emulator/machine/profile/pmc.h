// The counters of rocprofv3 that this device has, under its names, and why it lacks the others.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isa/instruction.h"

namespace apb::emu {

struct LaunchProfile;

enum class Exactness : std::uint8_t {
  Exact,     // counts of what was executed: a card counts the same
  Modelled,  // by a rule that its meaning states
};

inline constexpr unsigned kOnGfx942 = 1, kOnGfx950 = 2, kOnBoth = 3;

struct PmcCounter {
  std::string_view name;
  Exactness exactness;
  unsigned targets;
  std::string_view meaning;
  double (*value)(const LaunchProfile& launch);
};

// In the order of the tables: SQ's, the memory's, derived ones, the device's own (EMU_...).
std::vector<const PmcCounter*> pmc_counters();
// Null: `problem` says why, and what there is. A counter of TA, TCP or TCC may be called by its sum: TCC_HIT_sum.
const PmcCounter* find_pmc(std::string_view name, std::string& problem);
// Names that rocprofv3 has and this device does not, by how they begin, with the reason.
struct AbsentCounters {
  std::string_view begin, reason;
};
std::span<const AbsentCounters> absent_counters();
unsigned target_bit(Target target);
// {"version": 1, "counters": [{"name", "exactness", "targets", "meaning"}], "absent": [{"names", "reason"}]}
std::string pmc_json();

// The tables.
std::span<const PmcCounter> sq_counters();
std::span<const PmcCounter> memory_counters();
std::span<const PmcCounter> derived_counters();

}  // namespace apb::emu
