// One traced instruction: what stood in its registers before and after, as text or as a line of JSON.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "execute/wave.h"
#include "machine/settings/trace_filter.h"

namespace apb::emu {

class TraceRecord {
 public:
  // Reads the instruction's sources, and the registers that it will write.
  void before(const Wave& wave, const Instruction& instruction, bool registers);
  // The whole record, to be written at once.
  std::string after(const Wave& wave, const Instruction& instruction, std::uint64_t launch, const TraceFilter& filter);

 private:
  using Lanes = std::array<std::uint32_t, kLanes>;  // a scalar register has its value in the first
  struct Register {
    OperandKind kind{};
    std::uint16_t index = 0;
    bool vector() const { return kind != OperandKind::Sgpr; }
    std::string name() const;
    bool operator==(const Register&) const = default;
  };
  struct Value {
    Register from;
    Lanes before{}, after{};
  };
  static void list(const Operand& operand, std::vector<Value>& to);
  static void fill(const Wave& wave, const Register& from, Lanes& to);
  void scalars_changed(const Wave& wave);
  std::string text(const Wave& wave, const Instruction& instruction, std::uint64_t launch, std::uint64_t lanes) const;
  std::string json(const Wave& wave, const Instruction& instruction, std::uint64_t launch, std::uint64_t lanes) const;

  std::vector<Value> reads_, writes_;
  std::uint32_t scalar_[sreg::kCount] = {};
  bool scc_ = false, registers_ = false;
  std::uint32_t mode_ = 0;
};

}  // namespace apb::emu
