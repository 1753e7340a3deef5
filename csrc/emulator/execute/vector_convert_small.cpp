// v_cvt_* between f32 and the eight-bit formats. The flavour is the target's: fnuz on gfx942, OCP on gfx950.
#include "vector_convert.h"

namespace apb::emu {
namespace {

template <SmallFormat Fnuz, SmallFormat Ocp, class Body>
[[gnu::always_inline]] inline void by_target(const VectorCall& call, Body body) {
  if (call.target == Target::Gfx942)
    body.template operator()<Fnuz>();
  else
    body.template operator()<Ocp>();
}

// SDWA's byte select has brought the byte down already.
template <SmallFormat Fnuz, SmallFormat Ocp>
void f32_small(VectorCall& call) {
  by_target<Fnuz, Ocp>(call, [&]<SmallFormat F>() {
    for (int lane = 0; lane < kLanes; ++lane) call.out[lane] = bits_of(decode_small<F>(call.source[0][lane] & 0xff));
  });
}

template <SmallFormat Fnuz, SmallFormat Ocp>
void pk_f32_small(VectorCall& call) {
  by_target<Fnuz, Ocp>(call, [&]<SmallFormat F>() {
    for (int lane = 0; lane < kLanes; ++lane) {
      call.out[lane] = bits_of(decode_small<F>(call.source[0][lane] & 0xff));
      call.out[kLanes + lane] = bits_of(decode_small<F>(call.source[0][lane] >> 8 & 0xff));
    }
  });
}

// The wrapper puts the half where op_sel[3] says and keeps the other.
template <SmallFormat Fnuz, SmallFormat Ocp>
void pk_small_f32(VectorCall& call) {
  by_target<Fnuz, Ocp>(call, [&]<SmallFormat F>() {
    const bool saturate = call.mode.fp16_overflow();
    const u32* __restrict a = call.source[0];
    const u32* __restrict b = call.source[1];
    u32* __restrict out = call.out;
#pragma clang loop vectorize(enable)
    for (int lane = 0; lane < kLanes; ++lane)
      out[lane] = encode_small<F>(a[lane], saturate) | encode_small<F>(b[lane], saturate) << 8;
  });
}

template <SmallFormat Fnuz, SmallFormat Ocp>
void sr_small_f32(VectorCall& call) {
  by_target<Fnuz, Ocp>(call, [&]<SmallFormat F>() {
    const bool saturate = call.mode.fp16_overflow();
    const u32 shift = selected_byte(call);
    const u32* old = old_destination(call);
    for (int lane = 0; lane < kLanes; ++lane) {
      const u32 code =
          encode_small<F, SmallRounding::Stochastic>(call.source[0][lane], saturate, 0, call.source[1][lane]);
      call.out[lane] = (old[lane] & ~(0xffu << shift)) | code << shift;
    }
  });
}

using enum SmallFormat;
constexpr VectorEntry kEntries[] = {
    {Opcode::V_CVT_F32_FP8, f32_small<E4m3fnuz, E4m3>},
    {Opcode::V_CVT_F32_BF8, f32_small<E5m2fnuz, E5m2>},
    {Opcode::V_CVT_PK_F32_FP8, pk_f32_small<E4m3fnuz, E4m3>},
    {Opcode::V_CVT_PK_F32_BF8, pk_f32_small<E5m2fnuz, E5m2>},
    {Opcode::V_CVT_PK_FP8_F32, pk_small_f32<E4m3fnuz, E4m3>, Mask::None, false, true},
    {Opcode::V_CVT_PK_BF8_F32, pk_small_f32<E5m2fnuz, E5m2>, Mask::None, false, true},
    {Opcode::V_CVT_SR_FP8_F32, sr_small_f32<E4m3fnuz, E4m3>, Mask::None, true},
    {Opcode::V_CVT_SR_BF8_F32, sr_small_f32<E5m2fnuz, E5m2>, Mask::None, true},
};

}  // namespace

std::span<const VectorEntry> vector_convert_small() { return kEntries; }

}  // namespace apb::emu
