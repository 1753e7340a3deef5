// What moe_flat.hip instantiates: ck_tile's flat matrix products of sorted tokens with weights of MXFP4.
#pragma once

#include "../include/aiter_ck/config.hpp"
#include "ck_tile/host.hpp"

namespace ck_tile {
// Of ck_tile's header for the host, which kernels name in functions that no device calls.
template <int, typename Kernel, typename... Args>
__global__ void kentry(Args... args);
}  // namespace ck_tile

#include "ck_tile/ops/epilogue/cshuffle_epilogue.hpp"
#include "ck_tile/ops/flatmm.hpp"
#include "ck_tile/ops/gemm.hpp"
#include "ck_tile/ops/moe_flatmm.hpp"

namespace tile {

using Row = ck_tile::tensor_layout::gemm::RowMajor;
using Col = ck_tile::tensor_layout::gemm::ColumnMajor;
using Kind = ck_tile::MoeFlatmmKind;

// A workgroup of four waves along the columns; K in steps of 256.
template <int rows, int columns, Kind kind, ck_tile::TailNumber tail>
struct MoeFlat {
  using bf16 = ck_tile::bf16_t;
  using None = ck_tile::tuple<>;
  using Shape = ck_tile::TileGemmShape<ck_tile::sequence<rows, columns, 256>, ck_tile::sequence<1, 4, 1>,
                                       ck_tile::sequence<16, 16, 32>>;
  using Partitioner = ck_tile::GemmSpatiallyLocalTilePartitioner<Shape, 1, 1>;
  using Traits =
      ck_tile::TileGemmUniversalTraits<false, false, false, false, Row, Col, Row, false, false, false, 1, true>;
  using Problem = ck_tile::F16xMXF4FlatmmPipelineProblem<bf16, ck_tile::pk_fp4_t, float, Shape, Traits,
                                                         ck_tile::GemmPipelineScheduler::Default, true, tail>;
  using Pipeline = ck_tile::F16xMXF4FlatmmPipelineAGmemBGmemCRegV1<Problem>;
  using Epilogue = ck_tile::CShuffleEpilogue<ck_tile::CShuffleEpilogueProblem<
      bf16, bf16, None, float, bf16, None, Row, ck_tile::element_wise::PassThrough, rows, columns, 1, 4, 16, 16, 32,
      false, ck_tile::memory_operation_enum::set, 1, false, 1, false, 2>>;
  using Kernel = ck_tile::MoeFlatmmKernel<Partitioner, Pipeline, Epilogue, kind, ck_tile::moe::Swiglu>;
  using Args =
      typename Kernel::template MoeFlatmmKernelArgs<ck_tile::FlatmmScalePointer<-1>, ck_tile::FlatmmScalePointer<1, 32>,
                                                    ck_tile::FlatmmScalePointer<1>>;
};

}  // namespace tile
