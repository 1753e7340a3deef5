// The state of each byte of one workgroup's LDS: written at all, and written or read by whom since the last barrier.
#pragma once

#include <cstdint>
#include <vector>

#include "execute/observer.h"

namespace apb::emu {

// A wave is known by its mark: its number in the workgroup + 1.
class Shadow {
 public:
  Shadow(bool initialised, bool races, std::uint32_t lds_bytes);

  // False: something is wrong with one of the bytes, and nothing has been noted. Then ask explain() for the lane's own bytes.
  bool read(std::uint32_t address, std::uint32_t bytes, std::uint8_t mark);
  bool write(std::uint32_t address, std::uint32_t bytes, std::uint8_t mark);
  // Atomics do not race with each other, nor with plain reads: to the others they are a read, which a plain write races with.
  bool atomic(std::uint32_t address, std::uint32_t bytes, std::uint8_t mark);

  // The same for each lane of one instruction, `bytes` each; says for which of them it was false.
  std::uint64_t lanes(LdsAccess access, const std::uint32_t* address, std::uint64_t active, std::uint32_t bytes,
                      std::uint8_t mark);

  // A write that write() has refused left the bytes as they were: several waves have written the same there, and that is no race.
  void share(std::uint32_t address, std::uint32_t bytes, std::uint8_t mark);

  // Raises what read(), write() or atomic() found; `what` is "reads", "writes" or "changes".
  void explain(Wave& wave, int lane, std::uint32_t address, std::uint32_t bytes, std::uint8_t mark,
               const char* what) const;

  void barrier();  // forgets readers and writers
  void reset();    // forgets everything

 private:
  bool initialised(std::uint32_t address, std::uint32_t bytes) const;
  void note_read(std::uint32_t address, std::uint32_t bytes, std::uint8_t mark);
  void note_range(std::uint32_t first, std::uint32_t end);
  bool noted(LdsAccess access, std::uint32_t address, std::uint32_t bytes, std::uint8_t mark);
  template <typename Word, int Count, bool Writes>
  std::uint64_t words(LdsAccess access, const std::uint32_t* address, std::uint64_t active, std::uint8_t mark);

  bool initialised_, races_;
  std::vector<std::uint8_t> written_, writer_, reader_;  // per byte
  std::uint32_t low_ = ~0u, high_ = 0;                   // bytes of writer_ and reader_ that may be in use
};

}  // namespace apb::emu
