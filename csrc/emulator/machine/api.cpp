// The C entry points of apb_emulator.h. Nothing gets out of here but values: every exception ends as an error text or a
// null.
#include "apb_emulator.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "isa/decode.h"
#include "machine/check/checks.h"
#include "machine/load/code_object.h"
#include "machine/load/kernels.h"
#include "machine/load/program.h"
#include "machine/memory/allocations.h"
#include "machine/output/json.h"
#include "machine/profile/counters.h"
#include "machine/profile/pmc.h"
#include "machine/settings/configuration.h"

namespace apb::emu {
namespace {

constexpr const char* kVersion = "1";
constexpr std::uint32_t kSEndpgm = 0xbf810000u;
constexpr std::uint32_t kScratchPerLane = 4096;

char* owned(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

bool target_of(int number, Target& target) {
  target = number == 950 ? Target::Gfx950 : Target::Gfx942;
  return number == 942 || number == 950;
}

std::string coverage_json(std::span<const std::uint8_t> image) {
  Target target{};
  std::vector<CoverageRow> rows;
  std::string problem;
  if (!code_object_coverage(image, target, rows, problem))
    return "{\"version\": 1, \"error\": " + json_text(problem) + "}";
  std::string out = "{\"version\": 1, \"target\": " + json_text(name(target)) + ", \"instructions\": [";
  const char* separator = "";
  for (const CoverageRow& row : rows) {
    out += separator + ("{\"mnemonic\": " + json_text(row.mnemonic)) + ", \"count\": " + std::to_string(row.count) +
           ", \"decoded\": " + (row.decoded ? "true" : "false") +
           ", \"executable\": " + (row.executable ? "true" : "false") + "}";
    separator = ", ";
  }
  return out + "]}";
}

// Everything that one wave needs around it.
struct LoneWave {
  Workgroup group;
  Wave wave;
  Counters counters;
  std::vector<std::uint32_t> code;
  std::vector<Instruction> program;
  std::vector<std::uint8_t> scratch;
  std::shared_ptr<const Memory> memory;
  std::unique_ptr<GroupObserver> checks;

  LoneWave(Target target, std::span<const std::uint32_t> words, const apb_wave_state& state)
      : code(words.begin(), words.end()),
        scratch(std::size_t{kScratchPerLane} * kLanes),
        memory(Allocations::instance().snapshot(0)) {
    code.push_back(kSEndpgm);  // running off the end is how a test's code ends
    program = decode_program(target, code, {});
    for (std::size_t i = 0; i + 4 <= scratch.size(); i += 4) std::memcpy(&scratch[i], &kPoison, 4);
    group.lds = state.lds;
    group.lds_bytes = state.lds ? state.lds_bytes : 0;
    group.shared_base = kSharedAperture;
    group.private_base = kPrivateAperture;
    group.waves = 1;
    checks = make_workgroup_checks(configuration().checks, 1, group.lds_bytes);
    wave.target = target;
    wave.group = &group;
    wave.code_base = reinterpret_cast<std::uint64_t>(code.data());
    wave.code_dwords = static_cast<std::uint32_t>(code.size());
    wave.memory = memory.get();
    wave.scratch = scratch.data();
    wave.scratch_bytes = kScratchPerLane;
    wave.counters = &counters;
    wave.observer = checks ? checks->of_wave(0) : nullptr;
  }
};

void run_alone(LoneWave& alone, std::uint64_t limit) {
  Wave& wave = alone.wave;
  while (true) {
    run(wave, alone.program.data(), limit - wave.executed);
    if (wave.stop == Stop::Fault || wave.stop == Stop::Ended) return;
    if (wave.stop == Stop::Barrier && alone.checks) alone.checks->barrier();  // the only wave is the last to arrive
    if (wave.executed >= limit) {
      raise(wave, FaultKind::InstructionLimit, -1, "%llu instructions", static_cast<unsigned long long>(limit));
      return;
    }
    wave.stop = Stop::None;
  }
}

int run_wave(Target target, std::span<const std::uint32_t> code, apb_wave_state& state, std::uint64_t limit,
             std::string& message) {
  LoneWave alone(target, code, state);
  Wave& wave = alone.wave;
  wave.vector = state.vector;
  std::copy(std::begin(state.scalar), std::end(state.scalar), wave.scalar);
  wave.scc = state.scc != 0;
  wave.mode.bits = state.mode;
  wave.pc = state.pc;
  run_alone(alone, limit ? limit : UINT64_MAX);
  std::copy(std::begin(wave.scalar), std::end(wave.scalar), state.scalar);
  state.scc = wave.scc;
  state.mode = wave.mode.bits;
  state.pc = wave.pc;
  message = wave.fault.text;
  return wave.stop == Stop::Fault ? static_cast<int>(wave.fault.kind) : 0;
}

}  // namespace
}  // namespace apb::emu

using namespace apb::emu;

extern "C" {

void apb_emulator_free(char* text) { std::free(text); }

const char* apb_emulator_version(void) { return kVersion; }

char* apb_emulator_coverage(const void* image, size_t bytes) try {
  if (!image) bytes = 0;
  return owned(coverage_json({static_cast<const std::uint8_t*>(image), bytes}));
} catch (const std::exception& error) {
  log(LogLevel::Error, "apb_emulator_coverage: %s", error.what());
  return nullptr;
}

char* apb_emulator_metadata(const void* image, size_t bytes) try {
  if (!image) bytes = 0;
  return owned(metadata_json({static_cast<const std::uint8_t*>(image), bytes}));
} catch (const std::exception& error) {
  log(LogLevel::Error, "apb_emulator_metadata: %s", error.what());
  return nullptr;
}

char* apb_emulator_pmc(void) try { return owned(pmc_json()); } catch (const std::exception& error) {
  log(LogLevel::Error, "apb_emulator_pmc: %s", error.what());
  return nullptr;
}

char* apb_emulator_counters(void) try { return owned(counters_json()); } catch (const std::exception& error) {
  log(LogLevel::Error, "apb_emulator_counters: %s", error.what());
  return nullptr;
}

void apb_emulator_reset_counters(void) try { reset_counters(); } catch (const std::exception& error) {
  log(LogLevel::Error, "apb_emulator_reset_counters: %s", error.what());
}

char* apb_emulator_disassemble(int target_number, const uint32_t* code, size_t dwords_available, uint32_t address,
                               uint32_t* dwords) try {
  Target target{};
  if (dwords) *dwords = 0;
  if (!target_of(target_number, target))
    return owned("target " + std::to_string(target_number) + " is neither 942 nor 950");
  Instruction instruction;
  if (!code || !decode(target, {code, code ? dwords_available : 0}, address, instruction)) {
    char text[64];
    if (!code || dwords_available == 0) return owned("no code");
    std::snprintf(text, sizeof text, "unknown instruction 0x%08x", code[0]);
    return owned(text);
  }
  if (dwords) *dwords = instruction.dwords;
  return owned(disassemble(target, instruction));
} catch (const std::exception& error) {
  log(LogLevel::Error, "apb_emulator_disassemble: %s", error.what());
  return nullptr;
}

int apb_emulator_run_wave(int target_number, const uint32_t* code, size_t dwords, apb_wave_state* state, uint64_t limit,
                          char** message) try {
  if (message) *message = nullptr;
  Target target{};
  std::string text;
  int kind = -1;  // no fault of the wave: the call itself is wrong
  if (!target_of(target_number, target))
    text = "target " + std::to_string(target_number) + " is neither 942 nor 950";
  else if (!code || !state)
    text = "no code or no state";
  else
    kind = run_wave(target, {code, dwords}, *state, limit, text);
  if (message && kind != 0) *message = owned(text);
  return kind;
} catch (const std::exception& error) {
  log(LogLevel::Error, "apb_emulator_run_wave: %s", error.what());
  return -1;
}

}  // extern "C"
