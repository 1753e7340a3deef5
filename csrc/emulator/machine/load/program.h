// A piece of code as records, one slot per dword: what run() walks over.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "execute/bind.h"

namespace apb::emu {

// Decodes `code` from its start and again from each dword index in `starts` (sorted): where a function begins an
// instruction begins, whatever data lies before it. Slots inside an instruction and slots that no encoding matches have
// no handler.
std::vector<Instruction> decode_program(Target target, std::span<const std::uint32_t> code,
                                        std::span<const std::uint32_t> starts);

// The fixed garbage of registers and LDS that nobody has written: a signalling NaN as f32, a NaN in the high f16, no
// valid address.
inline constexpr std::uint32_t kPoison = 0x7fbadbadu;

// Apertures: flat addresses whose high half is this are LDS or scratch. Beyond the 47 bits that the host's processes
// use, low half zero because LLVM takes only the high half of src_shared_base.
inline constexpr std::uint64_t kSharedAperture = 0x0001'0000'0000'0000ull, kPrivateAperture = 0x0002'0000'0000'0000ull;

}  // namespace apb::emu
