// Matrix multiply-add (MFMA, SMFMAC): shapes, register layouts, and the parts of their execution.
//
// Layouts (AMD's matrix instruction calculator; AMD's ISA documents for CDNA3 and CDNA4):
//   A[i][k] of block b: lane i + M * (b + B * (k / e)), element k % e of that lane's registers, e = K * M * B / 64
//   elements per lane. B[k][j]: the same with j and N. Eight-bit operands of the f8f6f4 instructions are the exception:
//   a lane of group g holds k = 16g..16g+15 in its first four registers and k = K/2 + 16g.. in the others (CK's tests
//   of these instructions). C, D[i][j], 32 bits: four rows are in four registers, further rows in further lanes, then
//   in further registers; columns are lanes. 64 bits: the same with one row per register pair.
//
// Arithmetic:
//   f32, f64: a chain of fma over ascending k, rounded to nearest even each time. i8: exact, wraps at 32 bits.
//   f16, bf16, xf32, fp8, bf8: the fused dot products of matrix_fused.cpp, in groups of ascending k.
//   Denormals are inputs and results like all others; EXEC and MODE take no part.
#pragma once

#include <cstdint>

#include "wave.h"

namespace apb::emu {

enum class Element : std::uint8_t { F64, F32, Xf32, F16, Bf16, Fp8, Bf8, Fp6, Bf6, Fp4, I8, ByFormat };

struct MatrixShape {
  Opcode opcode;
  std::uint8_t m, n, k, blocks;  // n == m for all of them
  Element a, b;
  bool sparse = false;     // SMFMAC: A holds two of four values along k, src2 their positions, C is the old destination
  bool broadcast = false;  // CBSZ and ABID broadcast blocks of A
  bool swizzle = false;    // BLGP permutes lanes of B
};

int element_bits(Element element);
inline constexpr int kMatrixFormats = 5;  // of f8f6f4, in the numbers of CBSZ and BLGP: fp8, bf8, fp6, bf6, fp4
// Null: no matrix instruction of the target, or with modifiers that it does not know.
const MatrixShape* find_matrix(Target target, const Instruction& instruction);

inline constexpr int kMatrixElements = 2048;  // K * M of the largest operand

// Operands unpacked for the arithmetic: [k][i] and [k][j], one block at a time.
struct alignas(64) MatrixScratch {
  float a[kMatrixElements], b[kMatrixElements];
  std::int32_t a_exponent[kMatrixElements],
      b_exponent[kMatrixElements];          // unbiased, not normalised below the format's smallest
  std::int32_t dense[kMatrixElements];      // a sparse i8 A, spread out
  std::int32_t selection[kMatrixElements];  // sparse: row of B for [i][compressed k]
  std::uint32_t a_pairs[kMatrixElements / 2], b_pairs[kMatrixElements / 2];  // exponents for matrix_rows.h: [k / 2][i]
  bool special;       // an infinity or NaN, or products of 2^127 and more: the vector path does not do these
  bool significands;  // a and b are significands in [1, 2), their exponents apart: products may leave f32's range
};

// The registers and lanes of an operand's block.
struct BlockSource {
  const std::uint32_t* rows;  // register rows of 64 lanes
  int size;                   // M or N
  int k;                      // stored extent along k: half of K for a sparse A
  int blocks, block;
  bool halves;  // eight registers, each four of them one half of k: eight-bit f8f6f4 operand, B of SMFMAC
};

// The exponents of the nonzero elements; 128: there is an infinity or NaN.
struct ExponentRange {
  int smallest = 127, largest = -126;
};
// Unpacks one block to values (f32, exact) and exponents. `target` chooses the eight-bit flavour.
ExponentRange unpack_float(Element element, Target target, const BlockSource& source, float* values,
                           std::int32_t* exponents);
// The same with 128 times the exponents of k and k + 1 in one dword of `pairs`. Of 16-bit formats `exponents` stays as it
// was.
ExponentRange unpack_pairs(Element element, Target target, const BlockSource& source, float* values,
                           std::int32_t* exponents, std::uint32_t* pairs);
ExponentRange unpack_16_avx2(Element element, const BlockSource& source, float* values, std::uint32_t* pairs);
ExponentRange unpack_16_avx512(Element element, const BlockSource& source, float* values, std::uint32_t* pairs);
// [k/2][i], two 16-bit numbers per dword.
void unpack_i8(const BlockSource& source, std::int32_t* pairs);

// The place of rows of C and D: the row's first lane, from the first register of the operand.
struct RowPlace {
  int size, blocks, block;
  bool wide;  // f64
  [[gnu::always_inline]] int offset(int i) const {
    const int height = wide ? 1 : 4, across = 64 / size, per_register = (64 * height + size * size - 1) / (size * size);
    const int step = height * across;
    const int row = block * (size * size / 64) + i / step * height + i % height;
    const int lane = block % per_register * size + i / height % across * per_register * size;
    return row * (wide ? 2 : 1) * kLanes + lane;
  }
};

// One block: D = A * B + C. `c` and `d` are register rows; they may be the same, and d may be nothing else of C's
// registers.
struct BlockCall {
  const MatrixScratch* scratch;
  RowPlace place;
  int k;  // products per result: half of K for sparse shapes
  const std::uint32_t* c;
  std::uint32_t* d;
};
enum class FusedKind : std::uint8_t { GroupsOf4, GroupsOf8, GroupsOf16InTwo };
// `rows`: a bit for each row that is wanted.
void multiply_fused(const BlockCall& call, FusedKind kind, bool sparse, std::uint32_t rows);
// The same for dense blocks of 16 and more columns whose exponents lie in the range that matrix_rows.h names; says which
// rows it could not do, and leaves these alone.
std::uint32_t multiply_rows_avx2(const BlockCall& call, FusedKind kind);
std::uint32_t multiply_rows_avx512(const BlockCall& call, FusedKind kind);
void multiply_f32(const BlockCall& call);
void multiply_i8(const BlockCall& call, const std::int32_t* a, const std::int32_t* b);
// f64 operands are read in place; `negate` has a bit for each of A, B, C.
void multiply_f64(const BlockSource& a, const BlockSource& b, const BlockCall& call, unsigned negate);

}  // namespace apb::emu
