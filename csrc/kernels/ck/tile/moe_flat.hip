// Products of sorted tokens (bf16) with their experts' matrices in MXFP4, which lie as AITER's shuffle_weight_a16w4 has them, scales as
// shuffle_scale_a16w4. STAGE 1: y[token, choice] = swiglu(x[token] * gate + bias, x[token] * up + bias). STAGE 2: y[token] +=
// (x[token, choice] * down + bias) * weight, by atomic additions.
//
// Launch: grid x = blocks of ids * tiles of columns, block x = 256, no dynamic LDS. K is whole steps of 256, their number even or odd
// (ODD); n is whole tiles.
#include "moe_flat.hpp"

namespace tile {

constexpr auto kind = STAGE == 1 ? Kind::kFFN_gemm1_gate_up : Kind::kFFN_gemm2;
constexpr auto tail = ODD ? ck_tile::TailNumber::Odd : ck_tile::TailNumber::Even;
using Product = MoeFlat<BM, BN, kind, tail>;

// The manifest's when: an even or an odd number of steps.
using Rule = ck_tile::BaseFlatmmPipelineAGmemBGmemCRegV1<Product::Problem>;
static_assert(Rule::GetBlockLoopTailNum(4 - ODD) == tail && Rule::GetBlockLoopTailNum(2 - ODD) == tail);

}  // namespace tile

extern "C" __global__ __launch_bounds__(256, OCCUPANCY) void ck_tile_moe_flat(
    const int* ids, const int* experts, const int* valid, const float* weights, const void* x, const void* w, void* y,
    const void* scales, const float* bias, int tokens, int topk, int rows, int n, int k) {
  const int row_stride = STAGE == 1 ? n / 2 : n;
  tile::Product::Kernel{}(tile::Product::Args{
      ids,   experts, valid, weights, x,          w, y, tokens, topk, rows,
      n,     k,       k,     k,       row_stride, 1, 0, 0,      {},   {static_cast<const float*>(scales)},
      {bias}});
}
