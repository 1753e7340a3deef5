#include "tolerate.h"

#include <algorithm>

namespace apb::emu {
namespace {

bool returns_data(const Instruction& i) {
  if (!i.destination[0].used() || i.lds) return false;
  return i.category != Category::Atomic || i.sc0 || i.glc;
}

void clear(Wave& wave, const Instruction& instruction, std::uint64_t lanes) {
  const Operand& to = instruction.destination[0];
  if (!returns_data(instruction)) return;
  if (to.kind == OperandKind::Sgpr) {
    std::fill_n(wave.scalar + to.index, to.dwords, 0u);
    return;
  }
  if (to.kind != OperandKind::Vgpr && to.kind != OperandKind::Accvgpr) return;
  std::uint32_t* row = wave.row(to);
  for (int d = 0; d < std::max<int>(to.dwords, 1); ++d)
    for (int lane = 0; lane < kLanes; ++lane)
      if (lanes >> lane & 1) row[d * kLanes + lane] = 0;
}

}  // namespace

// Handlers look at all lanes before they move anything, so the instruction can be done again without those that were wrong.
bool go_on(Wave& wave, const Instruction& instruction) {
  const std::uint64_t exec = wave.exec();
  std::uint64_t dropped = 0;
  while (wave.stop == Stop::Fault && wave.group->tolerates(wave)) {
    const int lane = wave.fault.lane;
    wave.stop = Stop::None;
    wave.fault = {};
    if (lane < 0) {
      clear(wave, instruction, 0);
      break;
    }
    dropped |= std::uint64_t{1} << lane;
    wave.set_pair(sreg::kExec, exec & ~dropped);
    if ((exec & ~dropped) != 0) instruction.execute(wave, instruction);
  }
  wave.set_pair(sreg::kExec, exec);
  if (dropped != 0) clear(wave, instruction, dropped);
  return wave.stop == Stop::None;
}

}  // namespace apb::emu
