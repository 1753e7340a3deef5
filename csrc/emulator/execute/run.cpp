// The fetch loop of one wave.
#include <xmmintrin.h>

#include "bind.h"
#include "observer.h"
#include "tolerate.h"
#include "wave.h"

namespace apb::emu {

namespace {

// Bits of MODE that change what the next instructions mean.
constexpr std::uint32_t kModeIndexEnabled = 1u << 27, kModeSkipVector = 1u << 28;
constexpr int kIndexSource[3] = {12, 13, 14};  // bits of M0: the index is added to source 0, 1, 2
constexpr int kIndexDestination = 15;          // or to the destination

// The slot at wave.pc holds nothing to execute. Inside an instruction, outside the code, or bytes that no encoding matches?
[[gnu::cold]] void no_instruction(Wave& wave, const Instruction* code) {
  const std::int64_t offset = static_cast<std::int64_t>(static_cast<std::int32_t>(wave.pc)) * 4;
  const unsigned long long address = wave.code_base + static_cast<std::uint64_t>(offset);
  if (wave.pc >= wave.code_dwords) {
    raise(wave, FaultKind::IllegalJump, -1, "to 0x%llx, outside the code [0x%llx, 0x%llx)", address,
          static_cast<unsigned long long>(wave.code_base),
          static_cast<unsigned long long>(wave.code_base + 4ull * wave.code_dwords));
    return;
  }
  for (std::uint32_t back = 1; back <= 3 && back <= wave.pc; ++back) {
    const Instruction& before = code[wave.pc - back];
    if (before.execute != nullptr && before.dwords > back) {
      raise(wave, FaultKind::IllegalJump, -1, "to 0x%llx (code+0x%x), into the middle of the instruction at code+0x%x",
            address, wave.pc * 4, before.address);
      return;
    }
  }
  wave.current = nullptr;  // the instruction before these bytes is not at fault
  std::uint32_t word = 0;
  if (wave.code_base != 0)
    std::memcpy(&word, reinterpret_cast<const void*>(wave.code_base + wave.pc * 4ull), sizeof word);
  raise(wave, FaultKind::UnknownInstruction, -1,
        "the bytes at 0x%llx (code+0x%x) begin with 0x%08x, which no encoding matches", address, wave.pc * 4, word);
}

bool is_vector_alu(Encoding encoding) {
  switch (encoding) {
    case Encoding::Vop1:
    case Encoding::Vop2:
    case Encoding::Vopc:
    case Encoding::Vop3:
    case Encoding::Vop3sd:
    case Encoding::Vop3p:
    case Encoding::Vop3pMfma:
    case Encoding::Vop3px2: return true;
    default: return false;
  }
}

bool is_scalar(Encoding encoding) {
  switch (encoding) {
    case Encoding::Sop1:
    case Encoding::Sop2:
    case Encoding::Sopc:
    case Encoding::Sopk:
    case Encoding::Sopp:
    case Encoding::Smem: return true;
    default: return false;
  }
}

// GPR indexing mode (s_set_gpr_idx_on): VGPR numbers of vector ALU operands are relative to M0[7:0], each as M0[15:12] says.
// Accumulation VGPRs too: AITER's MXFP4 GEMM reads its results so, with v_accvgpr_read.
bool add_index(Wave& wave, Instruction& instruction) {
  const std::uint32_t m0 = wave.scalar[sreg::kM0];
  const auto add = [&](Operand& operand, int bit) {
    const bool accumulation = operand.kind == OperandKind::Accvgpr;
    if ((operand.kind != OperandKind::Vgpr && !accumulation) || (m0 >> bit & 1) == 0) return true;
    const std::uint32_t index = operand.index + (m0 & 0xff);
    operand.index = static_cast<std::uint16_t>(index);
    if (index + operand.dwords <= 256) return true;
    raise(wave, FaultKind::IllegalRegister, -1, "GPR indexing reaches %c%u", accumulation ? 'a' : 'v', index);
    return false;
  };
  for (unsigned s = 0; s < 3; ++s) {
    if (!add(instruction.source[s], kIndexSource[s])) return false;
  }
  return add(instruction.destination[0], kIndexDestination);
}

// One instruction with everything that is not usual: observers, VSKIP, GPR indexing. Kept out of the hot loop.
[[gnu::noinline]] void step(Wave& wave, const Instruction& instruction, Counters& counters) {
  if ((wave.mode.bits & kModeSkipVector) != 0 && !is_scalar(instruction.encoding)) return;  // VSKIP: not even issued
  Instruction moved;
  const Instruction* current = &instruction;
  if ((wave.mode.bits & kModeIndexEnabled) != 0 && is_vector_alu(instruction.encoding)) {
    moved = instruction;
    wave.current = &moved;
    if (!add_index(wave, moved)) {
      wave.current = &instruction;
      return;
    }
    current = &moved;
  }
  if (wave.observer != nullptr) wave.observer->before(wave, *current);
  if (wave.stop == Stop::None) {
    counters.instructions[static_cast<int>(instruction.category)]++;
    current->execute(wave, *current);
    if (wave.observer != nullptr) wave.observer->after(wave, *current);
  }
  wave.current = &instruction;
}

// Until the wave stops or `count` instructions are done; says how many were. The usual loop and the one that looks at everything.
template <bool Careful> std::uint64_t loop(Wave& wave, const Instruction* code, std::uint64_t count,
                                           Counters& counters) {
  std::uint64_t left = count;
  while (left != 0) {
    if (wave.pc >= wave.code_dwords || code[wave.pc].execute == nullptr) [[unlikely]] {
      no_instruction(wave, code);
      break;
    }
    const Instruction& instruction = code[wave.pc];
    wave.pc += instruction.dwords;
    wave.current = &instruction;
    --left;
    if constexpr (Careful) {
      step(wave, instruction, counters);
    } else {
      counters.instructions[static_cast<int>(instruction.category)]++;
      instruction.execute(wave, instruction);
    }
    if (wave.stop != Stop::None) [[unlikely]] {
      const bool tolerant = wave.stop == Stop::Fault && wave.group != nullptr && wave.group->tolerates != nullptr;
      if (!tolerant || !go_on(wave, instruction)) break;
    }
  }
  return count - left;
}

// Lane functions count on the processor's default arithmetic; the thread that launches may have set another one (a host program
// that flushes denormals, or unmasks exceptions), and gets it back.
class ProcessorDefault {
 public:
  ProcessorDefault() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ProcessorDefault(const ProcessorDefault&) = delete;
  ProcessorDefault& operator=(const ProcessorDefault&) = delete;
  ~ProcessorDefault() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
};

}  // namespace

void run(Wave& wave, const Instruction* code, std::uint64_t budget) {
  const ProcessorDefault arithmetic;
  Counters nobody;
  Counters& counters = wave.counters != nullptr ? *wave.counters : nobody;
  while (wave.stop == Stop::None && budget != 0) {
    const bool careful = wave.observer != nullptr || (wave.mode.bits & (kModeIndexEnabled | kModeSkipVector)) != 0;
    const std::uint64_t done =
        careful ? loop<true>(wave, code, budget, counters) : loop<false>(wave, code, budget, counters);
    wave.executed += done;
    budget -= done;
    if (wave.stop == Stop::Mode)
      wave.stop = Stop::None;  // s_setvskip and friends: go on with the other loop, or the same
  }
}

}  // namespace apb::emu
