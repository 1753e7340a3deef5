#include "machine/observe/observers.h"

#include <algorithm>

#include "machine/debug/debugger.h"
#include "machine/profile/profile.h"
#include "machine/schedule/launch.h"
#include "machine/settings/configuration.h"
#include "machine/settings/profile_configuration.h"
#include "machine/timing/timing.h"
#include "machine/trace/trace.h"

namespace apb::emu {

LaunchObservers make_observers(const LaunchRequest& request) {
  LaunchObservers all;
  const ProfileConfiguration& profile = configuration().profile;
  if (profile.on() && profiles(profile, request.kernel->name)) all.push_back(std::make_unique<LaunchProfiler>(request));
  const auto add = [&all](std::unique_ptr<LaunchObserver> one) {
    if (one) all.push_back(std::move(one));
  };
  add(make_timing(request));
  add(make_trace(request));
  add(make_debugger(request));
  return all;
}

// A wave's observers one after the other; the first that stops the wave is the last that is asked, but for after().
class GroupObservers::Chain final : public Observer {
 public:
  explicit Chain(std::vector<Observer*> all) : all_(std::move(all)) {}

  void before(Wave& wave, const Instruction& instruction) override {
    until_stop(wave, [&](Observer& each) { each.before(wave, instruction); });
  }
  void after(Wave& wave, const Instruction& instruction) override {
    for (Observer* each : all_) each->after(wave, instruction);
  }
  void lds_read(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) override {
    until_stop(wave, [&](Observer& each) { each.lds_read(wave, lane, address, bytes); });
  }
  void lds_write(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) override {
    until_stop(wave, [&](Observer& each) { each.lds_write(wave, lane, address, bytes); });
  }
  void lds_atomic(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) override {
    until_stop(wave, [&](Observer& each) { each.lds_atomic(wave, lane, address, bytes); });
  }
  void global(Wave& wave, int lane, std::uint64_t address, std::uint32_t bytes) override {
    until_stop(wave, [&](Observer& each) { each.global(wave, lane, address, bytes); });
  }
  void lds_lanes(Wave& wave, LdsAccess access, const std::uint32_t* address, std::uint64_t active,
                 std::uint32_t bytes) override {
    until_stop(wave, [&](Observer& each) { each.lds_lanes(wave, access, address, active, bytes); });
  }
  void global_lanes(Wave& wave, const std::uint64_t* address, std::uint64_t active, std::uint32_t bytes) override {
    until_stop(wave, [&](Observer& each) { each.global_lanes(wave, address, active, bytes); });
  }

 private:
  template <typename Ask> void until_stop(const Wave& wave, Ask ask) {
    for (Observer* each : all_) {
      ask(*each);
      if (wave.stop != Stop::None) return;
    }
  }
  std::vector<Observer*> all_;
};

GroupObservers::GroupObservers() = default;
GroupObservers::~GroupObservers() = default;

void GroupObservers::add(std::unique_ptr<GroupObserver> more, std::uint32_t waves) {
  if (!more) return;
  all_.push_back(std::move(more));
  chains_.clear();
  if (all_.size() < 2) return;
  for (std::uint32_t number = 0; number < waves; ++number) {
    std::vector<Observer*> found;
    for (const auto& each : all_)
      if (Observer* one = each->of_wave(number)) found.push_back(one);
    chains_.push_back(found.empty() ? nullptr : std::make_unique<Chain>(std::move(found)));
  }
}

Observer* GroupObservers::of_wave(std::uint32_t number) {
  if (all_.empty()) return nullptr;
  return chains_.empty() ? all_.front()->of_wave(number) : chains_[number].get();
}

void GroupObservers::begin(const Workgroup& group) {
  for (const auto& each : all_) each->begin(group);
}

void GroupObservers::barrier() {
  for (const auto& each : all_) each->barrier();
}

void GroupObservers::ended(const Wave& wave) {
  for (const auto& each : all_) each->ended(wave);
}

void GroupObservers::faulted(Wave& wave) {
  for (const auto& each : all_) each->faulted(wave);
}

}  // namespace apb::emu
