// (x - mean(x)) / sqrt(var(x) + epsilon) * weight + bias of each row, x = input, + x_bias where XBIAS, + residual_in where ADD, which
// is stored as residual_out.
//
// Launch: grid x = rows, block x = THREADS, no dynamic LDS. A lane takes VECTOR columns at once, a workgroup up to COLUMNS; those
// behind `columns` are masked.
#include "layernorm2d.hpp"

namespace tile {

using Shape = aiter_ck::RowShape<1, COLUMNS, 1, THREADS / 64, VECTOR>;
using Norm = Layernorm<aiter_ck::types::T, Shape, bool(XBIAS), bool(ADD)>;

static_assert(Shape::BlockSize == THREADS, "the manifest's block");

}  // namespace tile

extern "C" __global__ __launch_bounds__(THREADS) void ck_tile_layernorm2d(void* out, const void* input,
                                                                          const void* residual_in, void* residual_out,
                                                                          const void* weight, const void* bias,
                                                                          const void* x_bias, int rows, int columns,
                                                                          int out_row, int in_row, int residual_in_row,
                                                                          int residual_out_row, float epsilon) {
  tile::Norm::Kernel::Kargs args{};
  args.p_x = input;
  args.p_x_residual = residual_in;
  args.p_x_bias = x_bias;
  args.p_gamma = weight;
  args.p_beta = bias;
  args.p_y = out;
  args.p_y_residual = residual_out;
  args.epsilon = epsilon;
  args.m = rows;
  args.n = columns;
  args.x_stride = in_row;
  args.xr_stride = residual_in_row;
  args.y_stride = out_row;
  args.yr_stride = residual_out_row;
  tile::Norm::Kernel{}(args);
}
