// Counters of the sequencers: instructions, waves, LDS, the matrix pipe, and what the estimate says of time.
#include "machine/profile/pmc.h"
#include "machine/profile/profile.h"

namespace apb::emu {
namespace {

using enum Exactness;

template <Event... E> double sum(const LaunchProfile& l) { return static_cast<double>((l.sums[E] + ...)); }
// Rounded up: "divided by N".
template <Event E, unsigned N>
double each(const LaunchProfile& l) {
  const std::uint64_t whole = (l.sums[E] + N - 1) / N;
  return static_cast<double>(whole);
}
// Cycles of the estimate in the counters' unit of four.
template <Event... E> double quads(const LaunchProfile& l) { return sum<E...>(l) / 4; }
double none(const LaunchProfile&) { return 0; }

#define APB_MATRIX(NAME, KIND, TARGETS)                                                             \
  {"SQ_INSTS_VALU_MFMA_" NAME, Exact, TARGETS, "MFMA and SMFMAC instructions on " NAME " operands", \
   sum<Event::Matrix##KIND>},                                                                       \
  {                                                                                                 \
    "SQ_INSTS_VALU_MFMA_MOPS_" NAME, Exact, TARGETS,                                                \
        "their additions and multiplications, all lanes taken as on, divided by 512",               \
        each<Event::Operations##KIND, 512>                                                          \
  }
#define APB_FLOAT(NAME, EVENT, WHAT)                                                                        \
  {"SQ_INSTS_VALU_" NAME "_F16", Exact, kOnBoth, WHAT " on f16, by mnemonic; a packed one counts once",     \
   sum<Event::EVENT##F16>},                                                                                 \
      {"SQ_INSTS_VALU_" NAME "_F32", Exact, kOnBoth, WHAT " on f32, by mnemonic; a packed one counts once", \
       sum<Event::EVENT##F32>},                                                                             \
  {                                                                                                         \
    "SQ_INSTS_VALU_" NAME "_F64", Exact, kOnBoth, WHAT " on f64, by mnemonic", sum<Event::EVENT##F64>       \
  }

constexpr PmcCounter kTable[] = {
    {"SQ_WAVES", Exact, kOnBoth, "waves that ran", sum<Event::Waves>},
    {"SQ_WAVES_EQ_64", Exact, kOnBoth, "waves that started with 64 work items", sum<Event::WavesOf64>},
    {"SQ_WAVES_LT_64", Exact, kOnBoth, "waves that started with fewer than 64 work items", sum<Event::WavesBelow64>},
    {"SQ_WAVES_LT_48", Exact, kOnBoth, "waves that started with fewer than 48 work items", sum<Event::WavesBelow48>},
    {"SQ_WAVES_LT_32", Exact, kOnBoth, "waves that started with fewer than 32 work items", sum<Event::WavesBelow32>},
    {"SQ_WAVES_LT_16", Exact, kOnBoth, "waves that started with fewer than 16 work items", sum<Event::WavesBelow16>},
    {"SQ_ITEMS", Exact, kOnBoth, "work items of all waves", sum<Event::Items>},
    {"SQ_INSTS", Exact, kOnBoth, "instructions; those that VSKIP skips are none", sum<Event::Instructions>},
    {"SQ_INSTS_VALU", Exact, kOnBoth, "vector ALU instructions, MFMA among them", sum<Event::Valu>},
    {"SQ_INSTS_MFMA", Exact, kOnBoth, "MFMA and SMFMAC instructions", sum<Event::Matrix>},
    APB_MATRIX("F16", F16, kOnBoth),
    APB_MATRIX("BF16", Bf16, kOnBoth),
    APB_MATRIX("F32", F32, kOnBoth),
    APB_MATRIX("F64", F64, kOnBoth),
    APB_MATRIX("I8", I8, kOnBoth),
    APB_MATRIX("F8", F8, kOnBoth),
    APB_MATRIX("XF32", Xf32, kOnGfx950),
    APB_MATRIX("F6F4", F6F4, kOnGfx950),
    APB_FLOAT("ADD", Add, "add and sub"),
    APB_FLOAT("MUL", Mul, "mul"),
    APB_FLOAT("FMA", Fma, "fma, mad and mac"),
    APB_FLOAT("TRANS", Trans, "exp, log, rcp, rsq, sqrt, sin, cos"),
    {"SQ_INSTS_VALU_CVT", Exact, kOnBoth, "v_cvt_*", sum<Event::Convert>},
    {"SQ_INSTS_VALU_INT32", Exact, kOnBoth,
     "vector instructions whose mnemonic ends in u32, i32, u24 or i24, comparisons too", sum<Event::Int32>},
    {"SQ_INSTS_VALU_INT64", Exact, kOnBoth, "those that end in u64 or i64; shifts of b64 are none", sum<Event::Int64>},
    {"SQ_INSTS_SALU", Exact, kOnBoth, "scalar ALU instructions", sum<Event::Salu>},
    {"SQ_INSTS_SMEM", Exact, kOnBoth, "scalar memory instructions", sum<Event::Smem>},
    {"SQ_INSTS_SMEM_NORM", Exact, kOnBoth, "twice that, four times for s_dcache_*",
     [](const LaunchProfile& l) { return 2 * sum<Event::Smem, Event::ScalarCacheControl>(l); }},
    {"SQ_INSTS_BRANCH", Exact, kOnBoth, "branches, calls and jumps", sum<Event::Branch>},
    {"SQ_INSTS_SENDMSG", Exact, kOnBoth, "s_sendmsg and s_endpgm, as on a card", sum<Event::SendMessage>},
    {"SQ_INSTS_GDS", Exact, kOnBoth, "0: neither target has global data share", none},
    {"SQ_INSTS_EXP_GDS", Exact, kOnBoth, "0: neither target exports or has global data share", none},
    {"SQ_INSTS_LDS", Exact, kOnBoth, "ds_*, and flat_* of which a lane reaches LDS", sum<Event::Lds>},
    {"SQ_INSTS_LDS_LOAD", Exact, kOnGfx950, "ds_read_*", sum<Event::LdsLoad>},
    {"SQ_INSTS_LDS_STORE", Exact, kOnGfx950, "ds_write_*", sum<Event::LdsStore>},
    {"SQ_INSTS_LDS_ATOMIC", Exact, kOnGfx950, "all other ds_* that change LDS", sum<Event::LdsAtomic>},
    {"SQ_INSTS_LDS_LOAD_BANDWIDTH", Exact, kOnGfx950, "bytes that lanes read of LDS, divided by 64",
     each<Event::LdsReadBytes, 64>},
    {"SQ_INSTS_LDS_STORE_BANDWIDTH", Exact, kOnGfx950, "bytes that lanes wrote to LDS, divided by 64",
     each<Event::LdsWriteBytes, 64>},
    {"SQ_INSTS_LDS_ATOMIC_BANDWIDTH", Exact, kOnGfx950, "bytes that lanes changed by atomics in LDS, divided by 64",
     each<Event::LdsAtomicBytes, 64>},
    {"SQ_INSTS_FLAT", Exact, kOnBoth, "instructions of the FLAT encoding: flat_*, global_*, scratch_*",
     sum<Event::FlatEncoded>},
    {"SQ_INSTS_FLAT_FLATSEG", Exact, kOnGfx950, "flat_*", sum<Event::FlatSegment>},
    {"SQ_INSTS_VMEM", Exact, kOnBoth, "vector memory instructions: buffer_*, tbuffer_*, flat_*, global_*, scratch_*",
     sum<Event::VmemRead, Event::VmemWrite>},
    {"SQ_INSTS_VMEM_RD", Exact, kOnBoth,
     "vector loads, and atomics that return: where a card counts those is not published", sum<Event::VmemRead>},
    {"SQ_INSTS_VMEM_WR", Exact, kOnBoth, "vector stores, and atomics that return nothing", sum<Event::VmemWrite>},
    {"SQC_DCACHE_REQ_READ_1", Exact, kOnBoth, "scalar loads of one dword", sum<Event::ScalarRead1>},
    {"SQC_DCACHE_REQ_READ_2", Exact, kOnBoth, "scalar loads of 2 dwords", sum<Event::ScalarRead2>},
    {"SQC_DCACHE_REQ_READ_4", Exact, kOnBoth, "scalar loads of 4 dwords", sum<Event::ScalarRead4>},
    {"SQC_DCACHE_REQ_READ_8", Exact, kOnBoth, "scalar loads of 8 dwords", sum<Event::ScalarRead8>},
    {"SQC_DCACHE_REQ_READ_16", Exact, kOnBoth, "scalar loads of 16 dwords", sum<Event::ScalarRead16>},
    {"SQC_DCACHE_ATOMIC", Exact, kOnBoth, "scalar atomics", sum<Event::ScalarAtomic>},
    {"SQ_LDS_BANK_CONFLICT", Exact, kOnBoth,
     "cycles beyond one for each phase of each access, by the lanes' addresses and the measured banks and phases; "
     "loads to LDS too",
     sum<Event::LdsConflicts>},
    {"SQ_LDS_IDX_ACTIVE", Exact, kOnBoth, "phases and all cycles of conflicts",
     sum<Event::LdsPhases, Event::LdsConflicts, Event::LdsSame>},
    {"SQ_LDS_ADDR_CONFLICT", Modelled, kOnBoth,
     "atomics: cycles because lanes of a phase change the same dword, one for each lane beyond the first",
     sum<Event::LdsSame>},
    {"SQ_LDS_UNALIGNED_STALL", Modelled, kOnBoth,
     "flat accesses to LDS with an address that is no multiple of their size, 4 at most: one cycle each",
     sum<Event::LdsUnaligned>},
    {"SQ_LDS_ATOMIC_RETURN", Modelled, kOnBoth, "phases of LDS atomics that return", sum<Event::LdsReturns>},
    {"SQ_VALU_MFMA_BUSY_CYCLES", Modelled, kOnBoth, "cycles of the matrix pipes, by the published passes of each shape",
     sum<Event::MatrixBusy>},
    {"SQ_ACTIVE_INST_VALU", Modelled, kOnBoth,
     "quad-cycles of vector issue: one an instruction, four where a quarter of the ALUs does it",
     quads<Event::CyclesValu>},
    {"SQ_THREAD_CYCLES_VALU", Modelled, kOnBoth, "the same, times lanes that were on", quads<Event::ThreadCycles>},
    {"SQ_ACTIVE_INST_SCA", Modelled, kOnBoth, "quad-cycles of scalar issue",
     quads<Event::CyclesSalu, Event::CyclesSmem>},
    {"SQ_ACTIVE_INST_VMEM", Modelled, kOnBoth, "quad-cycles of buffer_* and tbuffer_* issue", quads<Event::CyclesVmem>},
    {"SQ_ACTIVE_INST_LDS", Modelled, kOnBoth, "quad-cycles of LDS issue", quads<Event::CyclesLds>},
    {"SQ_ACTIVE_INST_FLAT", Modelled, kOnBoth, "quad-cycles of issue of the FLAT encoding", quads<Event::CyclesFlat>},
    {"SQ_ACTIVE_INST_MISC", Modelled, kOnBoth, "quad-cycles of branches, s_sendmsg and s_endpgm",
     quads<Event::CyclesBranch>},
    {"SQ_ACTIVE_INST_ANY", Modelled, kOnBoth, "quad-cycles of issue",
     quads<Event::CyclesValu, Event::CyclesSalu, Event::CyclesSmem, Event::CyclesVmem, Event::CyclesLds,
           Event::CyclesFlat, Event::CyclesBranch>},
    {"SQ_INST_CYCLES_SALU", Modelled, kOnBoth, "quad-cycles of scalar ALU issue", quads<Event::CyclesSalu>},
    {"SQ_INST_CYCLES_SMEM", Modelled, kOnBoth, "quad-cycles of scalar memory issue", quads<Event::CyclesSmem>},
    {"SQ_INST_CYCLES_VMEM_RD", Modelled, kOnBoth, "one for each of SQ_INSTS_VMEM_RD", sum<Event::VmemRead>},
    {"SQ_INST_CYCLES_VMEM_WR", Modelled, kOnBoth, "one for each of SQ_INSTS_VMEM_WR", sum<Event::VmemWrite>},
    {"SQ_WAIT_ANY", Modelled, kOnBoth,
     "quad-cycles that waves wait by the estimate: s_waitcnt, s_barrier, the matrix pipe",
     quads<Event::WaitVector, Event::WaitLds, Event::WaitBarrier, Event::WaitMatrix>},
    {"SQ_WAVE_CYCLES", Modelled, kOnBoth, "quad-cycles of all waves from first to last instruction, by the estimate",
     [](const LaunchProfile& l) { return static_cast<double>(l.timing.wave_cycles) / 4; }},
    {"SQ_BUSY_CU_CYCLES", Modelled, kOnBoth, "quad-cycles that compute units have waves, by the estimate",
     [](const LaunchProfile& l) { return static_cast<double>(l.timing.unit_cycles) / 4; }},
    {"GRBM_GUI_ACTIVE", Modelled, kOnBoth, "cycles of the launch, by the estimate",
     [](const LaunchProfile& l) { return static_cast<double>(l.timing.cycles); }},
    {"GRBM_COUNT", Modelled, kOnBoth, "the same",
     [](const LaunchProfile& l) { return static_cast<double>(l.timing.cycles); }},
};

}  // namespace

std::span<const PmcCounter> sq_counters() { return kTable; }

}  // namespace apb::emu
