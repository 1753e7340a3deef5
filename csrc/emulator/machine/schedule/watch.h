// The addresses and values that a seemingly blocked workgroup reads. Until one of these bytes changes, running it is of no use.
//
// It is looked for in windows of a few rounds of the workgroup's waves: in the first half all addresses are written down, in the
// second there must be no other and their bytes must be the same. A window costs what checks cost, so it is opened only
// when the waves sleep, when they come back to the same registers, or when they poll (below) and have long stored nothing.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "machine/observe/observers.h"

namespace apb::emu {

class Watch final : public Observer {
 public:
  explicit Watch(GroupObserver& under) : under_(under) {}

  enum class Finding : std::uint8_t { Nothing, Waits, Fails };
  // After a round of the waves. `stored`: bytes that the workgroup has stored outside itself so far. `seems`: its waves sleep or come
  // back. Waits: this object has what they wait for; Fails: the window is over and has not.
  Finding round(std::uint64_t stored, bool seems);
  // A wave has ended.
  void moved() { still_ = 0; }
  // Between begin and end of a window the waves' observer is this object.
  bool records() const { return left_ != 0; }

  // Did it read memory in its last window, so that somebody else could end its wait?
  bool reads() const { return reads_ != 0 || full_; }
  // Has one of the bytes changed since they were read? May be called while others store.
  bool changed() const;
  // A new turn begins. `in_vain`: nothing has changed, it is run to see whether it really waits, and longer each time.
  void forget(bool in_vain);

  void before(Wave& wave, const Instruction& instruction) override;
  void after(Wave& wave, const Instruction& instruction) override;
  void lds_read(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) override;
  void lds_write(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) override;
  void lds_atomic(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes) override;
  void lds_lanes(Wave& wave, LdsAccess access, const std::uint32_t* address, std::uint64_t active,
                 std::uint32_t bytes) override;
  void global(Wave& wave, int lane, std::uint64_t address, std::uint32_t bytes) override;
  void global_lanes(Wave& wave, const std::uint64_t* address, std::uint64_t active, std::uint32_t bytes) override;

 private:
  struct Bytes {
    std::uint64_t address;
    std::uint32_t count, at;  // in copy_
    std::uint64_t end() const { return address + count; }
  };
  Observer* under(const Wave& wave) const { return under_.of_wave(wave.number); }
  void open();
  void close(std::uint64_t next);
  void note(std::uint64_t address, std::uint32_t bytes);

  GroupObserver& under_;
  std::vector<Bytes> bytes_;
  std::vector<std::uint8_t> copy_;                   // taken before the load, so that no store is missed
  std::uint32_t length_ = 0, left_ = 0, reads_ = 0;  // of a window, in rounds
  bool second_ = false, fresh_ = false, full_ = false, polls_ = false;
  std::uint64_t still_ = 0, next_ = 0, stored_ = 0;  // rounds without a store; of them before the next window
  std::uint64_t first_ = 0;
};

}  // namespace apb::emu
