// Each token times the smooth scales of each of its experts, as codes with a scale a row: rows of the first choice, then of the next.
//
// Launch: grid x = choices, y = tokens / ROWS, block x = THREADS, no dynamic LDS. A workgroup takes ROWS tokens, a lane VECTOR columns
// at once, and steps of SPAN columns, of which there is one unless TWO_PASS. ck_tile reads the experts of all ROWS tokens, so their
// number is a multiple of ROWS; columns behind `columns` are masked.
#include "moe_smoothquant.hpp"

namespace tile {

using Shape = aiter_ck::RowShape<ROWS, SPAN, ROWS, THREADS / (64 * ROWS), VECTOR>;
using Kernel = MoeSmoothquant<aiter_ck::types::T, aiter_ck::types::Q, Shape, bool(TWO_PASS)>;

static_assert(Shape::BlockSize == THREADS, "the manifest's block");

}  // namespace tile

extern "C" __global__ __launch_bounds__(THREADS) void ck_tile_moe_smoothquant(void* out, const void* input,
                                                                              const float* smooth, const int* experts,
                                                                              float* scales, int tokens, int columns,
                                                                              int expert_count, int choices, int in_row,
                                                                              int out_row) {
  tile::Kernel{}({input, smooth, experts, scales, out, tokens, columns, expert_count, choices, in_row, out_row});
}
