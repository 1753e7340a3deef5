// v_pk_* and v_fma_mix* (LLVM's name since gfx90a; AMD's data calls them v_mad_mix*, but they are fused).
#include "vector_packed.h"

#include <vector>

namespace apb::emu {
namespace {

// --- two f16 operations: AMD defines them through the scalar ones, so those are called ---

VectorFunction scalar_function(Opcode opcode) {
  for (const VectorEntry& entry : vector_float_table()) {
    if (entry.opcode == opcode) return entry.function;
  }
  return nullptr;
}

void join(const u32* __restrict low, const u32* __restrict high, u32* __restrict out) {
  for (int lane = 0; lane < kLanes; ++lane) out[lane] = (low[lane] & 0xffff) | high[lane] << 16;
}

void twice(VectorCall& call, VectorFunction function, int sources) {
  alignas(64) u32 low[3][kLanes], high[3][kLanes], low_out[kLanes], high_out[kLanes];
  const Halves halves = halves_of(*call.instruction);
  VectorCall low_call = call, high_call = call;
  for (int i = 0; i < sources; ++i) {
    split_halves(call, halves, i, true, low[i], high[i]);
    low_call.source[i] = low[i];
    high_call.source[i] = high[i];
  }
  low_call.out = low_out;
  high_call.out = high_out;
  function(low_call);
  function(high_call);
  join(low_out, high_out, call.out);
}

template <Opcode Scalar, int Sources>
void pk_f16(VectorCall& call) {
  static const VectorFunction function = scalar_function(Scalar);
  twice(call, function, Sources);
}

// IEEE 754-2019 minimum and maximum: a NaN wins, -0 is less than +0.
template <bool Maximum>
u32 extreme_f16(u32 a, u32 b) {
  if (is_nan_f16(a)) return a | 0x200;
  if (is_nan_f16(b)) return b | 0x200;
  const auto order = [](u32 bits) {
    return bits & 0x8000 ? -static_cast<i32>(bits & 0x7fff) - 1 : static_cast<i32>(bits);
  };
  return (order(a) < order(b)) != Maximum ? a : b;
}
template <bool Maximum>
void extreme3_f16(VectorCall& call) {
  for (int lane = 0; lane < kLanes; ++lane)
    call.out[lane] =
        extreme_f16<Maximum>(extreme_f16<Maximum>(call.source[0][lane], call.source[1][lane]), call.source[2][lane]);
}
template <bool Maximum>
void pk_extreme3_f16(VectorCall& call) {
  twice(call, extreme3_f16<Maximum>, 3);
}

// --- two 16-bit integer operations ---

// `operation` gets sources widened to 32 bits with their sign or without; clamp saturates its exact result.
template <bool IsSigned, int Sources, class Operation>
[[gnu::always_inline]] inline void pk_integer(VectorCall& call, Operation operation) {
  alignas(64) u32 rows[2][3][kLanes], out[2][kLanes];
  const Halves halves = halves_of(*call.instruction);
  for (int i = 0; i < Sources; ++i) split_halves(call, halves, i, false, rows[0][i], rows[1][i]);
  const bool clamp = call.instruction->clamp;
  for (int half = 0; half < 2; ++half) {
    for (int lane = 0; lane < kLanes; ++lane) {
      i64 value[3] = {};
      for (int i = 0; i < Sources; ++i) {
        const u32 bits = rows[half][i][lane];
        value[i] = IsSigned ? static_cast<i64>(static_cast<i16>(bits)) : static_cast<i64>(bits);
      }
      i64 result = operation(value[0], value[1], value[2]);
      constexpr i64 kLow = IsSigned ? -32768 : 0, kHigh = IsSigned ? 32767 : 65535;
      if (clamp) result = result < kLow ? kLow : result > kHigh ? kHigh : result;
      out[half][lane] = static_cast<u32>(result);
    }
  }
  join(out[0], out[1], call.out);
}

template <bool IsSigned, int Sources, auto Operation>
void pk_int(VectorCall& call) {
  pk_integer<IsSigned, Sources>(call, Operation);
}

constexpr auto kMad = [](i64 a, i64 b, i64 c) { return a * b + c; };
constexpr auto kMulLo = [](i64 a, i64 b, i64) { return a * b; };
constexpr auto kAdd = [](i64 a, i64 b, i64) { return a + b; };
constexpr auto kSub = [](i64 a, i64 b, i64) { return a - b; };
constexpr auto kLargest = [](i64 a, i64 b, i64) { return a > b ? a : b; };
constexpr auto kSmallest = [](i64 a, i64 b, i64) { return a < b ? a : b; };
constexpr auto kShiftLeft = [](i64 a, i64 b, i64) { return (b << (a & 15)) & 0xffff; };
constexpr auto kShiftRight = [](i64 a, i64 b, i64) { return b >> (a & 15); };

// --- two f32 operations on 64-bit operands ---

// The dword of source i that the low (high) operation reads.
struct Dwords {
  const u32* low;
  const u32* high;
  u32 low_flip, high_flip;
};

Dwords dwords_of(const VectorCall& call, const Halves& halves, int i) {
  const u32* source = call.source[i];
  return {source + (halves.low_select >> i & 1) * kLanes, source + (halves.high_select >> i & 1) * kLanes,
          halves.low_sign >> i & 1 ? 0x80000000 : 0, halves.high_sign >> i & 1 ? 0x80000000 : 0};
}

template <Opcode Scalar, int Sources>
void pk_f32(VectorCall& call) {
  static const VectorFunction function = scalar_function(Scalar);
  alignas(64) u32 changed[2][3][kLanes];
  const Halves halves = halves_of(*call.instruction);
  VectorCall low = call, high = call;
  const auto with_sign = [](const u32* row, u32 flip, u32* buffer) {
    if (!flip) return row;
    for (int lane = 0; lane < kLanes; ++lane) buffer[lane] = row[lane] ^ flip;
    return static_cast<const u32*>(buffer);
  };
  for (int i = 0; i < Sources; ++i) {
    const Dwords d = dwords_of(call, halves, i);
    low.source[i] = with_sign(d.low, d.low_flip, changed[0][i]);
    high.source[i] = with_sign(d.high, d.high_flip, changed[1][i]);
  }
  high.out = call.out + kLanes;
  function(low);
  function(high);
}

// op_sel[0] chooses the dword of source 0 for the low result, op_sel[1] that of source 1 for the high one; op_sel_hi
// means nothing.
void pk_mov_b32(VectorCall& call) {
  const u32 select = call.instruction->opsel;
  std::memcpy(call.out, call.source[0] + (select & 1) * kLanes, kRowBytes);
  std::memcpy(call.out + kLanes, call.source[1] + (select >> 1 & 1) * kLanes, kRowBytes);
}

// --- mixed precision: op_sel_hi says that a source is f16 (op_sel: which half), neg_hi is the absolute value ---

void mix(const VectorCall& call, u32* out) {
  alignas(64) u32 single[3][kLanes];
  const Instruction& instruction = *call.instruction;
  const bool keep_f32 = call.mode.denorm_f32() & 1, keep_f16 = call.mode.denorm_f64() & 1;
  VectorCall inner = call;
  for (int i = 0; i < 3; ++i) {
    const bool half = instruction.opsel_hi >> i & 1;
    const u32 shift = half && instruction.opsel >> i & 1 ? 16 : 0;
    const u32 keep = instruction.neg_hi >> i & 1 ? 0x7fffffff : 0xffffffff,
              flip = instruction.neg >> i & 1 ? 0x80000000 : 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      u32 bits = call.source[i][lane] >> shift;
      if (half) {
        if (!keep_f16 && !(bits & 0x7c00)) bits &= 0x8000;
        bits = f16_to_f32_bits(bits & 0xffff);
      } else if (!keep_f32 && !(bits & 0x7f800000)) {
        bits &= 0x80000000;
      }
      single[i][lane] = (bits & keep) ^ flip;
    }
    inner.source[i] = single[i];
  }
  inner.out = out;
  static const VectorFunction fma = scalar_function(Opcode::V_FMA_F32);
  fma(inner);
}

void fma_mix_f32(VectorCall& call) { mix(call, call.out); }

// The f32 result, rounded once, is rounded again to f16. Both forms give it in the low half; the wrapper knows which
// half v_fma_mixhi writes.
void fma_mix_f16(VectorCall& call) {
  alignas(64) u32 single[kLanes];
  mix(call, single);
  f32_row_to_f16(single, call.out);
  if (!call.mode.fp16_overflow()) [[likely]]
    return;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((call.out[lane] & 0x7fff) == 0x7c00 && (single[lane] & 0x7fffffff) != 0x7f800000) call.out[lane] -= 1;
  }
}

constexpr VectorEntry kEntries[] = {
    {Opcode::V_PK_FMA_F16, pk_f16<Opcode::V_FMA_F16, 3>},
    {Opcode::V_PK_FMAC_F16, pk_f16<Opcode::V_FMA_F16, 3>, Mask::None, true},
    {Opcode::V_PK_ADD_F16, pk_f16<Opcode::V_ADD_F16, 2>},
    {Opcode::V_PK_MUL_F16, pk_f16<Opcode::V_MUL_F16, 2>},
    {Opcode::V_PK_MIN_F16, pk_f16<Opcode::V_MIN_F16, 2>},
    {Opcode::V_PK_MAX_F16, pk_f16<Opcode::V_MAX_F16, 2>},
    {Opcode::V_PK_MINIMUM3_F16, pk_extreme3_f16<false>},
    {Opcode::V_PK_MAXIMUM3_F16, pk_extreme3_f16<true>},
    {Opcode::V_PK_MAD_I16, pk_int<true, 3, kMad>},
    {Opcode::V_PK_MAD_U16, pk_int<false, 3, kMad>},
    {Opcode::V_PK_MUL_LO_U16, pk_int<false, 2, kMulLo>},
    {Opcode::V_PK_ADD_I16, pk_int<true, 2, kAdd>},
    {Opcode::V_PK_SUB_I16, pk_int<true, 2, kSub>},
    {Opcode::V_PK_ADD_U16, pk_int<false, 2, kAdd>},
    {Opcode::V_PK_SUB_U16, pk_int<false, 2, kSub>},
    {Opcode::V_PK_MAX_I16, pk_int<true, 2, kLargest>},
    {Opcode::V_PK_MIN_I16, pk_int<true, 2, kSmallest>},
    {Opcode::V_PK_MAX_U16, pk_int<false, 2, kLargest>},
    {Opcode::V_PK_MIN_U16, pk_int<false, 2, kSmallest>},
    {Opcode::V_PK_LSHLREV_B16, pk_int<false, 2, kShiftLeft>},
    {Opcode::V_PK_LSHRREV_B16, pk_int<false, 2, kShiftRight>},
    {Opcode::V_PK_ASHRREV_I16, pk_int<true, 2, kShiftRight>},
    {Opcode::V_PK_FMA_F32, pk_f32<Opcode::V_FMA_F32, 3>},
    {Opcode::V_PK_MUL_F32, pk_f32<Opcode::V_MUL_F32, 2>},
    {Opcode::V_PK_ADD_F32, pk_f32<Opcode::V_ADD_F32, 2>},
    {Opcode::V_PK_MOV_B32, pk_mov_b32},
    {Opcode::V_MAD_MIX_F32, fma_mix_f32},
    {Opcode::V_MAD_MIXLO_F16, fma_mix_f16, Mask::None, false, true},
    {Opcode::V_MAD_MIXHI_F16, fma_mix_f16, Mask::None, false, true},
};

}  // namespace

std::span<const VectorEntry> vector_packed_table() {
  static const std::vector<VectorEntry> table = [] {
    std::vector<VectorEntry> all(std::begin(kEntries), std::end(kEntries));
    const auto dot = vector_packed_dot();
    all.insert(all.end(), dot.begin(), dot.end());
    return all;
  }();
  return table;
}

}  // namespace apb::emu
