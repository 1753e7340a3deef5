// y[g] = x[g] * w[g]^T of the first `valid[g]` rows of each group, times a scale of each row and column where SCALED.
//
// Launch: grid x = tiles of a group with all its rows, y = groups, block x = 256, no dynamic LDS. Weights lie as shuffle_weight has
// them. K is whole steps of STEP bytes, their number even or odd (ODD); columns are whole tiles. Rows behind the valid ones stay as
// they are, and of no group more than its rows count.
#include "deepgemm.hpp"

namespace tile {

using In = aiter_ck::types::X;
using Out = aiter_ck::types::bf16;
constexpr auto tail = ODD ? ck_tile::TailNumber::Odd : ck_tile::TailNumber::Even;
using Product = Flat<In, Out, FlatShape<In, BM, BN, STEP>, tail>;
using Scale = ck_tile::FlatmmScalePointer<SCALED ? 1 : -1>;

static_assert(Product::Kernel::kBlockSize == 256, "the manifest's block");

// The manifest's when: an even or an odd number of steps, whole tiles of columns.
using Rule = ck_tile::BaseFlatmmPipelineAGmemBGmemCRegV1<Product::Problem>;
static_assert(Rule::GetBlockLoopTailNum(4 - ODD) == tail && Rule::GetBlockLoopTailNum(2 - ODD) == tail);
static_assert(Product::Partitioner::MPerBlock == BM && Product::Partitioner::NPerBlock == BN);

}  // namespace tile

extern "C" __global__ __launch_bounds__(256, 1) void ck_tile_deepgemm(tile::Out* y, const tile::In* x,
                                                                      const tile::In* w, const int* valid,
                                                                      [[maybe_unused]] const float* x_scale,
                                                                      [[maybe_unused]] const float* w_scale, int rows,
                                                                      int columns, int depth) {
  using namespace tile;
  const int group = static_cast<int>(blockIdx.y);
  // A number above the group's rows would make rows of the next group, or of what lies behind y.
  const int count = ck_tile::min(valid[group], rows);
  const int place = static_cast<int>(blockIdx.x);
  if (place >= Product::Partitioner::GridSize(count, columns)) return;
  const long group_rows = static_cast<long>(group) * rows, group_columns = static_cast<long>(group) * columns;
  Scale row_scale, column_scale;
#if SCALED
  row_scale = Scale(x_scale + group_rows, count);
  column_scale = Scale(w_scale + group_columns, columns);
#endif
  ck_tile::FlatmmKernelArgs<Scale, Scale, 0> args{x + group_rows * depth,
                                                  w + group_columns * depth,
                                                  {},
                                                  y + group_rows * columns,
                                                  count,
                                                  columns,
                                                  depth,
                                                  depth,
                                                  depth,
                                                  {},
                                                  columns,
                                                  1,
                                                  row_scale,
                                                  column_scale};
  Product::Kernel{}(args, place);
}
