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

constexpr Base bases[] = {
    {Encoding::vop1, vop1::pattern, vop1::op, rows_vop1, 1},
    {Encoding::vop2, vop2::pattern, vop2::op, rows_vop2, 1},
    {Encoding::vopc, vopc::pattern, vopc::op, rows_vopc, 1},
    {Encoding::vop3, vop3::pattern, vop3::op, rows_vop3, 2},
    {Encoding::vop3p, vop3p::pattern, vop3p::op, rows_vop3p, 2},
    {Encoding::sop1, sop1::pattern, sop1::op, rows_sop1, 1},
    {Encoding::sop2, sop2::pattern, sop2::op, rows_sop2, 1},
    {Encoding::sopc, sopc::pattern, sopc::op, rows_sopc, 1},
    {Encoding::sopk, sopk::pattern, sopk::op, rows_sopk, 1},
    {Encoding::sopp, sopp::pattern, sopp::op, rows_sopp, 1},
    {Encoding::smem, smem::pattern, smem::op, rows_smem, 2},
    {Encoding::ds, ds::pattern, ds::op, rows_ds, 2},
    {Encoding::flat, flat::pattern, flat::op, rows_flat, 2},
    {Encoding::mubuf, mubuf::pattern, mubuf::op, rows_mubuf, 2},
    {Encoding::mtbuf, mtbuf::pattern, mtbuf::op, rows_mtbuf, 2},
};

// The longest pattern wins: SOP1 and SOPC are inside SOPK's bits, those inside SOP2's.
constexpr auto dispatch = [] {
  std::array<std::int8_t, 512> result{};
  constexpr std::uint32_t upper = 0xff800000;
  for (std::uint32_t bits = 0; bits < 512; ++bits) {
    int longest = 0;
    result[bits] = -1;
    for (std::size_t b = 0; b < std::size(bases); ++b) {
      const Pattern pattern{bases[b].pattern.mask & upper, bases[b].pattern.value & upper};
      if ((bits << 23 & pattern.mask) != pattern.value || std::popcount(pattern.mask) <= longest) continue;
      longest = std::popcount(pattern.mask);
      result[bits] = static_cast<std::int8_t>(b);
    }
  }
  return result;
}();

constexpr std::uint16_t nothing = 0xffff;

const OpcodeRow* find(const Base& base, Target target, const std::uint32_t* code) {
  const std::uint16_t* rows = base.rows;
  if (base.encoding == Encoding::flat) {
    const std::uint32_t segment = code[0] & flat::pattern.mask;
    if (segment == global_::pattern.value)
      rows = rows_global;
    else if (segment == scratch::pattern.value)
      rows = rows_scratch;
    else if (segment != flat::pattern.value)
      return nullptr;
  }
  const std::uint16_t row = rows[base.op.of(code)];
  if (row == nothing || !(opcode_rows[row].targets & (target == Target::gfx942 ? 1 : 2))) return nullptr;
  return &opcode_rows[row];
}

// The MFMA behind the prefix that loads its scales: the two are one instruction of four dwords.
const OpcodeRow* find_scaled(Target target, std::span<const std::uint32_t> code) {
  if (code.size() < 4 || (code[2] & vop3px2::pattern.mask) != vop3px2::pattern.value) return nullptr;
  const std::uint16_t row = rows_vop3px2[vop3px2::op.of(code.data())];
  return row == nothing || target != Target::gfx950 ? nullptr : &opcode_rows[row];
}

}  // namespace

bool decode(Target target, std::span<const std::uint32_t> code, std::uint32_t address, Instruction& out) {
  if (code.empty()) return false;
  const int which = dispatch[code[0] >> 23];
  if (which < 0) return false;
  const Base& base = bases[which];
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

std::string_view mnemonic(Opcode opcode) { return opcode_mnemonics[static_cast<std::size_t>(opcode)]; }
std::string_view name(Encoding encoding) { return encoding_names[static_cast<std::size_t>(encoding)]; }
std::string_view name(Target target) { return target == Target::gfx942 ? "gfx942" : "gfx950"; }

}  // namespace apb::emu
