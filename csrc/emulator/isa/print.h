// Pieces of text that several encodings share.
#pragma once

#include <initializer_list>
#include <string>

#include "instruction.h"

namespace apb::emu::print {

std::string hexadecimal(std::uint32_t value);
// `v1`, `v[2:3]`, `a[0:15]`, `s[4:7]`, `vcc`, `exec_lo`, `scc`.
std::string register_name(OperandKind kind, unsigned index, unsigned dwords);
// Register, inline constant or literal; `off` of an operand that is not used. `signed_modifiers`: -|x| or sext(x) around it.
std::string operand(const Operand& operand);
// Source `which` with abs, neg and SDWA's sext.
std::string source(const Instruction& instruction, unsigned which);
// ` name:[0,1,..]` of the lowest `count` bits of `bits`.
std::string bits(const char* name, unsigned bits, unsigned count);

// Appends ", next", or "next" after a space; nothing when it is empty.
void join(std::string& text, const std::string& next);
bool one_of(Opcode opcode, std::initializer_list<Opcode> list);
// The number of sources among the first three.
unsigned sources(const Instruction& instruction);

// Whole instructions; `text` is the mnemonic.
std::string short_vector(const Instruction& instruction, std::string text);   // VOP1, VOP2, VOPC with SDWA and DPP
std::string long_vector(const Instruction& instruction, std::string text);    // VOP3, VOP3SD
std::string packed_vector(const Instruction& instruction, std::string text);  // VOP3P
std::string matrix(const Instruction& instruction, std::string text);         // MFMA, with scales too

}  // namespace apb::emu::print
