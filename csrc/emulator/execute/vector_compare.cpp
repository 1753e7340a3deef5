// v_cmp, v_cmpx and v_cmp_class. One function per condition and type; the wrapper masks with EXEC and writes VCC, SGPRs, EXEC.
#include "vector_float.h"

namespace apb::emu {
namespace {

enum class Test {
  Never,
  Less,
  Equal,
  LessEqual,
  Greater,
  LessGreater,
  GreaterEqual,
  Ordered,
  Unordered,
  NotEqual,
  Always
};

template <Test Condition, class Value>
inline bool holds(Value a, Value b) {
  if constexpr (Condition == Test::Never) return false;
  if constexpr (Condition == Test::Less) return a < b;
  if constexpr (Condition == Test::Equal) return a == b;
  if constexpr (Condition == Test::LessEqual) return a <= b;
  if constexpr (Condition == Test::Greater) return a > b;
  if constexpr (Condition == Test::LessGreater) return a < b || a > b;
  if constexpr (Condition == Test::GreaterEqual) return a >= b;
  if constexpr (Condition == Test::Ordered) return a == a && b == b;
  if constexpr (Condition == Test::Unordered) return a != a || b != b;
  if constexpr (Condition == Test::NotEqual) return a != b;
  return true;
}

struct F16 {
  static float get(const u32* row, int lane) { return f16_to_f32(row[lane] & 0xffff); }
};
struct F32 {
  static float get(const u32* row, int lane) { return as_f32(row[lane]); }
};
struct F64 {
  static double get(const u32* row, int lane) { return as_f64(get64(row, lane)); }
};
struct I16 {
  static i32 get(const u32* row, int lane) { return static_cast<i16>(row[lane]); }
};
struct U16 {
  static u32 get(const u32* row, int lane) { return row[lane] & 0xffff; }
};
struct I32 {
  static i32 get(const u32* row, int lane) { return static_cast<i32>(row[lane]); }
};
struct U32 {
  static u32 get(const u32* row, int lane) { return row[lane]; }
};
struct I64 {
  static i64 get(const u32* row, int lane) { return static_cast<i64>(get64(row, lane)); }
};
struct U64 {
  static u64 get(const u32* row, int lane) { return get64(row, lane); }
};

template <class T, Test Condition, bool Negated>
void compare(VectorCall& call) {
  const u32 *a = call.source[0], *b = call.source[1];
  call.mask_out = collect([&](int lane) { return holds<Condition>(T::get(a, lane), T::get(b, lane)) != Negated; });
}

// Bits of S1: 0 signalling NaN, 1 quiet NaN, 2 -inf, 3 -normal, 4 -denormal, 5 -0, 6 +0, 7 +denormal, 8 +normal, 9 +inf.
template <class T>
void classify(VectorCall& call) {
  const u32 *a = call.source[0], *wanted = call.source[1];
  call.mask_out = collect([&](int lane) {
    const auto bits = T::bits(a, lane), size = bits & T::kMagnitude;
    const bool negative = (bits ^ size) != 0;
    u32 kind = negative ? 3 : 8;
    if (size < static_cast<typename T::Bits>(1) << T::kMantissaBits) kind = negative ? 4 : 7;
    if (size == 0) kind = negative ? 5 : 6;
    if (size == T::kInfinity) kind = negative ? 2 : 9;
    if (size > T::kInfinity) kind = bits & T::kQuiet ? 1 : 0;
    return (wanted[lane] >> kind & 1) != 0;
  });
}

#define APB_BOTH(NAME, FUNCTION) \
  {Opcode::V_CMP_##NAME, FUNCTION, Mask::Writes}, { Opcode::V_CMPX_##NAME, FUNCTION, Mask::WritesExec }
#define APB_ONE(CONDITION, TYPE, TEST, NEGATED) APB_BOTH(CONDITION##_##TYPE, (compare<TYPE, Test::TEST, NEGATED>))
#define APB_FLOAT(TYPE)                                                                                              \
  APB_ONE(F, TYPE, Never, false), APB_ONE(LT, TYPE, Less, false), APB_ONE(EQ, TYPE, Equal, false),                   \
      APB_ONE(LE, TYPE, LessEqual, false), APB_ONE(GT, TYPE, Greater, false), APB_ONE(LG, TYPE, LessGreater, false), \
      APB_ONE(GE, TYPE, GreaterEqual, false), APB_ONE(O, TYPE, Ordered, false), APB_ONE(U, TYPE, Unordered, false),  \
      APB_ONE(NGE, TYPE, GreaterEqual, true), APB_ONE(NLG, TYPE, LessGreater, true),                                 \
      APB_ONE(NGT, TYPE, Greater, true), APB_ONE(NLE, TYPE, LessEqual, true), APB_ONE(NEQ, TYPE, Equal, true),       \
      APB_ONE(NLT, TYPE, Less, true), APB_ONE(TRU, TYPE, Always, false)
#define APB_INTEGER(TYPE)                                                                                         \
  APB_ONE(F, TYPE, Never, false), APB_ONE(LT, TYPE, Less, false), APB_ONE(EQ, TYPE, Equal, false),                \
      APB_ONE(LE, TYPE, LessEqual, false), APB_ONE(GT, TYPE, Greater, false), APB_ONE(NE, TYPE, NotEqual, false), \
      APB_ONE(GE, TYPE, GreaterEqual, false), APB_ONE(T, TYPE, Always, false)

constexpr VectorEntry kEntries[] = {
    APB_FLOAT(F16),
    APB_FLOAT(F32),
    APB_FLOAT(F64),
    APB_INTEGER(I16),
    APB_INTEGER(U16),
    APB_INTEGER(I32),
    APB_INTEGER(U32),
    APB_INTEGER(I64),
    APB_INTEGER(U64),
    APB_BOTH(CLASS_F16, classify<Half>),
    APB_BOTH(CLASS_F32, classify<Single>),
    APB_BOTH(CLASS_F64, classify<Double>),
};

#undef APB_INTEGER
#undef APB_FLOAT
#undef APB_ONE
#undef APB_BOTH

}  // namespace

std::span<const VectorEntry> vector_compare_table() { return kEntries; }

}  // namespace apb::emu
