// One table access finds the encoding, a second the opcode; then every operand by its row. The rest is modifiers.
#include "decode.h"

#include <bit>

#include "decoder.h"

namespace apb::emu {

namespace {

using namespace tables;

// Encodings by the first dword's upper 9 bits. FLAT stands for its three segments, VOP3 and VOP3P for what shares their bits.
struct Base {
  Encoding encoding;
  Pattern pattern;
  Field op;
  const std::uint16_t* rows;
  std::uint8_t dwords;  // without literal, SDWA and DPP
};

constexpr Base kBases[] = {
    {Encoding::Vop1, vop1::kPattern, vop1::kOp, kRowsVop1, 1},
    {Encoding::Vop2, vop2::kPattern, vop2::kOp, kRowsVop2, 1},
    {Encoding::Vopc, vopc::kPattern, vopc::kOp, kRowsVopc, 1},
    {Encoding::Vop3, vop3::kPattern, vop3::kOp, kRowsVop3, 2},
    {Encoding::Vop3p, vop3p::kPattern, vop3p::kOp, kRowsVop3p, 2},
    {Encoding::Sop1, sop1::kPattern, sop1::kOp, kRowsSop1, 1},
    {Encoding::Sop2, sop2::kPattern, sop2::kOp, kRowsSop2, 1},
    {Encoding::Sopc, sopc::kPattern, sopc::kOp, kRowsSopc, 1},
    {Encoding::Sopk, sopk::kPattern, sopk::kOp, kRowsSopk, 1},
    {Encoding::Sopp, sopp::kPattern, sopp::kOp, kRowsSopp, 1},
    {Encoding::Smem, smem::kPattern, smem::kOp, kRowsSmem, 2},
    {Encoding::Ds, ds::kPattern, ds::kOp, kRowsDs, 2},
    {Encoding::Flat, flat::kPattern, flat::kOp, kRowsFlat, 2},
    {Encoding::Mubuf, mubuf::kPattern, mubuf::kOp, kRowsMubuf, 2},
    {Encoding::Mtbuf, mtbuf::kPattern, mtbuf::kOp, kRowsMtbuf, 2},
};

// The longest pattern wins: SOP1 and SOPC are inside SOPK's bits, those inside SOP2's.
constexpr auto kDispatch = [] {
  std::array<std::int8_t, 512> result{};
  constexpr std::uint32_t kUpper = 0xff800000;
  for (std::uint32_t bits = 0; bits < 512; ++bits) {
    int longest = 0;
    result[bits] = -1;
    for (std::size_t b = 0; b < std::size(kBases); ++b) {
      const Pattern pattern{kBases[b].pattern.mask & kUpper, kBases[b].pattern.value & kUpper};
      if ((bits << 23 & pattern.mask) != pattern.value || std::popcount(pattern.mask) <= longest) continue;
      longest = std::popcount(pattern.mask);
      result[bits] = static_cast<std::int8_t>(b);
    }
  }
  return result;
}();

constexpr std::uint16_t kNothing = 0xffff;

const OpcodeRow* find(const Base& base, Target target, const std::uint32_t* code) {
  const std::uint16_t* rows = base.rows;
  if (base.encoding == Encoding::Flat) {
    const std::uint32_t segment = code[0] & flat::kPattern.mask;
    if (segment == global_memory::kPattern.value)
      rows = kRowsGlobal;
    else if (segment == scratch::kPattern.value)
      rows = kRowsScratch;
    else if (segment != flat::kPattern.value)
      return nullptr;
  }
  const std::uint16_t row = rows[base.op.of(code)];
  if (row == kNothing || !(kOpcodeRows[row].targets & (target == Target::Gfx942 ? 1 : 2))) return nullptr;
  return &kOpcodeRows[row];
}

// The MFMA behind the prefix that loads its scales: the two are one instruction of four dwords.
const OpcodeRow* find_scaled(Target target, std::span<const std::uint32_t> code) {
  if (code.size() < 4 || (code[2] & vop3px2::kPattern.mask) != vop3px2::kPattern.value) return nullptr;
  const std::uint16_t row = kRowsVop3px2[vop3px2::kOp.of(code.data())];
  return row == kNothing || target != Target::Gfx950 ? nullptr : &kOpcodeRows[row];
}

}  // namespace

bool decode(Target target, std::span<const std::uint32_t> code, std::uint32_t address, Instruction& out) {
  if (code.empty()) return false;
  const std::int8_t which = kDispatch[code[0] >> 23];
  if (which < 0) return false;
  const Base& base = kBases[which];
  if (code.size() < base.dwords) return false;
  const OpcodeRow* row = find(base, target, code.data());
  if (!row) return false;
  unsigned dwords = base.dwords;
  if (row->opcode == Opcode::V_MFMA_LD_SCALE_B32) {
    if (const OpcodeRow* scaled = find_scaled(target, code)) {
      row = scaled;
      dwords = 4;
    }
  }
  Instruction result;
  result.address = address;
  if (!Decoder(code, *row, dwords, result).run()) return false;
  out = result;
  return true;
}

std::string_view mnemonic(Opcode opcode) { return kOpcodeMnemonics[static_cast<std::size_t>(opcode)]; }
std::string_view name(Encoding encoding) { return kEncodingNames[static_cast<std::size_t>(encoding)]; }
std::string_view name(Target target) { return target == Target::Gfx942 ? "gfx942" : "gfx950"; }

}  // namespace apb::emu
