// What deepgemm.hip instantiates: ck_tile's flat matrix product (a shuffled weight goes from memory straight to registers).
#pragma once

#include "../include/aiter_ck/config.hpp"

namespace ck_tile {
// Of ck_tile's header for the host, which kernels name in functions that no device calls.
template <int, typename Kernel, typename... Args>
__global__ void kentry(Args... args);
}  // namespace ck_tile

#include "ck_tile/ops/epilogue/cshuffle_epilogue.hpp"
#include "ck_tile/ops/flatmm/block/block_flatmm_asmem_bsmem_creg_v1.hpp"
#include "ck_tile/ops/flatmm/block/block_flatmm_asmem_bsmem_creg_v1_custom_policy.hpp"
#include "ck_tile/ops/flatmm/kernel/flatmm_kernel.hpp"
#include "ck_tile/ops/flatmm/pipeline/flatmm_pipeline_agmem_bgmem_creg_v1.hpp"
#include "ck_tile/ops/flatmm/pipeline/flatmm_pipeline_agmem_bgmem_creg_v1_policy.hpp"
#include "ck_tile/ops/flatmm/pipeline/tile_flatmm_shape.hpp"
#include "ck_tile/ops/gemm/kernel/gemm_tile_partitioner.hpp"
#include "ck_tile/ops/gemm/pipeline/gemm_pipeline_problem.hpp"
#include "ck_tile/ops/gemm/pipeline/tile_gemm_shape.hpp"
#include "ck_tile/ops/gemm/pipeline/tile_gemm_traits.hpp"

namespace tile {

using Row = ck_tile::tensor_layout::gemm::RowMajor;
using Col = ck_tile::tensor_layout::gemm::ColumnMajor;

// A workgroup of four waves along the columns; `step` bytes of K.
template <typename In, int rows, int columns, int step>
using FlatShape = ck_tile::TileGemmShape<ck_tile::sequence<rows, columns, step / int(sizeof(In))>,
                                         ck_tile::sequence<1, 4, 1>, ck_tile::sequence<16, 16, 64 / int(sizeof(In))>>;

template <typename In, typename Out, typename Shape, ck_tile::TailNumber tail>
struct Flat {
  using None = ck_tile::tuple<>;
  using Partitioner = ck_tile::GemmSpatiallyLocalTilePartitioner<Shape, 8, 4>;
  using Traits =
      ck_tile::TileGemmUniversalTraits<false, false, false, false, Row, Col, Row, false, false, false, 1, true>;
  using Problem =
      ck_tile::FlatmmPipelineProblem<In, In, float, Shape, Traits, ck_tile::GemmPipelineScheduler::Default, true, tail>;
  using Pipeline = ck_tile::FlatmmPipelineAGmemBGmemCRegV1<Problem>;
  using Epilogue = ck_tile::CShuffleEpilogue<ck_tile::CShuffleEpilogueProblem<
      In, In, None, float, Out, None, Row, ck_tile::element_wise::PassThrough, Partitioner::MPerBlock,
      Partitioner::NPerBlock, 1, 4, 16, 16, 64 / int(sizeof(In)), false, ck_tile::memory_operation_enum::set, 1>>;
  using Kernel = ck_tile::FlatmmKernel<Partitioner, Pipeline, Epilogue>;
};

}  // namespace tile
