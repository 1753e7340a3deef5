// The observer that each wave of a workgroup calls, and what its waves share.
#include "machine/check/checks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "machine/check/findings.h"
#include "machine/check/hazards.h"
#include "machine/check/shadow.h"

namespace apb::emu {

namespace {

class Group;

bool follow_each_other(const std::uint32_t* address, std::uint32_t bytes) {
  std::uint32_t difference = 0;
  for (std::uint32_t l = 0; l < kLanes; ++l) difference |= address[l] - address[0] - l * bytes;
  return difference == 0;
}

class WaveChecks final : public Observer {
 public:
  WaveChecks(Group& group, std::uint8_t number) : group_(&group), mark_(static_cast<std::uint8_t>(number + 1)) {}
  void before(Wave& wave, const Instruction& instruction) override;
  void lds_read(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) override {
    lds(wave, LdsAccess::Read, lane, address, bytes);
  }
  void lds_write(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) override {
    lds(wave, LdsAccess::Write, lane, address, bytes);
  }
  void lds_atomic(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) override {
    lds(wave, LdsAccess::Atomic, lane, address, bytes);
  }
  void lds_lanes(Wave& wave, LdsAccess access, const std::uint32_t* address, std::uint64_t active,
                 std::uint32_t bytes) override;
  void global(Wave& wave, int lane, std::uint64_t address, std::uint32_t bytes) override;
  void global_lanes(Wave& wave, const std::uint64_t* address, std::uint64_t active, std::uint32_t bytes) override;

  void reset() {
    hazards.reset();
    doubtful_.clear();
  }

  Hazards hazards;

 private:
  // A write over another wave's bytes, and what was there before. Whether it changes anything shows when it is done: waves that
  // hold the same rows (Triton lays tensors out so) write the same values to the same place, and nobody can tell who was last.
  struct Doubtful {
    const Instruction* instruction;
    int lane;
    std::uint32_t address, bytes;
    std::uint8_t before[16];
  };
  void doubt(const Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes);
  void settle(Wave& wave);
  bool noted(LdsAccess access, std::uint32_t address, std::uint32_t bytes);
  void lds(Wave& wave, LdsAccess access, int lane, std::uint32_t address, std::uint32_t bytes);

  Group* group_;
  std::uint8_t mark_;
  std::vector<Doubtful> doubtful_;  // of the instruction before
};

class Group final : public GroupObserver {
 public:
  Group(const CheckSwitches& on, std::uint32_t waves, std::uint32_t lds_bytes)
      : switches(on), shadow(on.lds, on.races && waves > 1, lds_bytes), direct_(on.hazards ? lds_bytes / 4 + 1 : 0) {
    for (std::uint32_t number = 0; number < waves; ++number)
      waves_.emplace_back(*this, static_cast<std::uint8_t>(number));
  }

  Observer* of_wave(std::uint32_t number) override { return &waves_[number]; }
  void barrier() override { shadow.barrier(); }
  void begin(const Workgroup& /*group*/) override {
    shadow.reset();
    if (any_direct) std::fill(direct_.begin(), direct_.end(), Direct{});
    any_direct = false;
    for (WaveChecks& wave : waves_) wave.reset();
  }

  // Bytes that a load from memory straight to LDS brings are there only when its wave has waited for vmcnt.
  void direct_issued(const Wave& wave, std::uint32_t address, std::uint32_t bytes) {
    any_direct = true;
    const std::uint32_t number = waves_[wave.number].hazards.last_vector_memory();
    for (std::uint32_t d = address / 4; d <= (address + bytes - 1) / 4; ++d)
      direct_[d] = {number, wave.current->address, wave.number};
  }
  // The lanes for which direct_arrived() has something to say.
  std::uint64_t early_lanes(const std::uint32_t* address, std::uint64_t active, std::uint32_t bytes) const {
    if (!any_direct) return 0;
    std::uint32_t done[256];  // a wave's number has eight bits
    for (std::size_t wave = 0; wave < waves_.size(); ++wave) done[wave] = waves_[wave].hazards.vector_memory_done();
    std::uint64_t early = 0;
    for (std::uint64_t rest = active; rest != 0; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      const Direct *load = &direct_[address[lane] / 4], *last = &direct_[(address[lane] + bytes - 1) / 4];
      bool waits = false;
      for (; load <= last; ++load) waits |= load->number > done[load->wave];
      early |= static_cast<std::uint64_t>(waits) << lane;
    }
    return early;
  }
  bool direct_arrived(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) const {
    for (std::uint32_t d = address / 4; any_direct && d <= (address + bytes - 1) / 4; ++d) {
      const Direct& load = direct_[d];
      if (load.number == 0 || waves_[load.wave].hazards.arrived(load.number)) continue;
      find(wave, FaultKind::Hazard, lane,
           "LDS bytes at 0x%x are still being loaded from memory by wave %u's instruction at code+0x%x; that wave "
           "must s_waitcnt vmcnt first",
           d * 4, load.wave, load.address);
      return false;
    }
    return true;
  }

  const CheckSwitches switches;
  Shadow shadow;
  bool any_direct = false;

 private:
  struct Direct {
    std::uint32_t number = 0, address = 0;
    std::uint8_t wave = 0;
  };
  std::vector<Direct> direct_;  // per dword
  std::vector<WaveChecks> waves_;
};

void WaveChecks::doubt(const Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) {
  Doubtful& write = doubtful_.emplace_back(Doubtful{wave.current, lane, address, bytes, {}});
  std::memcpy(write.before, wave.group->lds + address, bytes);
}

void WaveChecks::settle(Wave& wave) {
  const Instruction* current = wave.current;
  for (const Doubtful& write : doubtful_) {
    if (std::memcmp(write.before, wave.group->lds + write.address, write.bytes) == 0) {
      group_->shadow.share(write.address, write.bytes, mark_);
      continue;
    }
    wave.current = write.instruction;
    group_->shadow.explain(wave, write.lane, write.address, write.bytes, mark_, "writes");
    wave.current = current;
    if (wave.stop != Stop::Fault) group_->shadow.share(write.address, write.bytes, mark_);  // reported: go on from here
  }
  doubtful_.clear();
}

void WaveChecks::before(Wave& wave, const Instruction& instruction) {
  if (!doubtful_.empty()) settle(wave);
  if (group_->switches.hazards) hazards.before(wave, instruction);
}

bool WaveChecks::noted(LdsAccess access, std::uint32_t address, std::uint32_t bytes) {
  switch (access) {
    case LdsAccess::Read: return group_->shadow.read(address, bytes, mark_);
    case LdsAccess::Write: return group_->shadow.write(address, bytes, mark_);
    case LdsAccess::Atomic: return group_->shadow.atomic(address, bytes, mark_);
  }
  return true;
}

void WaveChecks::lds(Wave& wave, LdsAccess access, int lane, std::uint32_t address, std::uint32_t bytes) {
  constexpr const char* kVerbs[] = {"reads", "writes", "changes"};
  if (bytes == 0) return;
  if (group_->switches.hazards) {
    const bool direct = access == LdsAccess::Write && wave.current != nullptr && Hazards::loads_to_lds(*wave.current);
    if (direct)
      group_->direct_issued(wave, address, bytes);
    else if (!group_->direct_arrived(wave, lane, address, bytes))
      return;
  }
  if (noted(access, address, bytes)) return;
  if (access == LdsAccess::Write && bytes <= sizeof(Doubtful::before)) return doubt(wave, lane, address, bytes);
  group_->shadow.explain(wave, lane, address, bytes, mark_, kVerbs[static_cast<int>(access)]);
}

// Lanes whose bytes all follow each other are looked at as one range; those with which something is wrong, lane by lane.
void WaveChecks::lds_lanes(Wave& wave, LdsAccess access, const std::uint32_t* address, std::uint64_t active,
                           std::uint32_t bytes) {
  if (bytes == 0) return;
  std::uint64_t early = 0;  // lanes whose bytes a load to LDS has not brought yet
  if (group_->switches.hazards) {
    if (access == LdsAccess::Write && wave.current != nullptr && Hazards::loads_to_lds(*wave.current)) {
      for (std::uint64_t lanes = active; lanes != 0; lanes &= lanes - 1)
        group_->direct_issued(wave, address[std::countr_zero(lanes)], bytes);
    } else {
      early = group_->early_lanes(address, active, bytes);
    }
  }
  std::uint64_t rest = active & ~early;
  if (rest == ~std::uint64_t{0} && follow_each_other(address, bytes)) {
    if (noted(access, address[0], kLanes * bytes)) return;
  } else {
    rest = group_->shadow.lanes(access, address, rest, bytes, mark_) | early;
  }
  for (; rest != 0 && wave.stop != Stop::Fault; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    lds(wave, access, lane, address[lane], bytes);
  }
}

void WaveChecks::global(Wave& wave, int lane, std::uint64_t address, std::uint32_t bytes) {
  if (!group_->switches.alignment || bytes == 0) return;
  const std::uint32_t unit = std::min(bytes, 4u);
  if (address % unit == 0) return;
  find(wave, FaultKind::Misaligned, lane, "%u bytes at 0x%llx, which is no multiple of %u", bytes,
       static_cast<unsigned long long>(address), unit);
}

void WaveChecks::global_lanes(Wave& wave, const std::uint64_t* address, std::uint64_t active, std::uint32_t bytes) {
  if (!group_->switches.alignment || bytes < 2) return;
  std::uint64_t low = 0;
  for (int lane = 0; lane < kLanes; ++lane) low |= active >> lane & 1 ? address[lane] : 0;
  const std::uint32_t unit = std::min(bytes, 4u);
  for (std::uint64_t rest = low % unit != 0 ? active : 0; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    global(wave, lane, address[lane], bytes);
  }
}

}  // namespace

std::unique_ptr<GroupObserver> make_workgroup_checks(const CheckSwitches& switches, std::uint32_t waves,
                                                     std::uint32_t lds_bytes) {
  if (!switches.any()) return nullptr;
  return std::make_unique<Group>(switches, waves, lds_bytes);
}

}  // namespace apb::emu
