// For observers that look at instructions and at no access to memory.
#pragma once

#include "execute/observer.h"

namespace apb::emu {

class InstructionObserver : public Observer {
 public:
  void lds_read(Wave&, int, std::uint32_t, std::uint32_t) override {}
  void lds_write(Wave&, int, std::uint32_t, std::uint32_t) override {}
  void lds_atomic(Wave&, int, std::uint32_t, std::uint32_t) override {}
  void global(Wave&, int, std::uint64_t, std::uint32_t) override {}
  void lds_lanes(Wave&, LdsAccess, const std::uint32_t*, std::uint64_t, std::uint32_t) override {}
  void global_lanes(Wave&, const std::uint64_t*, std::uint64_t, std::uint32_t) override {}
};

}  // namespace apb::emu
