// Branches, calls, forks, barriers, waits, hints and traps.
#include "scalar.h"

namespace apb::emu {

namespace {

// MODE[31:29]: how many forks are open (the conditional stack pointer).
constexpr unsigned kStackShift = 29;
// STATUS bits that a debugger sets; without one they are 0.
constexpr unsigned kDebugUser = 1u << 20, kDebugSystem = 1u << 21;

u64 address_behind(const Wave& wave) { return wave.code_base + u64{wave.pc} * 4; }

// The new program counter comes from a register: it must be the first byte of a dword of this code object.
void jump(Wave& wave, u64 address) {
  const u64 offset = address - wave.code_base;
  if ((offset & 3) != 0 || offset / 4 >= wave.code_dwords) {
    const unsigned long long end = wave.code_base + u64{wave.code_dwords} * 4;
    raise(wave, FaultKind::IllegalJump, -1, "to 0x%llx, outside the code [0x%llx, 0x%llx) or not a multiple of 4",
          static_cast<unsigned long long>(address), static_cast<unsigned long long>(wave.code_base), end);
    return;
  }
  wave.pc = static_cast<u32>(offset / 4);
}

// simm16 counts dwords from the next instruction. Where it leads is looked at when it is fetched.
void relative_jump(Wave& wave, const Instruction& i) { wave.pc += static_cast<u32>(i.immediate); }

template <auto Condition> void branch(Wave& wave, const Instruction& i) {
  if (Condition(wave)) relative_jump(wave, i);
}

constexpr auto kAlways = [](const Wave&) { return true; };
constexpr auto kScc0 = [](const Wave& wave) { return !wave.scc; };
constexpr auto kScc1 = [](const Wave& wave) { return wave.scc; };
constexpr auto kVccz = [](const Wave& wave) { return wave.vcc() == 0; };
constexpr auto kVccnz = [](const Wave& wave) { return wave.vcc() != 0; };
constexpr auto kExecz = [](const Wave& wave) { return wave.exec() == 0; };
constexpr auto kExecnz = [](const Wave& wave) { return wave.exec() != 0; };
constexpr auto kUser = [](const Wave& wave) { return (wave.status & kDebugUser) != 0; };
constexpr auto kSystem = [](const Wave& wave) { return (wave.status & kDebugSystem) != 0; };
constexpr auto kEither = [](const Wave& wave) { return kUser(wave) || kSystem(wave); };
constexpr auto kBoth = [](const Wave& wave) { return kUser(wave) && kSystem(wave); };

void get_pc(Wave& wave, const Instruction& i) { write64(wave, i.destination[0], address_behind(wave)); }
void set_pc(Wave& wave, const Instruction& i) { jump(wave, read64(wave, i.source[0])); }
void swap_pc(Wave& wave, const Instruction& i) {
  const u64 target = read64(wave, i.source[0]);
  write64(wave, i.destination[0], address_behind(wave));
  jump(wave, target);
}
void call(Wave& wave, const Instruction& i) {
  write64(wave, i.destination[0], address_behind(wave));
  relative_jump(wave, i);
}

// Both sides of a branch, one after the other: the smaller side runs first, the other waits in four SGPRs, EXEC below, PC above.
void fork(Wave& wave, u64 condition, u64 taken) {
  const u64 exec = wave.exec(), pass = condition & exec, fail = ~condition & exec;
  if (pass == exec) return jump(wave, taken);
  if (fail == exec) return;
  const bool fail_first = std::popcount(fail) < std::popcount(pass);
  const u32 depth = wave.mode.bits >> kStackShift;
  const int slot = static_cast<int>(depth) * 4;
  wave.set_pair(slot, fail_first ? pass : fail);
  wave.set_pair(slot + 2, fail_first ? taken : address_behind(wave));
  wave.mode.bits += 1u << kStackShift;
  wave.set_pair(sreg::kExec, fail_first ? fail : pass);
  if (!fail_first) jump(wave, taken);
}
void fork_to_register(Wave& wave, const Instruction& i) {
  fork(wave, read64(wave, i.source[0]), read64(wave, i.source[1]));
}
void fork_to_label(Wave& wave, const Instruction& i) {
  fork(wave, read64(wave, i.source[0]), address_behind(wave) + static_cast<u64>(i64{i.immediate} * 4));
}
void join(Wave& wave, const Instruction& i) {
  if (wave.mode.bits >> kStackShift == read32(wave, i.source[0])) return;  // both sides are done
  wave.mode.bits -= 1u << kStackShift;
  const int slot = static_cast<int>(wave.mode.bits >> kStackShift) * 4;
  const u64 exec = wave.pair(slot), target = wave.pair(slot + 2);
  wave.set_pair(sreg::kExec, exec);
  jump(wave, target);
}

template <Stop What> void stop(Wave& wave, const Instruction&) { wave.stop = What; }

// Waits are no work here: every access is done when its handler returns. What a missing one would do is the observer's business.
void nothing(Wave&, const Instruction&) {}

void kill(Wave& wave, const Instruction& i) {
  if ((i.immediate & 1) != 0) wave.stop = Stop::Ended;
}
void halt(Wave& wave, const Instruction& i) {
  if ((i.immediate & 1) != 0)
    raise(wave, FaultKind::Trap, -1, "the wave halts until a debugger resumes it, and there is none");
}
// MSG_INTERRUPT rings for the host (device printf and hostcall do it after writing to memory); the others are of graphics, or answer.
void send_message(Wave& wave, const Instruction& i) {
  constexpr unsigned kInterrupt = 1;
  if ((i.immediate & 15) != kInterrupt) raise(wave, FaultKind::UnknownInstruction, -1, "message %d", i.immediate & 15);
}
// The ROCm trap handler: 3 is llvm.debugtrap, which goes on when no debugger is attached; 2 is llvm.trap (abort, failed assertions).
void trap(Wave& wave, const Instruction& i) {
  const unsigned id = static_cast<unsigned>(i.immediate) & 0xff;
  if (id == 3) return;
  raise(wave, FaultKind::Trap, -1, "s_trap %u%s", id, id == 2 ? " (llvm.trap: abort() or a failed assert())" : "");
}

constexpr ScalarEntry kTable[] = {
    {Opcode::S_BRANCH, branch<kAlways>},
    {Opcode::S_CBRANCH_SCC0, branch<kScc0>},
    {Opcode::S_CBRANCH_SCC1, branch<kScc1>},
    {Opcode::S_CBRANCH_VCCZ, branch<kVccz>},
    {Opcode::S_CBRANCH_VCCNZ, branch<kVccnz>},
    {Opcode::S_CBRANCH_EXECZ, branch<kExecz>},
    {Opcode::S_CBRANCH_EXECNZ, branch<kExecnz>},
    {Opcode::S_CBRANCH_CDBGSYS, branch<kSystem>},
    {Opcode::S_CBRANCH_CDBGUSER, branch<kUser>},
    {Opcode::S_CBRANCH_CDBGSYS_OR_USER, branch<kEither>},
    {Opcode::S_CBRANCH_CDBGSYS_AND_USER, branch<kBoth>},
    {Opcode::S_GETPC_B64, get_pc},
    {Opcode::S_SETPC_B64, set_pc},
    {Opcode::S_SWAPPC_B64, swap_pc},
    {Opcode::S_CALL_B64, call},
    {Opcode::S_CBRANCH_G_FORK, fork_to_register},
    {Opcode::S_CBRANCH_I_FORK, fork_to_label},
    {Opcode::S_CBRANCH_JOIN, join},
    {Opcode::S_BARRIER, stop<Stop::Barrier>},
    {Opcode::S_SLEEP, stop<Stop::Yield>},
    {Opcode::S_ENDPGM, stop<Stop::Ended>},
    {Opcode::S_ENDPGM_SAVED, stop<Stop::Ended>},
    {Opcode::S_ENDPGM_ORDERED_PS_DONE, stop<Stop::Ended>},
    {Opcode::S_SETKILL, kill},
    {Opcode::S_SETHALT, halt},
    {Opcode::S_SENDMSG, send_message},
    {Opcode::S_TRAP, trap},
    {Opcode::S_NOP, nothing},
    {Opcode::S_WAITCNT, nothing},
    {Opcode::S_WAKEUP, nothing},        // ends another wave's s_sleep early
    {Opcode::S_SETPRIO, nothing},       // how often this wave may issue
    {Opcode::S_ICACHE_INV, nothing},    // code does not change
    {Opcode::S_INCPERFLEVEL, nothing},  // performance counters and thread traces: nobody listens
    {Opcode::S_DECPERFLEVEL, nothing},
    {Opcode::S_TTRACEDATA, nothing},
};

}  // namespace

// Not here: s_rfe_b64 and s_rfe_restore_b64 (return from a trap handler, privileged), s_sendmsghalt (graphics).
std::span<const ScalarEntry> scalar_control_table() { return kTable; }

}  // namespace apb::emu
