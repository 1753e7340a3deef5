#include "machine/load/descriptor.h"

#include "machine/load/metadata.h"

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
constexpr std::uint64_t kPreloadPrologue = 256, kEntryAlignment = 256;

bool differs(const Kernel& kernel, const char* what, std::uint32_t metadata, std::uint32_t descriptor,
             std::string& problem) {
  problem = "kernel " + kernel.name + ": " + what + " is " + std::to_string(metadata) + " bytes in the metadata, " +
            std::to_string(descriptor) + " in the descriptor";
  return false;
}

// KERNARG_SIZE 0 leaves the size open; the fixed sizes of memory are what the hardware sets aside.
bool same_sizes(const KernelDescriptor& d, const Kernel& kernel, std::string& problem) {
  if (d.kernarg_size && d.kernarg_size != kernel.kernarg_bytes)
    return differs(kernel, "kernarg size", kernel.kernarg_bytes, d.kernarg_size, problem);
  if (kernel.static_lds > d.group_segment_fixed_size)
    return differs(kernel, "static LDS", kernel.static_lds, d.group_segment_fixed_size, problem);
  if (kernel.private_bytes > d.private_segment_fixed_size)
    return differs(kernel, "scratch", kernel.private_bytes, d.private_segment_fixed_size, problem);
  return true;
}

}  // namespace

bool read_descriptor(Bytes bytes, std::uint64_t address, std::uint64_t code_offset, std::uint64_t code_bytes,
                     bool described, Kernel& kernel, std::string& problem) {
  KernelDescriptor d;
  if (!get(bytes, 0, d)) {
    problem = "kernel " + kernel.name + ": its descriptor lies outside the image";
    return false;
  }
  if (d.kernarg_size > kMostArgumentBytes) {
    problem = "kernel " + kernel.name + ": " + std::to_string(d.kernarg_size) + " bytes of arguments";
    return false;
  }
  if (described && !same_sizes(d, kernel, problem)) return false;
  kernel.static_lds = d.group_segment_fixed_size;
  kernel.private_bytes = d.private_segment_fixed_size;
  if (!described) kernel.kernarg_bytes = d.kernarg_size;
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
  if (entry < code_offset || entry - code_offset >= code_bytes || entry % kEntryAlignment) {
    problem = "kernel " + kernel.name + ": its entry lies outside the code or is not aligned to 256 bytes";
    return false;
  }
  kernel.entry = static_cast<std::uint32_t>(entry - code_offset);
  return true;
}

}  // namespace apb::emu
