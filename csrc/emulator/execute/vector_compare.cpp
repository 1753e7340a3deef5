// v_cmp, v_cmpx and v_cmp_class. One function per condition and type; the wrapper masks with EXEC and writes VCC, SGPRs, EXEC.
#include "vector_float.h"

namespace apb::emu {
namespace {

enum class Test {
  never,
  less,
  equal,
  less_equal,
  greater,
  less_greater,
  greater_equal,
  ordered,
  unordered,
  not_equal,
  always
};

template <Test test, class Value>
inline bool holds(Value a, Value b) {
  if constexpr (test == Test::never) return false;
  if constexpr (test == Test::less) return a < b;
  if constexpr (test == Test::equal) return a == b;
  if constexpr (test == Test::less_equal) return a <= b;
  if constexpr (test == Test::greater) return a > b;
  if constexpr (test == Test::less_greater) return a < b || a > b;
  if constexpr (test == Test::greater_equal) return a >= b;
  if constexpr (test == Test::ordered) return a == a && b == b;
  if constexpr (test == Test::unordered) return a != a || b != b;
  if constexpr (test == Test::not_equal) return a != b;
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

template <class T, Test test, bool negated>
void compare(VectorCall& call) {
  const u32 *a = call.source[0], *b = call.source[1];
  call.mask_out = collect([&](int lane) { return holds<test>(T::get(a, lane), T::get(b, lane)) != negated; });
}

// Bits of S1: 0 signalling NaN, 1 quiet NaN, 2 -inf, 3 -normal, 4 -denormal, 5 -0, 6 +0, 7 +denormal, 8 +normal, 9 +inf.
template <class T>
void classify(VectorCall& call) {
  const u32 *a = call.source[0], *wanted = call.source[1];
  call.mask_out = collect([&](int lane) {
    const auto bits = T::bits(a, lane), size = bits & T::magnitude;
    const bool negative = (bits ^ size) != 0;
    u32 kind = negative ? 3 : 8;
    if (size < static_cast<typename T::Bits>(1) << T::mantissa_bits) kind = negative ? 4 : 7;
    if (size == 0) kind = negative ? 5 : 6;
    if (size == T::infinity) kind = negative ? 2 : 9;
    if (size > T::infinity) kind = bits & T::quiet ? 1 : 0;
    return (wanted[lane] >> kind & 1) != 0;
  });
}

#define APB_BOTH(NAME, FUNCTION) \
  {Opcode::V_CMP_##NAME, FUNCTION, Mask::writes}, { Opcode::V_CMPX_##NAME, FUNCTION, Mask::writes_exec }
#define APB_ONE(CONDITION, TYPE, TEST, NEGATED) APB_BOTH(CONDITION##_##TYPE, (compare<TYPE, Test::TEST, NEGATED>))
#define APB_FLOAT(TYPE)                                                                                                \
  APB_ONE(F, TYPE, never, false), APB_ONE(LT, TYPE, less, false), APB_ONE(EQ, TYPE, equal, false),                     \
      APB_ONE(LE, TYPE, less_equal, false), APB_ONE(GT, TYPE, greater, false), APB_ONE(LG, TYPE, less_greater, false), \
      APB_ONE(GE, TYPE, greater_equal, false), APB_ONE(O, TYPE, ordered, false), APB_ONE(U, TYPE, unordered, false),   \
      APB_ONE(NGE, TYPE, greater_equal, true), APB_ONE(NLG, TYPE, less_greater, true),                                 \
      APB_ONE(NGT, TYPE, greater, true), APB_ONE(NLE, TYPE, less_equal, true), APB_ONE(NEQ, TYPE, equal, true),        \
      APB_ONE(NLT, TYPE, less, true), APB_ONE(TRU, TYPE, always, false)
#define APB_INTEGER(TYPE)                                                                                           \
  APB_ONE(F, TYPE, never, false), APB_ONE(LT, TYPE, less, false), APB_ONE(EQ, TYPE, equal, false),                  \
      APB_ONE(LE, TYPE, less_equal, false), APB_ONE(GT, TYPE, greater, false), APB_ONE(NE, TYPE, not_equal, false), \
      APB_ONE(GE, TYPE, greater_equal, false), APB_ONE(T, TYPE, always, false)

constexpr VectorEntry entries[] = {
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

std::span<const VectorEntry> vector_compare_table() { return entries; }

}  // namespace apb::emu
