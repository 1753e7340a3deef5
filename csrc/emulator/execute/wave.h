// The state of one wave and of its workgroup, as plain data. The scheduler in machine/ owns it, handlers change it.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "fault.h"
#include "isa/instruction.h"

namespace apb::emu {

inline constexpr int kLanes = 64;
inline constexpr int kRowBytes = kLanes * 4;

// Numbers in the scalar file.
namespace sreg {
inline constexpr int kFlatScratch = 102, kXnackMask = 104, kVcc = 106, kTtmp = 108, kM0 = 124, kExec = 126,
                     kCount = 128;
}  // namespace sreg

// MODE register: [3:0] rounding (1:0 f32, 3:2 f64 and f16; 0 even, 1 up, 2 down, 3 zero), [7:4] denormals (5:4 f32, 7:6 f64 and
// f16; 0 flush both, 1 flush outputs.., 3 keep), 8 DX10_CLAMP, 9 IEEE, 23 FP16_OVFL.
struct Mode {
  std::uint32_t bits = 0xf0 | 1u << 8 | 1u << 9;
  unsigned round_f32() const { return bits & 3; }
  unsigned round_f64() const { return bits >> 2 & 3; }  // f16 too
  unsigned denorm_f32() const { return bits >> 4 & 3; }
  unsigned denorm_f64() const { return bits >> 6 & 3; }
  bool dx10_clamp() const { return bits >> 8 & 1; }
  bool ieee() const { return bits >> 9 & 1; }
  bool fp16_overflow() const { return bits >> 23 & 1; }  // clamp f16 and fp8 results to the largest finite value
  // Round to nearest even and keep all denormals: then lane functions may use the processor's default arithmetic.
  bool usual() const { return (bits & 0xff) == 0xf0; }
};

// A range of memory that may be touched, from the device's snapshot at launch.
struct Range {
  std::uint64_t begin = 0, end = 0;
  bool holds(std::uint64_t address, std::uint64_t bytes) const {
    return address >= begin && address + bytes <= end && address + bytes >= address;
  }
};

// Every access goes through one of these; machine/ implements it. Pointers are host addresses: device memory is host memory.
class Memory {
 public:
  virtual ~Memory() = default;
  // The live allocation around [address, address + bytes); false when there is none.
  virtual bool find(std::uint64_t address, std::uint64_t bytes, Range& out) const = 0;
  // For the message of a fault: "87 bytes past the end of allocation 12 (4096 bytes at 0x...)", "inside allocation 3, freed".
  virtual void describe(std::uint64_t address, std::uint64_t bytes, char* text, std::size_t size) const = 0;
};

class Lines;
class Observer;  // whoever looks at each instruction: checks, counters, a debugger. Null: nobody does.

struct Wave;

struct Workgroup {
  const char* kernel = "";       // its name, for messages
  const Lines* lines = nullptr;  // where its code comes from, for messages; null: nobody knows
  std::uint8_t* lds = nullptr;
  std::uint32_t lds_bytes = 0;     // static and dynamic, what the launch asked for
  std::uint32_t id[3] = {};        // workgroup number
  std::uint64_t shared_base = 0;   // aperture: flat addresses in [shared_base, +4 GiB) are LDS
  std::uint64_t private_base = 0;  // aperture of scratch
  // Is the access at which the wave has just stopped one to go on from? Then it is noted. Null: none is.
  bool (*tolerates)(const Wave& wave) = nullptr;
  std::uint32_t waves = 0, waiting = 0, ended = 0;  // barrier bookkeeping of the scheduler
};

enum class Stop : std::uint8_t {
  None,     // go on
  Barrier,  // waits for the workgroup's other waves
  Yield,    // s_sleep, s_sethalt, spinning: let others run, then go on
  Ended,    // s_endpgm
  Fault,    // wave.fault says what
  Mode,  // only inside run(): MODE changed how instructions are read (VSKIP, GPR indexing); never seen by the scheduler
};

struct Counters {
  std::uint64_t instructions[kCategoryCount] = {};
  std::uint64_t flops = 0;                            // MFMA only: 2 x multiply-adds
  std::uint64_t global_read = 0, global_written = 0;  // bytes asked for by active lanes, atomics in both
  std::uint64_t lds_read = 0, lds_written = 0;
  std::uint64_t written_as_it_was = 0;  // of what was written: atomics that changed nothing
};

struct Wave {
  // 512 rows of 64 lanes: v0..v255, then a0..a255. Row r of lane l is vector[r * 64 + l]; a 64-bit operand is two rows.
  std::uint32_t* vector = nullptr;
  alignas(16) std::uint32_t scalar[sreg::kCount] = {};
  std::uint64_t code_base = 0;  // host address of the code; the program counter is code_base + pc * 4
  std::uint32_t pc = 0;         // in dwords from code_base
  std::uint32_t code_dwords = 0;
  bool scc = false;
  Stop stop = Stop::None;
  Mode mode;
  Target target{};
  std::uint8_t number = 0;  // in the workgroup
  Workgroup* group = nullptr;
  const Memory* memory = nullptr;
  Range recent;  // last allocation that was found: nearly every access hits it
  std::uint8_t* scratch =
      nullptr;  // of this wave: 64 lanes x scratch_bytes, lane-major (lane l at scratch + l * scratch_bytes)
  std::uint32_t scratch_bytes = 0;  // per lane
  Observer* observer = nullptr;
  Counters* counters = nullptr;
  std::uint64_t executed = 0;                 // instructions, against the limit
  std::uint32_t status = 0, trap_status = 0;  // for s_getreg
  std::uint32_t hardware_id = 0, xcc_id = 0;
  const std::uint64_t* cycles = nullptr;  // the timing model's clock; null: clocks that a kernel reads are the host's
  const Instruction* current = nullptr;   // for messages
  Fault fault;

  std::uint64_t exec() const { return pair(sreg::kExec); }
  std::uint64_t vcc() const { return pair(sreg::kVcc); }
  std::uint64_t pair(int index) const { return scalar[index] | static_cast<std::uint64_t>(scalar[index + 1]) << 32; }
  void set_pair(int index, std::uint64_t value) {
    scalar[index] = static_cast<std::uint32_t>(value);
    scalar[index + 1] = static_cast<std::uint32_t>(value >> 32);
  }
  std::uint32_t* row(const Operand& operand) const {  // of a vgpr or accvgpr operand
    return vector + (operand.index + (operand.kind == OperandKind::Accvgpr ? 256 : 0)) * kLanes;
  }
  bool active(int lane) const { return exec() >> lane & 1; }
};

// Stops the wave with a fault that names kernel, address, workgroup, wave and lane (lane -1: no lane in particular).
// printf-style; defined in fault.cpp.
[[gnu::cold, gnu::format(printf, 4, 5)]] void raise(Wave& wave, FaultKind kind, int lane, const char* format, ...);

}  // namespace apb::emu
