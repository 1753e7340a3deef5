// Counters of the way to memory: the address unit (TA), the vector cache (TCP), L2 (TCC) and what is behind it.
#include "machine/profile/pmc.h"
#include "machine/profile/profile.h"

namespace apb::emu {
namespace {

using enum Exactness;

template <Event... E> double sum(const LaunchProfile& l) { return static_cast<double>((l.sums[E] + ...)); }
double number(std::uint64_t value) { return static_cast<double>(value); }

// The requests to L2: the vector caches' misses, stores and atomics, and the scalar cache's misses.
double scalar(const LaunchProfile& l) { return number(l.scalar_halves); }
double reads(const LaunchProfile& l) { return sum<Event::GroupLinesRead>(l) + scalar(l); }
double writes(const LaunchProfile& l) { return sum<Event::HalvesWritten>(l); }
double atomics(const LaunchProfile& l) { return sum<Event::HalvesAtomic, Event::HalvesAtomicReturning>(l); }
double requests(const LaunchProfile& l) { return reads(l) + writes(l) + atomics(l); }
double fetches(const LaunchProfile& l) { return number(l.xcd_read.lines); }
double misses(const LaunchProfile& l) { return number(l.xcd_lines); }
double hits(const LaunchProfile& l) {
  const double more = requests(l) - misses(l);
  return more > 0 ? more : 0;
}
double write_64(const LaunchProfile& l) { return number(l.xcd_written.whole); }
double write_requests(const LaunchProfile& l) { return number(l.xcd_written.halves); }
double fetched(const LaunchProfile& l) { return number(l.xcd_read.lines) * 128 / 1024; }
double written(const LaunchProfile& l) { return ((write_requests(l) - write_64(l)) * 32 + write_64(l) * 64) / 1024; }
double none(const LaunchProfile&) { return 0; }

constexpr std::string_view kAccesses = "lanes that were on, of all vector memory instructions";
constexpr std::string_view kFetch =
    "KiB that L2 fetches: different lines of 128 bytes that each XCD reads in the launch, its L2 "
    "taken as empty at first and large enough";
constexpr std::string_view kWrite =
    "KiB that L2 writes back: different 32 or 64 bytes that each XCD writes in the launch";

constexpr PmcCounter kTable[] = {
    {"TA_TOTAL_WAVEFRONTS", Exact, kOnBoth, "vector memory instructions",
     sum<Event::BufferRead, Event::BufferWrite, Event::BufferAtomic, Event::FlatRead, Event::FlatWrite,
         Event::FlatAtomic>},
    {"TA_BUFFER_WAVEFRONTS", Exact, kOnBoth, "buffer_* and tbuffer_*",
     sum<Event::BufferRead, Event::BufferWrite, Event::BufferAtomic>},
    {"TA_BUFFER_READ_WAVEFRONTS", Exact, kOnBoth, "loads of them", sum<Event::BufferRead>},
    {"TA_BUFFER_WRITE_WAVEFRONTS", Exact, kOnBoth, "stores of them", sum<Event::BufferWrite>},
    {"TA_BUFFER_ATOMIC_WAVEFRONTS", Exact, kOnBoth, "atomics of them", sum<Event::BufferAtomic>},
    {"TA_BUFFER_READ_LDS_WAVEFRONTS", Exact, kOnGfx950, "buffer loads to LDS", sum<Event::BufferReadLds>},
    {"TA_FLAT_WAVEFRONTS", Exact, kOnBoth, "flat_*, global_* and scratch_*",
     sum<Event::FlatRead, Event::FlatWrite, Event::FlatAtomic>},
    {"TA_FLAT_READ_WAVEFRONTS", Exact, kOnBoth, "loads of them", sum<Event::FlatRead>},
    {"TA_FLAT_WRITE_WAVEFRONTS", Exact, kOnBoth, "stores of them", sum<Event::FlatWrite>},
    {"TA_FLAT_ATOMIC_WAVEFRONTS", Exact, kOnBoth, "atomics of them", sum<Event::FlatAtomic>},
    {"TA_FLAT_READ_LDS_WAVEFRONTS", Exact, kOnGfx950, "their loads to LDS", sum<Event::FlatReadLds>},
    {"TD_LOAD_WAVEFRONT", Exact, kOnBoth, "vector memory instructions: loads, atomics and stores",
     sum<Event::VmemRead, Event::VmemWrite>},
    {"TD_STORE_WAVEFRONT", Exact, kOnBoth, "stores", sum<Event::BufferWrite, Event::FlatWrite>},
    {"TD_ATOMIC_WAVEFRONT", Exact, kOnBoth, "atomics", sum<Event::BufferAtomic, Event::FlatAtomic>},
    {"TCP_TA_TCP_STATE_READ", Exact, kOnBoth, "vector memory instructions", sum<Event::VmemRead, Event::VmemWrite>},
    {"SQC_TC_DATA_READ_REQ", Modelled, kOnBoth,
     "different 64 bytes that scalar loads of each two compute units touch: a scalar cache that starts empty and loses "
     "nothing",
     scalar},
    {"TCP_TOTAL_ACCESSES", Modelled, kOnBoth, kAccesses,
     sum<Event::LanesRead, Event::LanesWritten, Event::LanesAtomic, Event::LanesAtomicReturning>},
    {"TCP_TOTAL_READ", Modelled, kOnBoth, "those of loads", sum<Event::LanesRead>},
    {"TCP_TOTAL_WRITE", Modelled, kOnBoth, "those of stores", sum<Event::LanesWritten>},
    {"TCP_TOTAL_ATOMIC_WITH_RET", Modelled, kOnBoth, "those of atomics that return", sum<Event::LanesAtomicReturning>},
    {"TCP_TOTAL_ATOMIC_WITHOUT_RET", Modelled, kOnBoth, "those of atomics that return nothing",
     sum<Event::LanesAtomic>},
    {"TCP_TOTAL_CACHE_ACCESSES", Modelled, kOnBoth, "different lines of 128 bytes of each four lanes, summed",
     sum<Event::QuadLines>},
    {"TCP_TCC_READ_REQ", Modelled, kOnBoth,
     "different lines that vector loads and atomics of a workgroup touch, summed over workgroups: a vector cache that "
     "starts empty and loses nothing",
     sum<Event::GroupLinesRead>},
    {"TCP_TCC_WRITE_REQ", Modelled, kOnBoth,
     "different 64 bytes of each store, summed: the vector cache writes through", writes},
    {"TCP_TCC_ATOMIC_WITH_RET_REQ", Modelled, kOnBoth, "different 64 bytes of each atomic that returns",
     sum<Event::HalvesAtomicReturning>},
    {"TCP_TCC_ATOMIC_WITHOUT_RET_REQ", Modelled, kOnBoth, "different 64 bytes of each atomic that returns nothing",
     sum<Event::HalvesAtomic>},
    {"TCC_REQ", Modelled, kOnBoth, "TCC_READ, TCC_WRITE and TCC_ATOMIC", requests},
    {"TCC_READ", Modelled, kOnBoth, "TCP_TCC_READ_REQ and SQC_TC_DATA_READ_REQ", reads},
    {"TCC_WRITE", Modelled, kOnBoth, "TCP_TCC_WRITE_REQ", writes},
    {"TCC_ATOMIC", Modelled, kOnBoth, "atomics that reach L2", atomics},
    {"TCC_MISS", Modelled, kOnBoth, "different lines that each XCD reads or writes: the first touch of each", misses},
    {"TCC_HIT", Modelled, kOnBoth, "TCC_REQ without TCC_MISS", hits},
    {"TCC_EA0_RDREQ", Modelled, kOnBoth, "different lines that each XCD reads", fetches},
    {"TCC_BUBBLE", Modelled, kOnGfx942, "as TCC_EA0_RDREQ: lines are fetched whole", fetches},
    {"TCC_EA0_RDREQ_128B", Modelled, kOnGfx950, "as TCC_EA0_RDREQ: lines are fetched whole", fetches},
    {"TCC_EA0_RDREQ_64B", Modelled, kOnGfx950, "0: lines are fetched whole", none},
    {"TCC_EA0_RDREQ_32B", Modelled, kOnBoth, "0: lines are fetched whole", none},
    {"TCC_EA0_WRREQ", Modelled, kOnBoth, "different 64 bytes that each XCD writes", write_requests},
    {"TCC_EA0_WRREQ_64B", Modelled, kOnBoth, "those of them that are written in both halves", write_64},
    {"FETCH_SIZE", Modelled, kOnBoth, kFetch, fetched},
    {"FetchSize", Modelled, kOnBoth, kFetch, fetched},
    {"WRITE_SIZE", Modelled, kOnBoth, kWrite, written},
    {"WriteSize", Modelled, kOnBoth, kWrite, written},
};

}  // namespace

std::span<const PmcCounter> memory_counters() { return kTable; }

}  // namespace apb::emu
