// The order in which the decoder puts the operands of memory instructions.
#pragma once

#include "isa/instruction.h"

namespace apb::emu {

// FLAT, GLOBAL, SCRATCH: loads `vdst, vaddr, saddr`; stores and atomics without return `vaddr, vdata, saddr`;
// atomics with return `vdst, vaddr, vdata, saddr`; loads to LDS `vaddr, saddr`.
inline const Operand& flat_address(const Instruction& i) { return i.source[0]; }
inline const Operand& flat_data(const Instruction& i) { return i.source[1]; }
inline const Operand& load_scalar(const Instruction& i) { return i.source[1]; }
inline const Operand& store_scalar(const Instruction& i) { return i.source[2]; }

// MUBUF, MTBUF: loads `vdata, vaddr, srsrc, soffset`, with the first one the destination; stores and atomics
// `vaddr, vdata, srsrc, soffset` as sources (atomics return into vdata); loads to LDS `vaddr, srsrc, soffset`.
struct BufferOperands {
  const Operand *address, *resource, *scalar, *data;
};
inline BufferOperands buffer_load_operands(const Instruction& i) {
  return {&i.source[0], &i.source[1], &i.source[2], &i.destination[0]};
}
inline BufferOperands buffer_store_operands(const Instruction& i) {
  return {&i.source[0], &i.source[2], &i.source[3], &i.source[1]};
}

// DS: `vdst, addr, data0, data1`, those that the instruction has; append, consume and read_addtid have no address,
// write_addtid has its data first.
inline const Operand& lds_address(const Instruction& i) { return i.source[0]; }
inline const Operand& lds_data(const Instruction& i) { return i.source[1]; }
inline const Operand& lds_data2(const Instruction& i) { return i.source[2]; }
inline const Operand& lds_lone_data(const Instruction& i) { return i.source[0]; }

}  // namespace apb::emu
