// The 64 bytes that a kernel's `.kd` symbol names (LLVM, AMDGPUUsage, "Kernel Descriptor").
#pragma once

#include <string>

#include "machine/load/bytes.h"
#include "machine/load/code_object.h"

namespace apb::emu {

namespace property {  // kernel_code_properties
inline constexpr unsigned kPrivateSegmentBuffer = 1, kDispatchPtr = 2, kQueuePtr = 4, kErnargPtr = 8, kDispatchId = 16,
                          kFlatScratchInit = 32, kPrivateSegmentSize = 64, kWave32 = 1u << 10, kDynamicStack = 1u << 11;
}

// Fields of compute_pgm_rsrc1..3 of gfx90a and later that a wave's start depends on.
namespace rsrc {
constexpr std::uint32_t allocated_vgprs(std::uint32_t rsrc1) {
  return ((rsrc1 & 0x3f) + 1) * 8;
}  // both files together
constexpr std::uint32_t accum_offset(std::uint32_t rsrc3) {
  return ((rsrc3 & 0x3f) + 1) * 4;
}  // a0 follows v[accum_offset - 1]
constexpr std::uint32_t float_mode(std::uint32_t rsrc1) { return rsrc1 >> 12 & 0xff; }
constexpr bool dx10_clamp(std::uint32_t rsrc1) { return rsrc1 >> 21 & 1; }
constexpr bool ieee_mode(std::uint32_t rsrc1) { return rsrc1 >> 23 & 1; }
constexpr bool fp16_overflow(std::uint32_t rsrc1) { return rsrc1 >> 26 & 1; }
constexpr std::uint32_t user_sgprs(std::uint32_t rsrc2) { return rsrc2 >> 1 & 0x1f; }
constexpr bool workgroup_id(std::uint32_t rsrc2, int dimension) { return rsrc2 >> (7 + dimension) & 1; }
constexpr bool workgroup_info(std::uint32_t rsrc2) { return rsrc2 >> 10 & 1; }
constexpr std::uint32_t workitem_ids(std::uint32_t rsrc2) { return rsrc2 >> 11 & 3; }  // 0: x, 1: x and y, 2: all three
}  // namespace rsrc

// Fills the kernel from the descriptor at the start of `descriptor`, which is what the hardware goes by; metadata
// (`described`: there are some) that promise the code more than the descriptor gives it are a problem. `address` is the
// descriptor's offset in the image; `code_offset`, `code_bytes` the executable segment's.
[[nodiscard]] bool read_descriptor(Bytes bytes, std::uint64_t address, std::uint64_t code_offset,
                                   std::uint64_t code_bytes, bool described, Kernel& kernel, std::string& problem);

}  // namespace apb::emu
