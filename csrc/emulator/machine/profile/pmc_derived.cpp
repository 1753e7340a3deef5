// rocprofv3's derived counters, by its expressions, and what this device knows beyond a card.
#include "machine/profile/pmc.h"
#include "machine/profile/profile.h"

namespace apb::emu {
namespace {

using enum Exactness;

constexpr double kSimdsOfUnit = 4, kWavesOfUnit = 32, kEnginesOfXcc = 4;

double number(std::uint64_t value) { return static_cast<double>(value); }
template <Event... E> double sum(const LaunchProfile& l) { return number((l.sums[E] + ...)); }
double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }
double cycles(const LaunchProfile& l) { return number(l.timing.cycles); }
double units(const LaunchProfile& l) { return l.compute_units; }
double waves(const LaunchProfile& l) { return sum<Event::Waves>(l); }
// The share of all compute units' time.
double share(double of_unit_cycles, const LaunchProfile& l) {
  return ratio(100 * of_unit_cycles, cycles(l) * units(l));
}

template <Event Fma, Event Add, Event Mul, Event... Others> double operations(const LaunchProfile& l) {
  return (2 * sum<Fma>(l) + sum<Add, Mul, Others...>(l)) * 64;
}
double mean_waves(const LaunchProfile& l) { return ratio(number(l.timing.wave_cycles), cycles(l) * units(l)); }
double limit(std::uint32_t groups) { return groups == Occupancy::kNoLimit ? -1.0 : groups; }

constexpr PmcCounter kTable[] = {
    {"CU_NUM", Exact, kOnBoth, "compute units of the device", units},
    {"SIMD_NUM", Exact, kOnBoth, "four for each", [](const LaunchProfile& l) { return units(l) * kSimdsOfUnit; }},
    {"SE_NUM", Exact, kOnBoth, "shader engines, four for each XCD",
     [](const LaunchProfile& l) { return xccs_of(l.compute_units) * kEnginesOfXcc; }},
    {"MAX_WAVE_SIZE", Exact, kOnBoth, "64", [](const LaunchProfile&) { return 64.0; }},
    {"SQ_WAVES_sum", Exact, kOnBoth, "SQ_WAVES", waves},
    {"MfmaFlops", Exact, kOnBoth,
     "512 times the MOPS of f16, bf16, f32 and f64: not those of 8 bits and less, as in rocprofv3",
     sum<Event::OperationsF16, Event::OperationsBf16, Event::OperationsF32, Event::OperationsF64>},
    {"MfmaFlopsF16", Exact, kOnBoth, "of f16", sum<Event::OperationsF16>},
    {"MfmaFlopsBF16", Exact, kOnBoth, "of bf16", sum<Event::OperationsBf16>},
    {"MfmaFlopsF32", Exact, kOnBoth, "of f32", sum<Event::OperationsF32>},
    {"MfmaFlopsF64", Exact, kOnBoth, "of f64", sum<Event::OperationsF64>},
    {"TOTAL_16_OPS", Exact, kOnBoth, "operations on 16 bits, vector instructions with all lanes taken as on",
     [](const LaunchProfile& l) {
       return operations<Event::FmaF16, Event::AddF16, Event::MulF16, Event::TransF16>(l) +
              sum<Event::OperationsF16, Event::OperationsBf16>(l);
     }},
    {"TOTAL_32_OPS", Exact, kOnBoth, "operations on 32 bits",
     [](const LaunchProfile& l) {
       return operations<Event::FmaF32, Event::AddF32, Event::MulF32, Event::TransF32, Event::Int32>(l) +
              sum<Event::OperationsF32>(l);
     }},
    {"TOTAL_64_OPS", Exact, kOnBoth, "operations on 64 bits",
     [](const LaunchProfile& l) {
       return operations<Event::FmaF64, Event::AddF64, Event::MulF64, Event::Int64>(l) + sum<Event::OperationsF64>(l);
     }},
    {"VFetchInsts", Exact, kOnBoth, "vector loads without those of the FLAT encoding, for each wave",
     [](const LaunchProfile& l) { return ratio(sum<Event::VmemRead>(l) - sum<Event::FlatRead>(l), waves(l)); }},
    {"VWriteInsts", Exact, kOnBoth, "vector stores without those of the FLAT encoding, for each wave",
     [](const LaunchProfile& l) { return ratio(sum<Event::VmemWrite>(l) - sum<Event::FlatWrite>(l), waves(l)); }},
    {"LdsBankConflict", Exact, kOnBoth, "conflict cycles for each cycle of LDS without one",
     [](const LaunchProfile& l) {
       return ratio(sum<Event::LdsConflicts>(l), sum<Event::LdsPhases, Event::LdsSame>(l));
     }},
    {"LDSBankConflict", Modelled, kOnBoth, "percent of the launch's estimated time that LDS has conflicts",
     [](const LaunchProfile& l) { return share(sum<Event::LdsConflicts>(l), l); }},
    {"VALUUtilization", Modelled, kOnBoth, "percent of lanes that are on, weighted by issue cycles",
     [](const LaunchProfile& l) { return ratio(100 * sum<Event::ThreadCycles>(l), sum<Event::CyclesValu>(l) * 64); }},
    {"VALUBusy", Modelled, kOnBoth, "percent of estimated time in which vector instructions are issued",
     [](const LaunchProfile& l) { return share(sum<Event::CyclesValu>(l) / kSimdsOfUnit, l); }},
    {"SALUBusy", Modelled, kOnBoth, "percent of estimated time in which scalar instructions are issued",
     [](const LaunchProfile& l) { return share(sum<Event::CyclesSalu>(l) / kSimdsOfUnit, l); }},
    {"MfmaUtil", Modelled, kOnBoth, "percent of estimated time that the matrix pipes are busy",
     [](const LaunchProfile& l) { return share(sum<Event::MatrixBusy>(l) / kSimdsOfUnit, l); }},
    {"OccupancyPercent", Modelled, kOnBoth, "waves on the device over estimated time, of 32 for each compute unit",
     [](const LaunchProfile& l) { return 100 * mean_waves(l) / kWavesOfUnit; }},
    {"MeanOccupancyPerCU", Modelled, kOnBoth, "waves of a compute unit over estimated time", mean_waves},
    {"MeanOccupancyPerActiveCU", Modelled, kOnBoth, "waves of a compute unit while it has any",
     [](const LaunchProfile& l) { return ratio(number(l.timing.wave_cycles), number(l.timing.unit_cycles)); }},
    {"SIMD_UTILIZATION", Modelled, kOnBoth, "part of estimated time in which compute units have waves",
     [](const LaunchProfile& l) { return ratio(number(l.timing.unit_cycles), cycles(l) * units(l)); }},

    {"EMU_READ_BYTES_WANTED", Exact, kOnBoth, "bytes that lanes load from global memory; atomics too",
     sum<Event::ReadWanted>},
    {"EMU_WRITE_BYTES_WANTED", Exact, kOnBoth, "bytes that lanes store to global memory; atomics too",
     sum<Event::WriteWanted>},
    {"EMU_SCRATCH_BYTES", Exact, kOnBoth, "bytes that lanes move from and to scratch", sum<Event::ScratchBytes>},
    {"EMU_BYTES_TOUCHED", Exact, kOnBoth, "64 times the different 64 bytes of each vector memory instruction",
     [](const LaunchProfile& l) { return 64 * sum<Event::Halves>(l); }},
    {"EMU_LINES_TOUCHED", Exact, kOnBoth, "different lines of 128 bytes of each vector memory instruction, summed",
     sum<Event::Lines>},
    {"EMU_COALESCING_PERCENT", Exact, kOnBoth, "bytes wanted of bytes touched; above 100 where lanes share bytes",
     [](const LaunchProfile& l) {
       return ratio(100 * (sum<Event::ReadWanted, Event::WriteWanted>(l)),
                    64 * sum<Event::Halves, Event::HalvesAtomic, Event::HalvesAtomicReturning>(l));
     }},
    {"EMU_WORKGROUP_LINES_READ", Exact, kOnBoth,
     "different lines of 128 bytes that vector loads and atomics of a workgroup touch, summed over workgroups",
     sum<Event::GroupLinesRead>},
    {"EMU_WORKGROUP_64B_WRITTEN", Exact, kOnBoth,
     "different 64 bytes that a workgroup stores to, summed over workgroups", sum<Event::GroupHalvesWritten>},
    {"EMU_LAUNCH_LINES_READ", Exact, kOnBoth, "different lines of 128 bytes that the launch loads",
     [](const LaunchProfile& l) { return number(l.launch_read.lines); }},
    {"EMU_HBM_READ_BYTES", Exact, kOnBoth, "128 times those: what must come from memory when no cache has it",
     [](const LaunchProfile& l) { return 128 * number(l.launch_read.lines); }},
    {"EMU_HBM_WRITE_BYTES", Exact, kOnBoth,
     "32 times the different 32 bytes that the launch stores to: what must go to memory",
     [](const LaunchProfile& l) { return 32 * number(l.launch_written.sectors); }},
    {"EMU_DIRECT_LDS_BANK_CONFLICT", Exact, kOnBoth, "the part of SQ_LDS_BANK_CONFLICT that loads to LDS have",
     sum<Event::DirectConflicts>},
    {"EMU_WAIT_VMCNT_CYCLES", Modelled, kOnBoth, "cycles that waves wait for vector memory, by the estimate",
     sum<Event::WaitVector>},
    {"EMU_WAIT_LGKMCNT_CYCLES", Modelled, kOnBoth, "for LDS and scalar memory", sum<Event::WaitLds>},
    {"EMU_WAIT_BARRIER_CYCLES", Modelled, kOnBoth, "at s_barrier, for the workgroup's other waves",
     sum<Event::WaitBarrier>},
    {"EMU_WAIT_MFMA_CYCLES", Modelled, kOnBoth, "for the matrix pipe to be free", sum<Event::WaitMatrix>},
    {"EMU_OCCUPANCY_WORKGROUPS", Exact, kOnBoth, "workgroups that a compute unit holds at a time",
     [](const LaunchProfile& l) { return limit(l.occupancy.workgroups); }},
    {"EMU_OCCUPANCY_BY_WAVES", Exact, kOnBoth, "were waves all that counts",
     [](const LaunchProfile& l) { return limit(l.occupancy.by_waves); }},
    {"EMU_OCCUPANCY_BY_REGISTERS", Exact, kOnBoth, "were registers all that counts, VGPRs and AGPRs together",
     [](const LaunchProfile& l) { return limit(l.occupancy.by_registers); }},
    {"EMU_OCCUPANCY_BY_LDS", Exact, kOnBoth, "were LDS all that counts; -1: it uses none",
     [](const LaunchProfile& l) { return limit(l.occupancy.by_lds); }},
    {"EMU_OCCUPANCY_BY_BARRIERS", Exact, kOnBoth, "were barriers all that counts; -1: groups of one wave need none",
     [](const LaunchProfile& l) { return limit(l.occupancy.by_barriers); }},
};

}  // namespace

std::span<const PmcCounter> derived_counters() { return kTable; }

}  // namespace apb::emu
