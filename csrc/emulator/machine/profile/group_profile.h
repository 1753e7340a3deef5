// The observer behind the counters: what each instruction of a workgroup's waves does, workgroup after workgroup.
#pragma once

#include <memory>
#include <vector>

#include "machine/profile/lds_banks.h"
#include "machine/profile/profile.h"

namespace apb::emu {

class GroupProfiler final : public GroupObserver, private Observer {
 public:
  GroupProfiler(LaunchProfiler& launch, const Dispatch& dispatch, bool timeline);

  Observer* of_wave(std::uint32_t /*number*/) override { return this; }
  void begin(const Workgroup& group) override;
  void barrier() override;
  void ended(const Wave& wave) override;

 private:
  void before(Wave& wave, const Instruction& instruction) override;
  void after(Wave& wave, const Instruction& instruction) override;
  void lds_read(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) override;
  void lds_write(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) override;
  void lds_atomic(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) override;
  void lds_lanes(Wave& wave, LdsAccess access, const std::uint32_t* address, std::uint64_t active,
                 std::uint32_t bytes) override;
  void global(Wave& wave, int lane, std::uint64_t address, std::uint32_t bytes) override;
  void global_lanes(Wave& wave, const std::uint64_t* address, std::uint64_t active, std::uint32_t bytes) override;

  // One lane of LDS at a time (flat addresses): gathered until the instruction is over.
  struct FlatLds {
    std::uint32_t address[kLanes];
    std::uint64_t lanes = 0;
    std::uint32_t bytes = 0;
    LdsAccess access{};
  };
  struct WaveState {
    WaveClock clock;
    bool at_barrier = false, running = false;
    std::uint64_t issue = 0, matrix = 0;  // cycles
    std::uint32_t barrier = 0;            // the offset of the one that it stands at
    WaveTimes times;
  };

  const OpcodeClass& class_of(const Instruction& instruction);
  void count_wave(const Wave& wave);
  void lds_lane(int lane, LdsAccess access, std::uint32_t address, std::uint32_t bytes);
  void touch(int lane, std::uint64_t address, std::uint32_t bytes);
  void memory_done(const Instruction& instruction, AccessCost& cost);
  void lds_done(const Instruction& instruction, const OpcodeClass& opcode, AccessCost& cost);
  void count_site(const Instruction& instruction, const AccessCost& cost, std::uint64_t waited);
  void finish_group();

  LaunchProfiler& launch_;
  const Dispatch& dispatch_;
  const Target target_;
  const bool timeline_;
  std::shared_ptr<LaunchProfiler::Tally> tally_;
  Sums* const sums_;                  // the tally's
  std::vector<OpcodeClass> classes_;  // by opcode, and whether it loads to LDS or returns
  std::vector<WaveState> waves_;
  std::uint32_t group_waves_ = 0, ended_ = 0;
  std::uint64_t number_ = 0;

  SectorSet read_, written_, scalar_;
  std::uint64_t lds_cycles_ = 0, memory_cycles_ = 0;

  // Sectors and quads of the instruction that is being executed.
  std::vector<std::uint64_t> sectors_, quads_;  // of 32 bytes; lines, each with four lanes that touch it
  std::uint32_t wanted_ = 0, scratch_ = 0;
  FlatLds flat_;
  BankCost banks_;
  bool touched_lds_ = false;
};

}  // namespace apb::emu
