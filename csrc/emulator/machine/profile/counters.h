// Counters of kernels, per launch and per kernel. The API of apb_emulator.h and the JSON file read from here.
#pragma once

#include <cstdint>
#include <string>

#include "execute/wave.h"
#include "machine/schedule/occupancy.h"

namespace apb::emu {

struct LaunchRecord {
  std::string kernel;
  int device = 0;
  std::uint32_t grid[3] = {}, block[3] = {};
  std::uint64_t waves = 0;
  double seconds = 0;
  Occupancy occupancy;
  Counters counters;
};

void record_launch(
    const LaunchRecord& record);  // adds to the totals of its kernel and remembers the last launches (bounded)
std::string counters_json();      // {"version": 2, "kernels": [...], "launches": [...]}
void reset_counters();
void write_counters_at_exit();  // when the configuration names a file: without a launch too

}  // namespace apb::emu
