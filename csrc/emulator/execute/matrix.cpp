// Execution of matrix instructions, from operands to counters.
#include "matrix.h"

#include <algorithm>

#include "bind.h"
#include "lanes.h"
#include "operands.h"
#include "processor.h"
#include "small_float.h"

namespace apb::emu {
namespace {

using enum Element;
constexpr Element kFormatElements[kMatrixFormats] = {Fp8, Bf8, Fp6, Bf6, Fp4};  // CBSZ and BLGP of f8f6f4

// Everything one execution needs. Big: the constructor leaves the arrays as they are.
struct Work {
  Work(Wave& wave, const Instruction& instruction, const MatrixShape& shape)
      : wave(wave), instruction(instruction), shape(shape) {
    const bool formats = shape.a == ByFormat;
    a = formats ? kFormatElements[instruction.cbsz] : shape.a;
    b = formats ? kFormatElements[instruction.blgp] : shape.b;
  }
  Wave& wave;
  const Instruction& instruction;
  const MatrixShape& shape;
  Element a, b;
  const u32* a_rows;
  const u32* b_rows;
  const u32* c_rows;
  u32* d_rows;
  alignas(64) u32 copy_a[8 * kLanes], copy_b[8 * kLanes], copy_c[32 * kLanes];
  MatrixScratch scratch;
};

bool is_register(const Operand& operand) {
  return operand.kind == OperandKind::Vgpr || operand.kind == OperandKind::Accvgpr;
}

// The rows of an operand; scalars and constants are spread out. `rows` of them, in pairs (low, high) for f64.
const u32* rows_of(const Wave& wave, const Operand& operand, int rows, bool wide, u32* copy) {
  if (is_register(operand)) return wave.row(operand);
  const u64 value = wide ? read64(wave, operand) : read32(wave, operand);
  for (int r = 0; r < rows; ++r)
    std::fill_n(copy + r * kLanes, kLanes, static_cast<u32>(wide && r % 2 ? value >> 32 : value));
  return copy;
}

int rows_for(int elements, int bits) {
  return (elements * bits / 64 + 31) / 32;
}  // `elements` of the whole operand, 64 lanes

bool overlaps(const u32* a, int a_rows, const u32* b, int b_rows) {
  return a < b + b_rows * kLanes && b < a + a_rows * kLanes;
}

const u32* keep(const u32* rows, int count, u32* copy) {
  std::copy_n(rows, count * kLanes, copy);
  return copy;
}

void fetch_operands(Work& w) {
  const MatrixShape& s = w.shape;
  const bool wide = s.a == F64;
  const int a_rows = rows_for(s.m * (s.sparse ? s.k / 2 : s.k) * s.blocks, element_bits(w.a));
  const int b_rows = rows_for(s.n * s.k * s.blocks, element_bits(w.b));
  const int d_rows = rows_for(s.m * s.n * s.blocks, wide ? 64 : 32);
  w.d_rows = w.wave.row(w.instruction.destination[0]);
  w.a_rows = rows_of(w.wave, w.instruction.source[0], a_rows, wide, w.copy_a);
  w.b_rows = rows_of(w.wave, w.instruction.source[1], b_rows, wide, w.copy_b);
  w.c_rows = s.sparse ? w.d_rows : rows_of(w.wave, w.instruction.source[2], d_rows, wide, w.copy_c);
  // The hardware reads all sources before it writes; results go out block by block and row by row here.
  if (w.a_rows != w.copy_a && overlaps(w.a_rows, a_rows, w.d_rows, d_rows)) w.a_rows = keep(w.a_rows, a_rows, w.copy_a);
  if (w.b_rows != w.copy_b && overlaps(w.b_rows, b_rows, w.d_rows, d_rows)) w.b_rows = keep(w.b_rows, b_rows, w.copy_b);
  if (w.c_rows != w.d_rows && w.c_rows != w.copy_c && overlaps(w.c_rows, d_rows, w.d_rows, d_rows))
    w.c_rows = keep(w.c_rows, d_rows, w.copy_c);
  if (s.swizzle && w.instruction.blgp) {
    // BLGP: 1, 2 one half for both; 3 rotation by 16 lanes; 4..7 one quarter for all.
    const int mode = w.instruction.blgp;
    const u32* from = w.b_rows;
    alignas(64) u32 permuted[8 * kLanes];
    for (int r = 0; r < b_rows; ++r) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const int source = mode < 3    ? lane % 32 + (mode - 1) * 32
                           : mode == 3 ? (lane + 16) % 64
                                       : lane % 16 + (mode - 4) * 16;
        permuted[r * kLanes + lane] = from[r * kLanes + source];
      }
    }
    w.b_rows = keep(permuted, b_rows, w.copy_b);
  }
}

int source_block(const Work& w, int block) {
  if (!w.shape.broadcast || !w.instruction.cbsz) return block;
  const int receivers = 1 << w.instruction.cbsz;
  return (block / receivers * receivers + w.instruction.abid) % w.shape.blocks;
}

BlockSource source_a(const Work& w, int block) {
  const int k = w.shape.sparse ? w.shape.k / 2 : w.shape.k;
  return {
      w.a_rows, w.shape.m, k, w.shape.blocks, source_block(w, block), w.shape.a == ByFormat && element_bits(w.a) == 8};
}
BlockSource source_b(const Work& w, int block) {
  // Eight registers of B are two halves of k for gfx950's SMFMAC too, while its A is one piece: AITER's attention adds up
  // rows with v_smfmac_f32_16x16x128_fp8_fp8, and its choice of A comes out as the row's sum in no other way. That the
  // other shapes are the same is inferred from this one.
  const bool halves = w.shape.sparse ? rows_for(w.shape.n * w.shape.k, element_bits(w.b)) == 8
                                     : w.shape.b == ByFormat && element_bits(w.b) == 8;
  return {w.b_rows, w.shape.n, w.shape.k, w.shape.blocks, block, halves};
}
BlockCall block_call(Work& w, int block) {
  const RowPlace place{w.shape.n, w.shape.blocks, block, w.shape.a == F64};
  return {&w.scratch, place, w.shape.sparse ? w.shape.k / 2 : w.shape.k, w.c_rows, w.d_rows};
}

// SMFMAC: two bits per stored value say which of the four along k it is. A lane's index bits are as many as it has
// values times two; ABID picks the set of them in the index register unless CBSZ is not zero, which means the first.
void select_sparse(Work& w) {
  const u32* index = w.wave.row(w.instruction.source[2]);
  const int m = w.shape.m, groups = 64 / m, per_lane = w.shape.k / 2 / groups, bits = 2 * per_lane;
  const int set = w.instruction.cbsz ? 0 : w.instruction.abid % (32 / bits);
  for (int lane = 0; lane < kLanes; ++lane) {
    const int first = lane / m * per_lane;
    i32* row = w.scratch.selection + lane % m * (kMatrixElements / 32) + first;
    const u32 positions = index[lane] >> set * bits;
    for (int e = 0; e < per_lane; ++e) row[e] = (first + e) / 2 * 4 + static_cast<i32>(positions >> 2 * e & 3);
  }
}

// Scaled f8f6f4: one E8M0 byte per 32 elements along k, in lane i + M * block; which byte: op_sel (low bit) and
// op_sel_hi. Returns the largest exponent after scaling, 128 or more when there is a NaN.
int apply_scale(const Work& w, int which, float* values, i32* exponents, int largest) {
  const Operand& operand = w.instruction.scale[static_cast<std::size_t>(which)];
  alignas(64) u32 copy[kLanes];
  const u32* row = rows_of(w.wave, operand, 1, false, copy);
  const int shift = ((w.instruction.opsel >> which & 1) | (w.instruction.opsel_hi >> which & 1) << 1) * 8;
  const int size = w.shape.m;
  int reached = largest >= 128 ? 128 : -1000;
  for (int block = 0; block < w.shape.k / 32; ++block) {
    i32 exponent[32];
    bool any_nan = false;
    for (int i = 0; i < size; ++i) {
      const u32 code = row[block * size + i] >> shift & 0xff;
      any_nan |= code == kE8m0Nan;
      exponent[i] = e8m0_exponent(code);
    }
    for (int at = block * 32 * size; at < (block + 1) * 32 * size; at += size) {
      for (int i = 0; i < size; ++i) {
        exponents[at + i] += exponent[i];
        reached = std::max(reached, exponents[at + i]);
      }
      if (!any_nan) [[likely]]
        continue;
      for (int i = 0; i < size; ++i)
        values[at + i] = exponent[i] == e8m0_exponent(kE8m0Nan) ? as_f32(kNanF32) : values[at + i];
    }
    if (any_nan) reached = 1000;
  }
  return reached;
}

// value / 2^exponent: in [1, 2), or below 1 where the exponent stops at the format's smallest.
void to_significands(float* values, const i32* exponents, int count) {
  for (int at = 0; at < count; ++at)
    values[at] =
        static_cast<float>(static_cast<double>(values[at]) * as_f64(static_cast<u64>(1023 - exponents[at]) << 52));
}

FusedKind fused_kind(Element element) {
  switch (element) {
    case Xf32: return FusedKind::GroupsOf4;
    case F16:
    case Bf16: return FusedKind::GroupsOf8;
    default: return FusedKind::GroupsOf16InTwo;
  }
}

using RowsFunction = u32 (*)(const BlockCall&, FusedKind);
RowsFunction multiply_rows() { return widest_vectors() == Vectors::Avx512 ? multiply_rows_avx512 : multiply_rows_avx2; }

// The rows that matrix_rows.h could not do: all of them when the block's numbers are not for it.
u32 fast_rows(Work& w, int block, const BlockSource& a, const BlockSource& b) {
  constexpr u32 kAll = 0xffffffff;
  if (a.size < 16 || w.shape.sparse || w.instruction.scale[0].used()) return kAll;
  MatrixScratch& s = w.scratch;
  const ExponentRange in_a = unpack_pairs(w.a, w.wave.target, a, s.a, s.a_exponent, s.a_pairs);
  const ExponentRange in_b = unpack_pairs(w.b, w.wave.target, b, s.b, s.b_exponent, s.b_pairs);
  // An infinity or NaN counts beside zeros and the smallest numbers, too, which bring the sum of the exponents into the range.
  if (in_a.largest >= 128 || in_b.largest >= 128) return kAll;
  if (in_a.smallest + in_b.smallest < -70 || in_a.largest + in_b.largest > 30) return kAll;
  return multiply_rows()(block_call(w, block), fused_kind(w.a));
}

void fused_block(Work& w, int block) {
  MatrixScratch& s = w.scratch;
  const BlockSource a = source_a(w, block), b = source_b(w, block);
  const u32 rows = fast_rows(w, block, a, b);
  if (rows == 0) [[likely]]
    return;
  ExponentRange range_a = unpack_float(w.a, w.wave.target, a, s.a, s.a_exponent);
  ExponentRange range_b = unpack_float(w.b, w.wave.target, b, s.b, s.b_exponent);
  const bool scaled = w.instruction.scale[0].used();
  const int smallest = range_a.smallest + range_b.smallest, largest = range_a.largest + range_b.largest;
  s.significands = scaled || smallest < -100 || largest > 100;
  if (s.significands) {
    to_significands(s.a, s.a_exponent, a.k * a.size);
    to_significands(s.b, s.b_exponent, b.k * b.size);
  }
  if (scaled) {
    range_a.largest = apply_scale(w, 0, s.a, s.a_exponent, range_a.largest);
    range_b.largest = apply_scale(w, 1, s.b, s.b_exponent, range_b.largest);
  }
  s.special = range_a.largest >= 128 || range_b.largest >= 128 || range_a.largest + range_b.largest >= 127;
  multiply_fused(block_call(w, block), fused_kind(w.a), w.shape.sparse, rows);
}

void f32_block(Work& w, int block) {
  unpack_float(w.a, w.wave.target, source_a(w, block), w.scratch.a, w.scratch.a_exponent);
  unpack_float(w.b, w.wave.target, source_b(w, block), w.scratch.b, w.scratch.b_exponent);
  multiply_f32(block_call(w, block));
}

// Sums are exact, so a sparse A is spread out with zeros.
void i8_block(Work& w, int block) {
  MatrixScratch& s = w.scratch;
  unpack_i8(source_a(w, block), s.a_exponent);
  unpack_i8(source_b(w, block), s.b_exponent);
  BlockCall call = block_call(w, block);
  i32* a = s.a_exponent;
  if (w.shape.sparse) {
    const int m = w.shape.m, stored = w.shape.k / 2;
    a = s.dense;
    std::fill_n(a, w.shape.k / 2 * m, 0);
    for (int i = 0; i < m; ++i) {
      for (int c = 0; c < stored; ++c) {
        const u32 value = static_cast<u32>(s.a_exponent[c / 2 * m + i]) >> (c % 2 * 16) & 0xffff;
        const int k = s.selection[i * (kMatrixElements / 32) + c];
        // Two stored values at one position add up: the hardware multiplies both.
        i32& place = a[k / 2 * m + i];
        const u32 pair = static_cast<u32>(place), sum = ((pair >> (k % 2 * 16)) + value) & 0xffff;
        place = static_cast<i32>(k % 2 ? (pair & 0xffff) | sum << 16 : (pair & 0xffff0000) | sum);
      }
    }
    call.k = w.shape.k;
  }
  multiply_i8(call, a, s.b_exponent);
}

void count_flops(Wave& wave, const MatrixShape& shape) {
  if (wave.counters) wave.counters->flops += 2ull * shape.m * shape.n * shape.k * shape.blocks;
}

// MFMA rounds to nearest even and keeps denormals whatever MODE says, as the processor does here: run() sets it so.
void matrix(Wave& wave, const Instruction& instruction) {
  const auto& shape = *static_cast<const MatrixShape*>(instruction.function);
  Work work(wave, instruction, shape);
  fetch_operands(work);
  if (shape.sparse) select_sparse(work);
  for (int block = 0; block < shape.blocks; ++block) {
    if (shape.a == F64)
      multiply_f64(source_a(work, block), source_b(work, block), block_call(work, block), instruction.blgp);
    else if (shape.a == F32)
      f32_block(work, block);
    else if (shape.a == Element::I8)
      i8_block(work, block);
    else
      fused_block(work, block);
  }
  count_flops(wave, shape);
}

}  // namespace

bool bind_matrix(Target target, Instruction& instruction) {
  const MatrixShape* shape = find_matrix(target, instruction);
  if (!shape || !is_register(instruction.destination[0])) return false;
  if (shape->sparse && !is_register(instruction.source[2])) return false;
  instruction.function = shape;
  instruction.execute = matrix;
  return true;
}

}  // namespace apb::emu
