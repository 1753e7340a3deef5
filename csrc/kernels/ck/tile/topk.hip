// The k best experts of each token and their weights: sigmoid of the logit, or softmax over all of the token's (SOFTMAX).
//
// Launch: grid x = tokens / ROWS rounded up, block x = 256, no dynamic LDS. A wave has rows of its own; EXPERTS places a row, of
// which those behind `experts` are never chosen while k <= experts. `gating_output` has rows `in_row` elements apart, weights and
// indices such that are `out_row` apart, at least k.
#include "topk.hpp"

namespace tile {

using Activation = std::conditional_t<SOFTMAX, Softmax, Sigmoid>;
using Chosen = Topk<aiter_ck::types::T, EXPERTS, Activation>;

static_assert(Chosen::Problem::RowsPerBlock == ROWS && Chosen::Kernel::kBlockSize == 256,
              "the manifest's grid and block");

}  // namespace tile

#if SOFTMAX

// pairs[t, j] = j * tokens + t, rows `pair_row` apart.
extern "C" __global__ __launch_bounds__(256) void ck_tile_topk_softmax(float* weights, int* indices, int* pairs,
                                                                       const void* gating_output, int tokens,
                                                                       int experts, int k, int in_row, int out_row,
                                                                       int pair_row) {
  const int first = static_cast<int>(blockIdx.x) * ROWS;
  const int rows = tokens - first < ROWS ? tokens - first : ROWS;
  for (int i = static_cast<int>(threadIdx.x); i < rows * k; i += 256) {
    const int token = first + i / k, choice = i % k;
    pairs[static_cast<long>(token) * pair_row + choice] = choice * tokens + token;
  }
  tile::Chosen::Kernel{}({gating_output, weights, indices, tokens, experts, k, in_row, out_row});
}

#else

extern "C" __global__ __launch_bounds__(256) void ck_tile_topk_sigmoid(float* weights, int* indices,
                                                                       const void* gating_output, int tokens,
                                                                       int experts, int k, int in_row, int out_row) {
  tile::Chosen::Kernel{}({gating_output, weights, indices, tokens, experts, k, in_row, out_row});
}

#endif
