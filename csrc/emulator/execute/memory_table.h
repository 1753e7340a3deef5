// A table from opcodes to handlers, filled once per family; looking an opcode up is one array access.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>

#include "isa/instruction.h"

namespace apb::emu {

struct MemoryEntry {
  Opcode opcode{};
  Handler execute = nullptr;
  const void* function = nullptr;
};

class MemoryTable {
 public:
  MemoryTable(std::initializer_list<MemoryEntry> entries) { add(entries); }
  void add(std::initializer_list<MemoryEntry> entries) {
    for (const MemoryEntry& entry : entries) slots_[static_cast<std::size_t>(entry.opcode)] = entry;
  }
  // Fills in the record; false when the opcode is none of this family's.
  bool bind(Instruction& instruction) const {
    const MemoryEntry& entry = slots_[static_cast<std::size_t>(instruction.opcode)];
    if (!entry.execute) return false;
    instruction.execute = entry.execute;
    instruction.function = entry.function;
    return true;
  }

 private:
  std::array<MemoryEntry, static_cast<std::size_t>(Opcode::Count)> slots_{};
};

}  // namespace apb::emu

// The rows of loads and stores for one prefix (FLAT, GLOBAL, SCRATCH, BUFFER); LOAD and STORE are templates over Shape.
#define APB_MEMORY_LOADS_AND_STORES(PREFIX, LOAD, STORE)                                                    \
  {Opcode::PREFIX##_LOAD_UBYTE, LOAD<Shape{1}>}, {Opcode::PREFIX##_LOAD_SBYTE, LOAD<Shape{1, true}>},       \
      {Opcode::PREFIX##_LOAD_USHORT, LOAD<Shape{2}>}, {Opcode::PREFIX##_LOAD_SSHORT, LOAD<Shape{2, true}>}, \
      {Opcode::PREFIX##_LOAD_DWORD, LOAD<Shape{4}>}, {Opcode::PREFIX##_LOAD_DWORDX2, LOAD<Shape{8}>},       \
      {Opcode::PREFIX##_LOAD_DWORDX3, LOAD<Shape{12}>}, {Opcode::PREFIX##_LOAD_DWORDX4, LOAD<Shape{16}>},   \
      {Opcode::PREFIX##_LOAD_UBYTE_D16, LOAD<Shape{1, false, Half::Low}>},                                  \
      {Opcode::PREFIX##_LOAD_UBYTE_D16_HI, LOAD<Shape{1, false, Half::High}>},                              \
      {Opcode::PREFIX##_LOAD_SBYTE_D16, LOAD<Shape{1, true, Half::Low}>},                                   \
      {Opcode::PREFIX##_LOAD_SBYTE_D16_HI, LOAD<Shape{1, true, Half::High}>},                               \
      {Opcode::PREFIX##_LOAD_SHORT_D16, LOAD<Shape{2, false, Half::Low}>},                                  \
      {Opcode::PREFIX##_LOAD_SHORT_D16_HI, LOAD<Shape{2, false, Half::High}>},                              \
      {Opcode::PREFIX##_STORE_BYTE, STORE<Shape{1}>},                                                       \
      {Opcode::PREFIX##_STORE_BYTE_D16_HI, STORE<Shape{1, false, Half::High}>},                             \
      {Opcode::PREFIX##_STORE_SHORT, STORE<Shape{2}>},                                                      \
      {Opcode::PREFIX##_STORE_SHORT_D16_HI, STORE<Shape{2, false, Half::High}>},                            \
      {Opcode::PREFIX##_STORE_DWORD, STORE<Shape{4}>}, {Opcode::PREFIX##_STORE_DWORDX2, STORE<Shape{8}>},   \
      {Opcode::PREFIX##_STORE_DWORDX3, STORE<Shape{12}>}, {                                                 \
    Opcode::PREFIX##_STORE_DWORDX4, STORE<Shape{16}>                                                        \
  }
