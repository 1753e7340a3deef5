// Matrix and memory instructions: what their encodings have beside operands.
#include "decoder.h"

namespace apb::emu::tables {

namespace {

// Registers and formats of a matrix in one of the five formats of f8f6f4; 32 values per lane.
void small_float(std::uint8_t which, Operand& out) {
  constexpr Format kFormats[] = {Format::Pk32Fp8, Format::Pk32Bf8, Format::Pk32Fp6, Format::Pk32Bf6, Format::Pk2Fp4};
  constexpr std::uint8_t kDwords[] = {8, 8, 6, 6, 4};
  if (which >= std::size(kFormats)) return;
  out.format = kFormats[which];
  out.dwords = kDwords[which];
}

// An atomic returns the old value when sc0 is set. A compare and swap is given twice what it returns.
void keep_return(Instruction& i, const Operand& returned) {
  if (i.category != Category::Atomic) return;
  i.destination[0] = i.sc0 ? returned : Operand{};
}

}  // namespace

void Decoder::matrix() {
  const bool scaled = row_.encoding == Encoding::Vop3px2;
  const std::uint32_t acc = get(scaled ? vop3px2::kAcc : vop3p_mfma::kAcc);
  const bool acc_cd = flag(scaled ? vop3px2::kAccCd : vop3p_mfma::kAccCd);
  if (i_.opcode == Opcode::V_ACCVGPR_READ || i_.opcode == Opcode::V_ACCVGPR_WRITE) return;
  i_.cbsz = static_cast<std::uint8_t>(get(scaled ? vop3px2::kCbsz : vop3p_mfma::kCbsz));
  // Its lowest bit says in VOP3PX2 that there are scales.
  i_.abid = static_cast<std::uint8_t>(scaled ? 0 : get(vop3p_mfma::kAbid));
  i_.blgp = static_cast<std::uint8_t>(get(scaled ? vop3px2::kBlgp : vop3p_mfma::kBlgp));
  if (scaled) {
    i_.opsel = static_cast<std::uint8_t>(get(vop3px2::kOpsel) & 3);
    i_.opsel_hi = static_cast<std::uint8_t>(get(vop3px2::kOpselHi));
  }
  const auto accumulate = [](Operand& operand) {
    if (operand.kind == OperandKind::Vgpr) operand.kind = OperandKind::Accvgpr;
  };
  if (acc & 1) accumulate(i_.source[0]);
  if (acc & 2) accumulate(i_.source[1]);
  // The sparse forms' third source is the index, which stays a vgpr; the matrix that they add to is the destination.
  if (acc_cd) accumulate(i_.destination[0]);
  if (acc_cd && i_.source[2].format != Format::B32) accumulate(i_.source[2]);
  if (scaled || i_.opcode == Opcode::V_MFMA_F32_16X16X128_F8F6F4 || i_.opcode == Opcode::V_MFMA_F32_32X32X64_F8F6F4) {
    small_float(i_.cbsz, i_.source[0]);
    small_float(i_.blgp, i_.source[1]);
  }
}

// Offset: 21 bits with sign, a register, or both. Without `imm` and `soffset_en` the register's number stands in the offset.
bool Decoder::scalar_memory() {
  i_.glc = flag(smem::kGlc);
  Operand* offset = nullptr;
  for (unsigned k = 0; k < row_.operands; ++k) {
    const OperandRow& row = kOperandRows[row_.first + k];
    if (row.type == OperandType::SmemOffset) offset = &slot(row.slot);
  }
  if (!offset) return true;
  offset->kind = OperandKind::Off;
  offset->dwords = 1;
  if (flag(smem::kImm)) i_.offset = static_cast<std::int32_t>(get(smem::kOffset) << 11) >> 11;
  if (flag(smem::kSoffsetEn))
    scalar(get(smem::kSoffset), *offset);
  else if (!flag(smem::kImm))
    scalar(get(smem::kOffset) & 127, *offset);
  constexpr unsigned kFirstAtomic = 64;  // in the numbers of SMEM
  if (row_.number >= kFirstAtomic && i_.glc) i_.destination[0] = i_.source[1];
  return offset->index != 125 || offset->kind == OperandKind::Off;
}

void Decoder::local() {
  i_.offset0 = static_cast<std::uint8_t>(get(ds::kOffset0));
  i_.offset1 = static_cast<std::uint8_t>(get(ds::kOffset1));
  i_.offset = i_.offset0 | i_.offset1 << 8;
  i_.gds = flag(ds::kGds);
}

void Decoder::flat_memory() {
  i_.sc0 = flag(flat::kSc0);
  i_.sc1 = flag(flat::kSc1);
  i_.nt = flag(flat::kNt);
  keep_return(i_, i_.destination[0]);
  Operand& address = i_.source[0];
  if (row_.encoding == Encoding::Flat) {
    i_.offset = static_cast<std::int32_t>(get(flat::kOffset));
    return;
  }
  i_.offset = static_cast<std::int32_t>(get(global_memory::kOffset) << 19) >> 19;
  Operand& base = i_.source[i_.source[2].kind == OperandKind::None ? 1 : 2];
  if (base.index == 127) base.kind = OperandKind::Off;
  if (row_.encoding == Encoding::Global) {
    if (base.used()) address.dwords = 1;  // an offset to the scalar address, 32 bits
  } else {
    i_.sve = flag(scratch::kSve);
    if (!i_.sve) address.kind = OperandKind::Off;
  }
  if (i_.category == Category::VmemLoad && i_.destination[0].kind == OperandKind::None) i_.lds = true;
}

void Decoder::buffer() {
  const bool typed = row_.encoding == Encoding::Mtbuf;
  i_.sc0 = flag(mubuf::kSc0);
  i_.sc1 = flag(typed ? mtbuf::kSc1 : mubuf::kSc1);
  i_.nt = flag(typed ? mtbuf::kNt : mubuf::kNt);
  if (!row_.operands) return;  // buffer_inv, buffer_wbl2
  i_.offset = static_cast<std::int32_t>(get(mubuf::kOffset));
  i_.offen = flag(mubuf::kOffen);
  i_.idxen = flag(mubuf::kIdxen);
  Operand& address = i_.source[0];
  address.dwords = static_cast<std::uint8_t>(i_.offen + i_.idxen);
  if (!address.dwords) address.kind = OperandKind::Off;
  if (typed) {
    i_.data_format = static_cast<std::uint8_t>(get(mtbuf::kDfmt));
    i_.number_format = static_cast<std::uint8_t>(get(mtbuf::kNfmt));
    return;
  }
  i_.lds = flag(mubuf::kLds);
  if (i_.lds && i_.category == Category::VmemLoad) i_.destination[0] = Operand{};
  Operand returned = i_.source[1];
  if (i_.opcode == Opcode::BUFFER_ATOMIC_CMPSWAP || i_.opcode == Opcode::BUFFER_ATOMIC_CMPSWAP_X2) returned.dwords /= 2;
  keep_return(i_, returned);
}

}  // namespace apb::emu::tables
