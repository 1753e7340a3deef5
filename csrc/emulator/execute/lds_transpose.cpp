// Transposing LDS reads of gfx950 (CDNA4 ISA, 11.4 "MFMA Transpose Load from LDS"). 16 lanes work together: each
// fetches 64 bits (96 for 6-bit elements) from its own address; fetched bits, lane after lane, are the rows of a matrix
// with 16 columns; lane i of the 16 receives column i. So a lane gets as many elements as it fetched, consecutive along
// K for the matrix instructions.
#include "lds.h"
#include "memory_table.h"

namespace apb::emu {
namespace {

// Element `e` of `Bits` bits in a string of little-endian dwords.
template <int Bits>
unsigned element(const std::uint32_t* words, int e) {
  const int first = e * Bits;
  std::uint64_t two = words[first / 32];
  if (first % 32 + Bits > 32) two |= static_cast<std::uint64_t>(words[first / 32 + 1]) << 32;
  return static_cast<unsigned>(two >> (first % 32)) & ((1u << Bits) - 1);
}

template <int Bits>
void transpose(Wave& wave, const Instruction& instruction) {
  constexpr int kDwords = Bits == 6 ? 3 : 2, kElements = kDwords * 32 / Bits, kTeam = 16;
  alignas(64) std::uint64_t at[kLanes];
  if (!lds_lanes(wave, wave.row(lds_address(instruction)), lds_offset(instruction), kDwords * 4, LdsAccess::Read, at))
    return;
  const std::uint64_t active = wave.exec();  // must be all lanes on hardware; lanes that are off fetch zeros here
  std::uint32_t fetched[kLanes][kDwords] = {}, out[kLanes][kDwords] = {};
  for_lanes(active, [&](int l) { std::memcpy(fetched[l], reinterpret_cast<const void*>(at[l]), kDwords * 4); });
  for (int l = 0; l < kLanes; ++l) {
    const int first = l & ~(kTeam - 1), column = l % kTeam;
    for (int row = 0; row < kElements; ++row) {
      const int e = row * kTeam + column;
      const std::uint64_t value = element<Bits>(fetched[first + e / kElements], e % kElements);
      const int bit = row * Bits;
      out[l][bit / 32] |= static_cast<std::uint32_t>(value << (bit % 32));
      if (bit % 32 + Bits > 32) out[l][bit / 32 + 1] |= static_cast<std::uint32_t>(value >> (32 - bit % 32));
    }
  }
  std::uint32_t* rows = wave.row(instruction.destination[0]);
  for_lanes(active, [&](int l) {
    for (int d = 0; d < kDwords; ++d) rows[d * kLanes + l] = out[l][d];
  });
  count_lds(wave, active, kDwords * 4, LdsAccess::Read);
}

}  // namespace

bool bind_lds_transpose(Instruction& instruction) {
  static const MemoryTable rows{
      {Opcode::DS_READ_B64_TR_B16, transpose<16>},
      {Opcode::DS_READ_B64_TR_B8, transpose<8>},
      {Opcode::DS_READ_B64_TR_B4, transpose<4>},
      {Opcode::DS_READ_B96_TR_B6, transpose<6>},
  };
  return rows.bind(instruction);
}

}  // namespace apb::emu
