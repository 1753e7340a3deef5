// Rotary embeddings of AITER's rope_* functions, all layouts by their strides: of each head `half` pairs (a, b) are turned,
//   a' = a * cos_0 - b * sin_0    b' = b * cos_1 + a * sin_1     (transposed, for gradients: sin_0 = -sin_1, sin_1 = -sin_0)
// in fp32, rounded once, and the other columns are copied. out may be in: a lane reads its elements before it writes them, and
// nobody else reads them.
//
// Build:  T = bf16 | f16 | f32    element type of what is turned
//         F = bf16 | f16 | f32    element type of the table
//         ANGLES = 0 | 1          1: the table holds angles, and there is none of sines
//         BLOCK = 256             threads of a block
// Launch: grid x = tokens, y = cdiv(heads_x + heads_y, kPasses * BLOCK >> log2_lanes), z = 2 for images: the first half of a head
//         by the row of the image, the second by its column; block x = BLOCK, no LDS.
#include "rope.hpp"

namespace ap {

// Sine, and the cosine by address.
extern "C" __device__ float __ocml_sincos_f32(float, __attribute__((address_space(5))) float*);

struct turn {
  float cos_0, sin_0, cos_1, sin_1;
};

AP_INLINE turn turn_of(const entry* cosines, [[maybe_unused]] const entry* sines, const pairs& by, u32 pair) {
  u32 first = pair * by.table_step, second = first + by.table_apart;
  turn t;
#if ANGLES
  float cosine;
  auto at = (__attribute__((address_space(5))) float*)&cosine;
  t.sin_0 = __ocml_sincos_f32(static_cast<float>(cosines[first]), at);
  t.cos_0 = cosine;
  t.sin_1 = t.sin_0;
  t.cos_1 = t.cos_0;
  if (by.table_apart) {
    t.sin_1 = __ocml_sincos_f32(static_cast<float>(cosines[second]), at);
    t.cos_1 = cosine;
  }
#else
  t.cos_0 = static_cast<float>(cosines[first]);
  t.sin_0 = static_cast<float>(sines[first]);
  t.cos_1 = static_cast<float>(cosines[second]);
  t.sin_1 = static_cast<float>(sines[second]);
#endif
  if (by.transposed) {
    float sin_0 = t.sin_0;
    t.sin_0 = -t.sin_1;
    t.sin_1 = -sin_0;
  }
  return t;
}

}  // namespace ap

AP_KERNEL(BLOCK)
void rope(ap::elem* out_x, ap::elem* out_y, const ap::elem* in_x, const ap::elem* in_y, const ap::entry* cosines,
          const ap::entry* sines, const ap::entry* second_cosines, const ap::entry* second_sines,
          const ap::i64* positions, const ap::i64* offsets, const ap::i32* cu_seqlens, ap::strides to_x,
          ap::strides to_y, ap::strides from_x, ap::strides from_y, ap::places at, ap::pairs by, ap::i32 batch,
          ap::i32 heads_x, ap::i32 heads_y, ap::i32 width, ap::i32 log2_lanes) {
  using namespace ap;
  u32 token = block_x(), s = token / static_cast<u32>(batch), b = token - s * static_cast<u32>(batch);
  i64 row = row_of(positions, offsets, cu_seqlens, at, token, s);
  if (row < 0) return;
  if (second_half()) {
    cosines = second_cosines;
    sines = second_sines;
    by.start = by.second_start;
  }
  cosines += row * width;
  if constexpr (!ANGLES) sines += row * width;
  u32 lanes = 1u << log2_lanes, lane = thread_x() & (lanes - 1), pass = BLOCK >> log2_lanes;
  u32 of_x = static_cast<u32>(heads_x), heads = of_x + static_cast<u32>(heads_y);
  u32 head = __builtin_amdgcn_workgroup_id_y() * pass * kPasses + (thread_x() >> log2_lanes);

  for (u32 pair = lane; pair < static_cast<u32>(by.half); pair += lanes) {
    turn t = turn_of(cosines, sines, by, pair);
    i64 first = by.start + static_cast<i64>(pair) * by.step, second = first + by.apart;
    float a[kPasses], c[kPasses];
#pragma unroll
    for (u32 k = 0; k < kPasses; ++k) {
      u32 h = head + k * pass;
      if (h >= heads) continue;
      const elem* in = at_head(in_x, in_y, from_x, from_y, of_x, h, s, b);
      i64 column = h < of_x ? from_x.column : from_y.column;
      a[k] = static_cast<float>(in[first * column]);
      c[k] = static_cast<float>(in[second * column]);
    }
#pragma unroll
    for (u32 k = 0; k < kPasses; ++k) {
      u32 h = head + k * pass;
      if (h >= heads) continue;
      elem* out = at_head(out_x, out_y, to_x, to_y, of_x, h, s, b);
      i64 column = h < of_x ? to_x.column : to_y.column;
      out[first * column] = to_elem<elem>(a[k] * t.cos_0 - c[k] * t.sin_0);
      out[second * column] = to_elem<elem>(c[k] * t.cos_1 + a[k] * t.sin_1);
    }
  }
  for (u32 copy = lane; copy < static_cast<u32>(by.copied); copy += lanes) {
    i64 from = by.copy_start + static_cast<i64>(copy);
    for (u32 k = 0; k < kPasses; ++k) {
      u32 h = head + k * pass;
      if (h >= heads) break;
      const elem* in = at_head(in_x, in_y, from_x, from_y, of_x, h, s, b);
      elem* out = at_head(out_x, out_y, to_x, to_y, of_x, h, s, b);
      if (in == out) continue;
      out[from * (h < of_x ? to_x.column : to_y.column)] = in[from * (h < of_x ? from_x.column : from_y.column)];
    }
  }
}
