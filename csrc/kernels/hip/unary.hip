// out[i] = f(input[i]), computed in fp32, rounded once.
//
// Build:  T = bf16 | f16 | f32    element type of both
//         ACT = sigmoid | tanh
//         ALIGNED = 1             16-byte accesses: the number of elements is a multiple of 16 bytes, as both pointers are
//                   0             a lane has elements that lie BLOCK apart
//         BLOCK = 256             threads of a block
// Launch: grid x = cdiv(total, BLOCK * 16 / sizeof(T)), block x = BLOCK, no LDS.
#include "common.hpp"

namespace ap {

using f32 = float;
using elem = T;
inline constexpr u32 kPack = 16 / sizeof(elem);  // elements of one 16-byte access
using pack = vec<elem, kPack>;

enum class act { sigmoid, tanh };
inline constexpr act kAct = act::ACT;

extern "C" __device__ __attribute__((const)) float __ocml_exp_f32(float);
extern "C" __device__ __attribute__((const)) float __ocml_tanh_f32(float);

AP_INLINE float activate(float x) {
  if constexpr (kAct == act::tanh) {
    return __ocml_tanh_f32(x);
  } else if constexpr (sizeof(elem) == 4) {
    return 1.0f / (1.0f + __ocml_exp_f32(-x));
  } else {
    // exp2 and rcp are each within 1 ulp; v_rcp_f32 has no subnormal results, so a sigmoid below 2^-126 is 0.
    return __builtin_amdgcn_rcpf(1.0f + __builtin_amdgcn_exp2f(x * -1.44269504088896341f));
  }
}

}  // namespace ap

AP_KERNEL(BLOCK)
void unary_elementwise(ap::elem* out, const ap::elem* input, ap::i32 total) {
  using namespace ap;
  u32 end = static_cast<u32>(total);
#if ALIGNED
  u32 at = (block_x() * BLOCK + thread_x()) * kPack;
  if (at >= end) return;
  pack p = *reinterpret_cast<const pack*>(input + at);
#pragma unroll
  for (u32 i = 0; i < kPack; ++i) p[i] = to_elem<elem>(activate(static_cast<float>(p[i])));
  *reinterpret_cast<pack*>(out + at) = p;
#else
  u32 first = block_x() * BLOCK * kPack + thread_x();
  pack p;
#pragma unroll
  for (u32 i = 0; i < kPack; ++i) {
    u32 at = first + i * BLOCK;
    p[i] = input[at < end ? at : end - 1];  // past the end the last one again
  }
#pragma unroll
  for (u32 i = 0; i < kPack; ++i) {
    u32 at = first + i * BLOCK;
    if (at < end) out[at] = to_elem<elem>(activate(static_cast<float>(p[i])));
  }
#endif
}
