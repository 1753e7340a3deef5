// The configuration of the emulated machine. It is read once from the environment, at the first call of the library.
//   AITER_PREBUILT_EMULATOR            devices, comma separated: gfx942 | gfx950, each with options: gfx942:cus=80:memory=8G
//                                      (default: one gfx942). cus: 304 for gfx942, 256 for gfx950 unless said.
//   ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, CUDA_VISIBLE_DEVICES   which of them a program sees, and in which order (visible.h)
//   AITER_PREBUILT_EMULATOR_THREADS    host threads for workgroups (default: the cores this process may use)
//   AITER_PREBUILT_EMULATOR_CHECKS     comma separated: all | none | lds | races | hazards | alignment (default none; addresses are always checked)
//                                      and a level, strict | report | permissive | continue: see CheckLevel
//   AITER_PREBUILT_EMULATOR_KNOWN      findings to pass over, separated by blanks: CHECK:0xOFFSET:KERNEL or CHECK:0xFIRST-0xLAST:KERNEL, offsets
//                                      of instructions in the kernel's code as a finding's message says them (code+0x6cc)
//   AITER_PREBUILT_EMULATOR_LIMIT      instructions per wave before a launch is stopped (default 2^33; 0: no limit)
//   AITER_PREBUILT_EMULATOR_FILL       a byte, 0x00 to 0xff, that memory allocated on a stream is full of at first (default: zeros, as all else);
//                                      0xff makes NaN of what a kernel reads of its workspace and nobody wrote
//   AITER_PREBUILT_EMULATOR_LOG        error (default) | warning | info | trace, or off; trace prints every instruction
//   AITER_PREBUILT_EMULATOR_TRACE      which instructions are printed with their registers' values: trace_filter.h has its grammar
//   AITER_PREBUILT_EMULATOR_TRACE_FILE where to; %p is the process. Default: standard error
//   AITER_PREBUILT_EMULATOR_DEBUG      a Unix socket at which a debugger waits (aiter-prebuilt-emulator debug sets it)
//   AITER_PREBUILT_EMULATOR_COUNTERS   a file: counters as JSON at exit
//   AITER_PREBUILT_EMULATOR_TIMING     a file: what the timing model says of each launch, as JSON at exit
//   AITER_PREBUILT_EMULATOR_SAMPLE     with it: only so many workgroups of each launch are executed, so that results are wrong
//   AITER_PREBUILT_EMULATOR_PMC        rocprofv3's counters, comma separated, for each launch
//   AITER_PREBUILT_EMULATOR_PMC_OUTPUT where their files begin: DIR/NAME; "%pid%" becomes the process's number
//   AITER_PREBUILT_EMULATOR_PMC_FORMAT csv (default) | json | csv,json
//   AITER_PREBUILT_EMULATOR_PMC_INCLUDE, _EXCLUDE   extended regular expressions (POSIX): of which kernels, for the timeline too
//   AITER_PREBUILT_EMULATOR_PERFETTO   a file: the waves' timeline, for Perfetto, at exit; "%pid%" as above
//   AITER_PREBUILT_EMULATOR_VECTORS    avx2 | avx512: the processor's vectors that matrix instructions use (default: the widest that it has)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "execute/processor.h"
#include "isa/instruction.h"
#include "machine/settings/trace_filter.h"

namespace apb::emu {

struct DeviceConfiguration {
  std::uint32_t number = 0;  // of the machine, whatever of it is visible: what its UUID and bus are made of
  Target target = Target::Gfx942;
  std::uint32_t compute_units = 304;
  std::uint64_t memory = 16ull << 30;
};

// The effect of a finding. Each level passes over all that the one before does. A passed finding is a line of the log, once per
// instruction, and counted.
enum class CheckLevel : std::uint8_t {
  Strict,      // it ends the launch
  Report,      // what the switched checks find does not: a card would not notice
  Permissive,  // what a card lets pass does not: LDS beyond the allocation reads 0 and drops writes, allocations end at their 512 bytes
  Continue,    // nor does an access to memory that is not there: it reads 0, and is not done
};

struct CheckSwitches {
  bool lds = false, races = false, hazards = false, alignment = false;
  CheckLevel level = CheckLevel::Strict;
  bool any() const { return lds || races || hazards || alignment; }
};

// Instructions of somebody else's code at which what a check finds is known, and passed over.
struct KnownFinding {
  std::string check;  // as in AITER_PREBUILT_EMULATOR_CHECKS
  std::uint64_t first = 0, last = 0;
  std::string kernel;
};

struct ProfileConfiguration {
  std::vector<std::string> counters;  // all of them known, each on one of the devices
  std::string output, timeline;       // beginnings of files, empty: none
  std::string include, exclude;       // regular expressions for kernels' names, empty: all, none
  bool csv = true, json = false;
  bool on() const { return !counters.empty() || !timeline.empty(); }
};

enum class LogLevel : std::uint8_t { Off, Error, Warning, Info, Trace };

struct Configuration {
  std::vector<DeviceConfiguration> devices;
  unsigned threads = 1;
  CheckSwitches checks;
  std::vector<KnownFinding> known;
  std::uint64_t instruction_limit = 1ull << 33;
  std::uint64_t patience = 30;   // seconds after which a launch that is not at its end goes on beside the program
  bool launch_blocking = false;  // HIP_LAUNCH_BLOCKING: every launch is at its end when its call returns
  std::uint8_t fill = 0;         // of memory that is allocated on a stream
  LogLevel log = LogLevel::Error;
  std::string counters_file;
  std::string timing_file;          // not empty: launches are timed by the model
  std::uint64_t timing_sample = 0;  // workgroups of a launch that are executed at all; 0: all of them
  ProfileConfiguration profile;
  TraceFilter trace;
  std::string trace_file;
  std::string debug_socket;
  Vectors vectors = processor_vectors();
  std::string problem;  // not empty: the environment is wrong; hipInit returns hipErrorInvalidValue... and logs it once
};

const Configuration& configuration();
// Pure, for tests: reads from a lookup function.
Configuration read_configuration(const char* (*lookup)(const char* name));

// One line on standard error, "aiter-prebuilt-emulator: ...", when `level` is enabled.
[[gnu::format(printf, 2, 3)]] void log(LogLevel level, const char* format, ...);

}  // namespace apb::emu
