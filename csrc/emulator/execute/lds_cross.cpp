// DS instructions that move data between lanes and touch no memory. Sources of lanes that are off give 0.
#include <array>

#include "lds.h"
#include "memory_table.h"

namespace apb::emu {
namespace {

unsigned reversed5(unsigned value) {
  unsigned out = 0;
  for (int b = 0; b < 5; ++b) out |= (value >> b & 1) << (4 - b);
  return out;
}

// The lane that lane `i` reads (CDNA3 ISA, ds_swizzle_b32). All modes stay inside groups of 32 lanes.
unsigned swizzle_source(unsigned i, unsigned offset) {
  const unsigned in = i & 31, group = i & 32;
  if (offset >= 0xe000) {  // the order of a fast Fourier transform
    const unsigned mask = offset & 31;
    return mask == 31 ? i : group | (reversed5(in) >> std::popcount(mask)) | (in & mask);
  }
  if (offset >= 0xc000) {  // rotation; bits of `mask` stay
    const unsigned mask = offset & 31, by = offset >> 5 & 31, turned = offset >> 10 & 1 ? in - by : in + by;
    return group | (in & mask) | (turned & 31 & ~mask);
  }
  if (offset & 0x8000) return (i & ~3u) | (offset >> (2 * (i & 3)) & 3);  // inside four lanes
  return group | ((((in & offset) | offset >> 5) ^ offset >> 10) & 31);   // and, or, xor masks of 5 bits
}

// out[lane] = data[source(lane)] for active lanes; data may be out.
template <typename Source>
void gather(Wave& wave, const std::uint32_t* data, std::uint32_t* out, Source&& source) {
  const std::uint64_t active = wave.exec();
  std::uint32_t value[kLanes];
  for (unsigned l = 0; l < kLanes; ++l) {
    const unsigned from = source(l);
    value[l] = active >> from & 1 ? data[from] : 0;
  }
  for_lanes(active, [&](int l) { out[l] = value[l]; });
}

void swizzle(Wave& wave, const Instruction& instruction) {
  const unsigned offset = lds_offset(instruction);
  gather(wave, wave.row(lds_address(instruction)), wave.row(instruction.destination[0]),
         [&](unsigned l) { return swizzle_source(l, offset); });
}

// Pull: the address names the lane to read, in bytes; high bits are ignored.
void bpermute(Wave& wave, const Instruction& instruction) {
  const std::uint32_t *address = wave.row(lds_address(instruction)), offset = lds_offset(instruction);
  gather(wave, wave.row(lds_data(instruction)), wave.row(instruction.destination[0]),
         [&](unsigned l) { return (address[l] + offset) / 4 % 64; });
}

// Push: the address names the lane to write; the highest source lane wins, lanes that nobody names get 0.
void permute(Wave& wave, const Instruction& instruction) {
  const std::uint32_t *address = wave.row(lds_address(instruction)), *data = wave.row(lds_data(instruction));
  const std::uint32_t offset = lds_offset(instruction);
  std::array<std::uint32_t, kLanes> value{};
  for_lanes(wave.exec(), [&](int l) { value[(address[l] + offset) / 4 % 64] = data[l]; });
  std::uint32_t* out = wave.row(instruction.destination[0]);
  for_lanes(wave.exec(), [&](int l) { out[l] = value[l]; });
}

}  // namespace

bool bind_lds_cross(Instruction& instruction) {
  static const MemoryTable rows{
      {Opcode::DS_SWIZZLE_B32, swizzle},
      {Opcode::DS_PERMUTE_B32, permute},
      {Opcode::DS_BPERMUTE_B32, bpermute},
  };
  return rows.bind(instruction);
}

}  // namespace apb::emu
