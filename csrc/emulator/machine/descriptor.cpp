#include "descriptor.h"

#include <algorithm>

#include "metadata.h"

namespace apb::emu {
namespace {

struct KernelDescriptor {
  std::uint32_t group_segment_fixed_size, private_segment_fixed_size, kernarg_size;
  std::uint8_t reserved0[4];
  std::int64_t entry_offset;  // from the descriptor itself
  std::uint8_t reserved1[20];
  std::uint32_t rsrc3, rsrc1, rsrc2;
  std::uint16_t properties, kernarg_preload;
  std::uint8_t reserved2[4];
};
static_assert(sizeof(KernelDescriptor) == 64);

// Code for kernarg preload begins with 256 bytes that do the same by loads, for firmware without it; firmware with it
// starts behind them.
constexpr std::uint64_t kPreloadPrologue = 256;

}  // namespace

bool read_descriptor(Bytes bytes, std::uint64_t address, std::uint64_t code_offset, std::uint64_t code_bytes,
                     Kernel& kernel, std::string& problem) {
  KernelDescriptor d;
  if (!get(bytes, 0, d)) {
    problem = "kernel " + kernel.name + ": its descriptor lies outside the image";
    return false;
  }
  kernel.static_lds = std::max(kernel.static_lds, d.group_segment_fixed_size);
  kernel.private_bytes = std::max(kernel.private_bytes, d.private_segment_fixed_size);
  kernel.kernarg_bytes = std::max(kernel.kernarg_bytes, d.kernarg_size);
  if (kernel.kernarg_bytes > kMostArgumentBytes) {
    problem = "kernel " + kernel.name + ": " + std::to_string(kernel.kernarg_bytes) + " bytes of arguments";
    return false;
  }
  kernel.rsrc1 = d.rsrc1;
  kernel.rsrc2 = d.rsrc2;
  kernel.rsrc3 = d.rsrc3;
  kernel.properties = d.properties;
  kernel.vgprs = rsrc::allocated_vgprs(d.rsrc1);
  kernel.accum_offset = rsrc::accum_offset(d.rsrc3);
  kernel.preload_length = d.kernarg_preload & 0x7f;
  kernel.preload_offset = d.kernarg_preload >> 7;
  kernel.dynamic_stack = kernel.dynamic_stack || (d.properties & property::kDynamicStack);
  if (d.properties & property::kWave32) {
    problem = "kernel " + kernel.name + " is for waves of 32 lanes, the device has 64";
    return false;
  }
  const std::uint64_t entry =
      address + static_cast<std::uint64_t>(d.entry_offset) + (kernel.preload_length ? kPreloadPrologue : 0);
  if (entry < code_offset || entry - code_offset >= code_bytes || entry % 4) {
    problem = "kernel " + kernel.name + ": its entry lies outside the code";
    return false;
  }
  kernel.entry = static_cast<std::uint32_t>(entry - code_offset);
  return true;
}

}  // namespace apb::emu
