// Finds the handler of a scalar ALU instruction.
#include "scalar.h"

#include "bind.h"

namespace apb::emu {

namespace {

using Table = std::array<Handler, static_cast<std::size_t>(Opcode::Count)>;

Table collect() {
  Table table{};
  for (const auto entries : {scalar_arithmetic_table(), scalar_bits_table(), scalar_compare_table(),
                             scalar_control_table(), scalar_register_table()}) {
    for (const ScalarEntry& entry : entries) table[static_cast<std::size_t>(entry.opcode)] = entry.handler;
  }
  return table;
}

}  // namespace

bool bind_scalar(Target, Instruction& instruction) {
  static const Table table = collect();
  const Handler handler = table[static_cast<std::size_t>(instruction.opcode)];
  if (handler == nullptr) return false;
  instruction.execute = handler;
  return true;
}

}  // namespace apb::emu
