#include "machine/profile/pmc.h"

#include <algorithm>
#include <array>

#include "machine/output/json.h"

namespace apb::emu {
namespace {

// Names with these beginnings are no counters of rocprofv3 for these targets. The longest beginning that fits gives the reason.
constexpr AbsentCounters kAbsent[] = {
    {"CPC_", "the device has no command processor"},
    {"CPF_", "the device has no command processor"},
    {"CPG_", "the device has no command processor"},
    {"GCEA_", "the device has no memory controllers"},
    {"GRBM_", "the device has no register bus; GRBM_GUI_ACTIVE and GRBM_COUNT are estimated"},
    {"SPI_", "the device has no workgroup dispatcher of the card's; occupancy is in EMU_OCCUPANCY_..."},
    {"SQC_ICACHE_", "the device fetches no instructions through a cache"},
    {"SQC_TC_", "of the scalar cache only SQC_TC_DATA_READ_REQ is modelled"},
    {"SQC_DCACHE_",
     "of the scalar cache only its requests by size are counted: SQC_DCACHE_REQ_READ_..., SQC_DCACHE_ATOMIC"},
    {"SQ_IFETCH", "the device fetches no instructions through a cache"},
    {"SQ_ACCUM_PREV", "it is a register for other counters"},
    {"SQ_LEVEL_WAVES", "there is no time to take samples in; MeanOccupancyPerCU is estimated"},
    {"SQ_INST_LEVEL_", "there is no time to take samples in; EMU_WAIT_..._CYCLES say what waves wait for"},
    {"SQ_WAIT_INST_", "the estimate lets a wave issue alone; SQ_WAIT_ANY and EMU_WAIT_..._CYCLES are there"},
    {"SQ_INSTS_VSKIPPED", "skipped instructions are not seen"},
    {"SQ_INSTS_VALU_FLOPS_",
     "whether it counts lanes that are off is not published; SQ_INSTS_VALU_ADD_F32 and its kin are there"},
    {"SQ_INSTS_VALU_IOPS", "which instructions it counts is not published"},
    {"SQ_INSTS_FLAT_NO_LDS", "it depends on when the card looks"},
    {"SQ_LDS_MEM_VIOLATIONS", "an access beyond LDS ends the launch, or is a finding (AITER_PREBUILT_EMULATOR_CHECKS)"},
    {"SQ_WAVES_", "waves are neither saved nor restored here"},
    {"SQ_BUSY_CYCLES", "shader engines have no time of their own; SQ_BUSY_CU_CYCLES is estimated"},
    {"SQ_CYCLES", "shader engines have no time of their own; GRBM_GUI_ACTIVE is estimated"},
    {"SQ_", "there is nothing here that it could count"},
    {"TA_", "the address unit has no time of its own; its wavefronts are counted"},
    {"TD_", "the data unit has no time of its own; its wavefronts are counted"},
    {"TCP_", "the vector cache is modelled as one that loses nothing: no stalls, translations or memory types"},
    {"TCC_", "L2 is modelled as one that loses nothing: no stalls, probes, evictions or memory types"},
    {"TCA_", "the device has no L2 arbiter"},
    {"ALUStalledByLDS", "stalls of units are not modelled"},
    {"MemUnit", "stalls of units are not modelled"},
    {"GPU_UTIL", "it is always 100 here: nothing else is on the device"},
    {"LdsLatency", "there is no time to take samples in"},
    {"SmemLatency", "there is no time to take samples in"},
    {"VmemLatency", "there is no time to take samples in"},
    {"InstrFetchLatency", "the device fetches no instructions through a cache"},
    {"BANDWIDTH_EA", "of bandwidth only the bytes are modelled: FETCH_SIZE, WRITE_SIZE"},
    {"RDC_OPS_", "divide TOTAL_16_OPS and its kin by GRBM_COUNT"},
};

std::string_view without_sum(std::string_view name) {
  constexpr std::string_view kSum = "_sum";
  const bool memory =
      name.starts_with("TA_") || name.starts_with("TD_") || name.starts_with("TCP_") || name.starts_with("TCC_");
  if (memory && name.ends_with(kSum)) name.remove_suffix(kSum.size());
  return name;
}

std::string_view exactness_word(Exactness exactness) { return exactness == Exactness::Exact ? "exact" : "modelled"; }

}  // namespace

unsigned target_bit(Target target) { return target == Target::Gfx942 ? kOnGfx942 : kOnGfx950; }

std::span<const AbsentCounters> absent_counters() { return kAbsent; }

std::vector<const PmcCounter*> pmc_counters() {
  std::vector<const PmcCounter*> all;
  for (const std::span<const PmcCounter> table : {sq_counters(), memory_counters(), derived_counters()})
    for (const PmcCounter& one : table) all.push_back(&one);
  return all;
}

const PmcCounter* find_pmc(std::string_view name, std::string& problem) {
  const std::string_view plain = without_sum(name);
  for (const PmcCounter* one : pmc_counters())
    if (one->name == plain) return one;
  const AbsentCounters* why = nullptr;
  for (const AbsentCounters& one : kAbsent)
    if (plain.starts_with(one.begin) && (why == nullptr || one.begin.size() > why->begin.size())) why = &one;
  problem = why != nullptr ? "a counter that this device has (" + std::string(why->reason) + ")"
                           : std::string("a counter of rocprofv3 for gfx942 or gfx950");
  problem += "; aiter-prebuilt-emulator counters lists them";
  return nullptr;
}

std::string pmc_json() {
  std::string out = "{\"version\": 1, \"counters\": [";
  const char* separator = "";
  for (const PmcCounter* one : pmc_counters()) {
    out += separator;
    out += "{\"name\": " + json_text(one->name) + ", \"exactness\": " + json_text(exactness_word(one->exactness)) +
           ", \"targets\": [";
    if (one->targets & kOnGfx942) out += "\"gfx942\"";
    if (one->targets == kOnBoth) out += ", ";
    if (one->targets & kOnGfx950) out += "\"gfx950\"";
    out += "], \"meaning\": " + json_text(one->meaning) + "}";
    separator = ", ";
  }
  out += "], \"absent\": [";
  separator = "";
  for (const AbsentCounters& one : kAbsent) {
    out += separator;
    out += "{\"names\": " + json_text(one.begin) + ", \"reason\": " + json_text(one.reason) + "}";
    separator = ", ";
  }
  return out + "]}";
}

}  // namespace apb::emu
