#include "machine/profile/group_profile.h"

#include <algorithm>
#include <bit>

namespace apb::emu {
namespace {

constexpr std::uint64_t kNoAddress = 1ull << 20;  // below lie offsets in scratch, which is the wave's own
constexpr std::size_t kMostWaits = 256;           // of a wave, on the timeline
constexpr std::size_t kVariants = 4;              // of an opcode: loads to LDS, returns

// The event of an instruction, as on a card: FLAT is the encoding, and s_waitcnt and the like are no work.
Event unit_event(const OpcodeClass& opcode) {
  if (opcode.has(Event::FlatEncoded)) return Event::CyclesFlat;
  switch (opcode.unit) {
    case Unit::Vector:
    case Unit::Matrix: return Event::CyclesValu;
    case Unit::Scalar: return Event::CyclesSalu;
    case Unit::ScalarMemory: return Event::CyclesSmem;
    case Unit::Memory: return Event::CyclesVmem;
    case Unit::Lds: return Event::CyclesLds;
    default: return Event::CyclesBranch;
  }
}

Event lanes_event(const Instruction& i) {
  if (i.category == Category::VmemLoad) return Event::LanesRead;
  if (i.category == Category::VmemStore) return Event::LanesWritten;
  return i.sc0 ? Event::LanesAtomicReturning : Event::LanesAtomic;
}

}  // namespace

GroupProfiler::GroupProfiler(LaunchProfiler& launch, const Dispatch& dispatch, bool timeline)
    : launch_(launch),
      dispatch_(dispatch),
      target_(dispatch.kernel->object->target),
      timeline_(timeline),
      tally_(launch.new_tally()),
      sums_(&tally_->sums),
      waves_(dispatch.waves_per_workgroup()) {}

const OpcodeClass& GroupProfiler::class_of(const Instruction& i) {
  const std::size_t at = static_cast<std::size_t>(i.opcode) * kVariants + (i.lds ? 1 : 0) + (i.sc0 ? 2 : 0);
  if (at >= classes_.size()) classes_.resize(at + 256);
  OpcodeClass& found = classes_[at];
  if (!found.known) found = classify(i);
  return found;
}

void GroupProfiler::begin(const Workgroup& group) {
  const Dim3& grid = dispatch_.grid;
  number_ = group.id[0] + std::uint64_t{grid.x} * (group.id[1] + std::uint64_t{grid.y} * group.id[2]);
  group_waves_ = group.waves;
  ended_ = 0;
  for (WaveState& wave : waves_) wave = WaveState();
  read_.clear();
  written_.clear();
  scalar_.clear();
  lds_cycles_ = memory_cycles_ = 0;
}

// At its first instruction: EXEC has a bit for each of its work items.
void GroupProfiler::count_wave(const Wave& wave) {
  const auto items = static_cast<std::uint32_t>(std::popcount(wave.exec()));
  Sums& sums = *sums_;
  ++sums[Event::Waves];
  sums[Event::Items] += items;
  ++sums[items == kLanes ? Event::WavesOf64 : Event::WavesBelow64];
  if (items < 48) ++sums[Event::WavesBelow48];
  if (items < 32) ++sums[Event::WavesBelow32];
  if (items < 16) ++sums[Event::WavesBelow16];
}

void GroupProfiler::before(Wave& wave, const Instruction& instruction) {
  WaveState& state = waves_[wave.number];
  if (!state.running) {
    state.running = true;
    count_wave(wave);
  }
  sectors_.clear();
  quads_.clear();
  wanted_ = scratch_ = 0;
  flat_.lanes = 0;
  banks_ = {};
  touched_lds_ = false;
  const OpcodeClass& opcode = class_of(instruction);
  Sums& sums = *sums_;
  for (std::uint8_t e = 0; e < opcode.events; ++e) ++sums[opcode.event[e]];
  // EXEC here, not behind the instruction: it may be what it writes.
  const auto lanes = static_cast<std::uint64_t>(std::popcount(wave.exec()));
  if (opcode.unit == Unit::Vector || opcode.unit == Unit::Matrix) sums[Event::ThreadCycles] += lanes * opcode.cycles;
  if (opcode.unit == Unit::Memory || opcode.unit == Unit::Flat) sums[lanes_event(instruction)] += lanes;
}

void GroupProfiler::after(Wave& wave, const Instruction& instruction) {
  WaveState& state = waves_[wave.number];
  const OpcodeClass& opcode = class_of(instruction);
  AccessCost cost;
  std::uint32_t matrix = 0;
  if (flat_.lanes != 0) lds_lanes(wave, flat_.access, flat_.address, flat_.lanes, flat_.bytes);
  if (flat_.lanes != 0 && opcode.unit == Unit::Flat) ++(*sums_)[Event::Lds];
  if (touched_lds_) lds_done(instruction, opcode, cost);
  if (wanted_ != 0 || scratch_ != 0) memory_done(instruction, cost);
  if (opcode.unit == Unit::Matrix) {
    const MatrixWork work = matrix_work(target_, instruction);
    matrix = work.cycles;
    ++(*sums_)[event_of(work.kind, Event::MatrixF16)];
    (*sums_)[event_of(work.kind, Event::OperationsF16)] += work.operations;
    (*sums_)[Event::MatrixBusy] += work.cycles;
    state.matrix += work.cycles;
  }
  if (opcode.unit != Unit::None) (*sums_)[unit_event(opcode)] += opcode.cycles;
  state.issue += opcode.cycles;
  const bool kept = timeline_ && state.times.waits.size() < kMostWaits;
  state.times.cut = state.times.cut || (timeline_ && !kept);
  const std::uint64_t before = state.clock.now();
  state.clock.issue(instruction, opcode, matrix, cost, *sums_, kept ? &state.times.waits : nullptr);
  count_site(instruction, cost, state.clock.now() - before - opcode.cycles);
  state.at_barrier = wave.stop == Stop::Barrier;
  state.barrier = instruction.address;
}

void GroupProfiler::count_site(const Instruction& instruction, const AccessCost& cost, std::uint64_t waited) {
  constexpr std::uint64_t kHalf = 64;
  const bool waits = instruction.category == Category::Wait;
  if (cost.halves == 0 && cost.lds_cycles == 0 && waited == 0 && !waits) return;
  Site& site = tally_->sites[instruction.address];
  ++site.executed;
  site.wait_cycles += waited;
  site.lds_conflicts += banks_.conflicts + banks_.same;
  site.bytes_wanted += wanted_ + scratch_;
  site.bytes_touched += kHalf * cost.halves;
}

void GroupProfiler::lds_lane(int lane, LdsAccess access, std::uint32_t address, std::uint32_t bytes) {
  if (lane < 0) return;
  flat_.address[lane] = address;
  flat_.lanes |= std::uint64_t{1} << lane;
  flat_.bytes = bytes;
  flat_.access = access;
}
void GroupProfiler::lds_read(Wave& /*wave*/, int lane, std::uint32_t address, std::uint32_t bytes) {
  lds_lane(lane, LdsAccess::Read, address, bytes);
}
void GroupProfiler::lds_write(Wave& /*wave*/, int lane, std::uint32_t address, std::uint32_t bytes) {
  lds_lane(lane, LdsAccess::Write, address, bytes);
}
void GroupProfiler::lds_atomic(Wave& /*wave*/, int lane, std::uint32_t address, std::uint32_t bytes) {
  lds_lane(lane, LdsAccess::Atomic, address, bytes);
}

void GroupProfiler::lds_lanes(Wave& wave, LdsAccess access, const std::uint32_t* address, std::uint64_t active,
                              std::uint32_t bytes) {
  if (active == 0) return;
  touched_lds_ = true;
  const BankCost cost = bank_cost(target_, access, address, active, bytes);
  banks_.phases += cost.phases;
  banks_.conflicts += cost.conflicts;
  banks_.same += cost.same;
  const std::uint64_t moved = static_cast<std::uint64_t>(std::popcount(active)) * bytes;
  (*sums_)[access == LdsAccess::Read    ? Event::LdsReadBytes
           : access == LdsAccess::Write ? Event::LdsWriteBytes
                                        : Event::LdsAtomicBytes] += moved;
  if (wave.current == nullptr || wave.current->encoding != Encoding::Flat) return;
  for (std::uint64_t rest = active; rest != 0; rest &= rest - 1) {
    if (address[std::countr_zero(rest)] % std::min(bytes, 4u) == 0) continue;
    ++(*sums_)[Event::LdsUnaligned];
    return;
  }
}

void GroupProfiler::lds_done(const Instruction& instruction, const OpcodeClass& opcode, AccessCost& cost) {
  Sums& sums = *sums_;
  sums[Event::LdsPhases] += banks_.phases;
  sums[Event::LdsConflicts] += banks_.conflicts;
  sums[Event::LdsSame] += banks_.same;
  // A load to LDS goes through the banks like a write.
  if (instruction.lds) sums[Event::DirectConflicts] += banks_.conflicts;
  if (opcode.has(Event::LdsAtomic) && instruction.destination[0].used()) sums[Event::LdsReturns] += banks_.phases;
  cost.lds_cycles = banks_.cycles();
  lds_cycles_ += cost.lds_cycles;
}

void GroupProfiler::touch(int lane, std::uint64_t address, std::uint32_t bytes) {
  // Four lanes go through the vector cache's tags together, a line at a time.
  constexpr unsigned kLineShift = 7, kQuads = 16;
  for (std::uint64_t line = address >> kLineShift; line <= (address + bytes - 1) >> kLineShift; ++line) {
    const std::uint64_t quad = line * kQuads + static_cast<unsigned>(lane) / 4;
    if (quads_.empty() || quads_.back() != quad) quads_.push_back(quad);
  }
  const std::uint64_t last = (address + bytes - 1) >> kSectorShift;
  for (std::uint64_t sector = address >> kSectorShift; sector <= last; ++sector) {
    if (sectors_.empty() || sectors_.back() != sector) sectors_.push_back(sector);
  }
}

void GroupProfiler::global(Wave& /*wave*/, int lane, std::uint64_t address, std::uint32_t bytes) {
  if (address < kNoAddress) {
    scratch_ += bytes;
    return;
  }
  if (lane < 0) {
    for (std::uint64_t sector = address >> kSectorShift; sector <= (address + bytes - 1) >> kSectorShift; ++sector)
      scalar_.add(sector);
    return;
  }
  wanted_ += bytes;
  touch(lane, address, bytes);
}

void GroupProfiler::global_lanes(Wave& /*wave*/, const std::uint64_t* address, std::uint64_t active,
                                 std::uint32_t bytes) {
  wanted_ += static_cast<std::uint32_t>(std::popcount(active)) * bytes;
  for (std::uint64_t rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    touch(lane, address[lane], bytes);
  }
}

// The address unit takes a wave's lanes together: each 64 bytes go through the vector cache once.
void GroupProfiler::memory_done(const Instruction& instruction, AccessCost& cost) {
  std::ranges::sort(sectors_);
  std::uint32_t halves = 0, lines = 0;
  const bool loads = instruction.category != Category::VmemStore, stores = instruction.category != Category::VmemLoad;
  cost.missed = !loads;  // a store is done when L2 says so
  std::uint64_t last = UINT64_MAX;
  for (const std::uint64_t sector : sectors_) {
    if (sector == last) continue;
    if (last == UINT64_MAX || sector >> 1 != last >> 1) ++halves;
    if (last == UINT64_MAX || sector >> 2 != last >> 2) ++lines;
    last = sector;
    if (loads) {
      cost.missed = cost.missed || !read_.has_line(sector);
      read_.add(sector);
    }
    if (stores) written_.add(sector);
  }
  Sums& sums = *sums_;
  // The hardware interleaves the lanes' dwords of scratch: what the lanes use together lies together.
  constexpr std::uint32_t kHalf = 64;
  cost.halves = halves + (scratch_ + kHalf - 1) / kHalf;
  memory_cycles_ += cost.halves;
  std::ranges::sort(quads_);
  const auto quads = static_cast<std::uint64_t>(std::ranges::unique(quads_).begin() - quads_.begin());
  constexpr std::uint32_t kQuadBytes = 16;
  sums[Event::QuadLines] += quads + (scratch_ + kQuadBytes - 1) / kQuadBytes;
  sums[Event::Lines] += lines;
  sums[Event::Halves] += halves;
  sums[Event::ScratchBytes] += scratch_;
  if (loads) sums[Event::ReadWanted] += wanted_;
  if (stores) sums[Event::WriteWanted] += wanted_;
  if (loads && stores)
    sums[instruction.sc0 ? Event::HalvesAtomicReturning : Event::HalvesAtomic] += halves;
  else
    sums[loads ? Event::HalvesRead : Event::HalvesWritten] += halves;
}

void GroupProfiler::barrier() {
  std::uint64_t last = 0;
  for (const WaveState& wave : waves_)
    if (wave.at_barrier) last = std::max(last, wave.clock.now());
  for (WaveState& wave : waves_) {
    if (!wave.at_barrier) continue;
    const bool kept = timeline_ && wave.times.waits.size() < kMostWaits;
    if (last > wave.clock.now()) tally_->sites[wave.barrier].wait_cycles += last - wave.clock.now();
    wave.clock.release(last, *sums_, kept ? &wave.times.waits : nullptr);
    wave.at_barrier = false;
  }
}

void GroupProfiler::ended(const Wave& wave) {
  waves_[wave.number].times.end = waves_[wave.number].clock.now();
  if (++ended_ == group_waves_) finish_group();
}

void GroupProfiler::finish_group() {
  LaunchProfiler::GroupResult result;
  result.number = number_;
  result.place = place_of(dispatch_, number_);
  UnitLoad& load = result.load;
  GroupTimes times;
  for (std::uint32_t w = 0; w < group_waves_; ++w) {
    WaveState& wave = waves_[w];
    const std::uint32_t simd = (result.place.slot * dispatch_.waves_per_workgroup() + w) % kSimds;
    load.issue[simd] += wave.issue;
    load.matrix[simd] += wave.matrix;
    load.wave_cycles += wave.times.end;
    load.groups = std::max(load.groups, wave.times.end);
    if (timeline_) times.waves.push_back(std::move(wave.times));
  }
  load.lds = lds_cycles_;
  load.memory = memory_cycles_;
  for (std::uint32_t s = 0; s < kSimds; ++s) load.groups = std::max({load.groups, load.issue[s], load.matrix[s]});
  load.groups = load.longest = std::max({load.groups, load.lds, load.memory});
  times.number = number_;
  times.place = result.place;
  times.cycles = load.groups;
  Sums& sums = *sums_;
  sums[Event::GroupLinesRead] += read_.count().lines;
  sums[Event::GroupHalvesWritten] += written_.count().halves;
  result.read = &read_;
  result.scalar = &scalar_;
  result.written = &written_;
  result.times = timeline_ ? &times : nullptr;
  launch_.ended(result);
}

}  // namespace apb::emu
