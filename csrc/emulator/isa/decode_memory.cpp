// Matrix and memory instructions: what their encodings have beside operands.
#include "decoder.h"

namespace apb::emu::tables {

namespace {

// Registers and formats of a matrix in one of the five formats of f8f6f4; 32 values per lane.
void small_float(std::uint8_t which, Operand& out) {
  constexpr Format formats[] = {Format::pk32_fp8, Format::pk32_bf8, Format::pk32_fp6, Format::pk32_bf6,
                                Format::pk2_fp4};
  constexpr std::uint8_t dwords[] = {8, 8, 6, 6, 4};
  if (which >= std::size(formats)) return;
  out.format = formats[which];
  out.dwords = dwords[which];
}

// An atomic returns the old value when sc0 is set. A compare and swap is given twice what it returns.
void keep_return(Instruction& i, const Operand& returned) {
  if (i.category != Category::atomic) return;
  i.destination[0] = i.sc0 ? returned : Operand{};
}

}  // namespace

void Decoder::matrix() {
  const bool scaled = row_.encoding == Encoding::vop3px2;
  const std::uint32_t acc = get(scaled ? vop3px2::acc : vop3p_mfma::acc);
  const bool acc_cd = flag(scaled ? vop3px2::acc_cd : vop3p_mfma::acc_cd);
  if (i_.opcode == Opcode::V_ACCVGPR_READ || i_.opcode == Opcode::V_ACCVGPR_WRITE) return;
  i_.cbsz = static_cast<std::uint8_t>(get(scaled ? vop3px2::cbsz : vop3p_mfma::cbsz));
  // Its lowest bit says in VOP3PX2 that there are scales.
  i_.abid = static_cast<std::uint8_t>(scaled ? 0 : get(vop3p_mfma::abid));
  i_.blgp = static_cast<std::uint8_t>(get(scaled ? vop3px2::blgp : vop3p_mfma::blgp));
  if (scaled) {
    i_.opsel = static_cast<std::uint8_t>(get(vop3px2::opsel) & 3);
    i_.opsel_hi = static_cast<std::uint8_t>(get(vop3px2::opsel_hi));
  }
  const auto accumulate = [](Operand& operand) {
    if (operand.kind == OperandKind::vgpr) operand.kind = OperandKind::accvgpr;
  };
  if (acc & 1) accumulate(i_.source[0]);
  if (acc & 2) accumulate(i_.source[1]);
  // The sparse forms' third source is the index, which stays a vgpr; the matrix that they add to is the destination.
  if (acc_cd) accumulate(i_.destination[0]);
  if (acc_cd && i_.source[2].format != Format::b32) accumulate(i_.source[2]);
  if (scaled || i_.opcode == Opcode::V_MFMA_F32_16X16X128_F8F6F4 || i_.opcode == Opcode::V_MFMA_F32_32X32X64_F8F6F4) {
    small_float(i_.cbsz, i_.source[0]);
    small_float(i_.blgp, i_.source[1]);
  }
}

// Offset: 21 bits with sign, a register, or both. Without `imm` and `soffset_en` the register's number stands in the offset.
bool Decoder::scalar_memory() {
  i_.glc = flag(smem::glc);
  Operand* offset = nullptr;
  for (unsigned k = 0; k < row_.operands; ++k) {
    const OperandRow& row = operand_rows[row_.first + k];
    if (row.type == OperandType::smem_offset) offset = &slot(row.slot);
  }
  if (!offset) return true;
  offset->kind = OperandKind::off;
  offset->dwords = 1;
  if (flag(smem::imm)) i_.offset = static_cast<std::int32_t>(get(smem::offset) << 11) >> 11;
  if (flag(smem::soffset_en))
    scalar(get(smem::soffset), *offset);
  else if (!flag(smem::imm))
    scalar(get(smem::offset) & 127, *offset);
  constexpr unsigned first_atomic = 64;  // in the numbers of SMEM
  if (row_.number >= first_atomic && i_.glc) i_.destination[0] = i_.source[1];
  return offset->index != 125 || offset->kind == OperandKind::off;
}

void Decoder::local() {
  i_.offset0 = static_cast<std::uint8_t>(get(ds::offset0));
  i_.offset1 = static_cast<std::uint8_t>(get(ds::offset1));
  i_.offset = i_.offset0 | i_.offset1 << 8;
  i_.gds = flag(ds::gds);
}

void Decoder::flat_memory() {
  i_.sc0 = flag(flat::sc0);
  i_.sc1 = flag(flat::sc1);
  i_.nt = flag(flat::nt);
  keep_return(i_, i_.destination[0]);
  Operand& address = i_.source[0];
  if (row_.encoding == Encoding::flat) {
    i_.offset = static_cast<std::int32_t>(get(flat::offset));
    return;
  }
  i_.offset = static_cast<std::int32_t>(get(global_::offset) << 19) >> 19;
  Operand& base = i_.source[i_.source[2].kind == OperandKind::none ? 1 : 2];
  if (base.index == 127) base.kind = OperandKind::off;
  if (row_.encoding == Encoding::global) {
    if (base.used()) address.dwords = 1;  // an offset to the scalar address, 32 bits
  } else {
    i_.sve = flag(scratch::sve);
    if (!i_.sve) address.kind = OperandKind::off;
  }
  if (i_.category == Category::vmem_load && i_.destination[0].kind == OperandKind::none) i_.lds = true;
}

void Decoder::buffer() {
  const bool typed = row_.encoding == Encoding::mtbuf;
  i_.sc0 = flag(mubuf::sc0);
  i_.sc1 = flag(typed ? mtbuf::sc1 : mubuf::sc1);
  i_.nt = flag(typed ? mtbuf::nt : mubuf::nt);
  if (!row_.operands) return;  // buffer_inv, buffer_wbl2
  i_.offset = static_cast<std::int32_t>(get(mubuf::offset));
  i_.offen = flag(mubuf::offen);
  i_.idxen = flag(mubuf::idxen);
  Operand& address = i_.source[0];
  address.dwords = static_cast<std::uint8_t>(i_.offen + i_.idxen);
  if (!address.dwords) address.kind = OperandKind::off;
  if (typed) {
    i_.data_format = static_cast<std::uint8_t>(get(mtbuf::dfmt));
    i_.number_format = static_cast<std::uint8_t>(get(mtbuf::nfmt));
    return;
  }
  i_.lds = flag(mubuf::lds);
  if (i_.lds && i_.category == Category::vmem_load) i_.destination[0] = Operand{};
  Operand returned = i_.source[1];
  if (i_.opcode == Opcode::BUFFER_ATOMIC_CMPSWAP || i_.opcode == Opcode::BUFFER_ATOMIC_CMPSWAP_X2) returned.dwords /= 2;
  keep_return(i_, returned);
}

}  // namespace apb::emu::tables
