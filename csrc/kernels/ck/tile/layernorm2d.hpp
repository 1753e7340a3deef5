// What layernorm2d.hip instantiates: ck_tile's layer norm of rows that a workgroup holds, with rmsnorm2d_fwd's epilogue.
#pragma once

#include "../include/aiter_ck/config.hpp"
#include "../include/aiter_ck/rmsnorm2d_fwd.hpp"

#include "ck_tile/ops/layernorm2d/kernel/layernorm2d_fwd_kernel.hpp"
#include "ck_tile/ops/layernorm2d/pipeline/layernorm2d_fwd_pipeline_one_pass.hpp"
#include "ck_tile/ops/layernorm2d/pipeline/layernorm2d_fwd_pipeline_problem.hpp"
#include "ck_tile/ops/layernorm2d/pipeline/layernorm2d_fwd_traits.hpp"

namespace tile {

template <typename Element, typename Shape, bool bias, bool add>
struct Layernorm {
  using None = ck_tile::null_type;
  static constexpr auto biased =
      bias ? ck_tile::Layernorm2dXBiasEnum::ADD_BIAS : ck_tile::Layernorm2dXBiasEnum::NO_BIAS;
  static constexpr auto added =
      add ? ck_tile::Layernorm2dFusedAddEnum::PRE_ADD_STORE : ck_tile::Layernorm2dFusedAddEnum::NO_ADD;
  using Traits = ck_tile::Layernorm2dFwdTraits<true,   // columns behind the last one are masked
                                               false,  // mean and deviation are not stored
                                               false,  // true divisions
                                               true,   // sums by Welford
                                               false,  // one pass
                                               biased, added, ck_tile::Layernorm2dFusedQuantEnum::NO_SWEEP>;
  using Problem = ck_tile::Layernorm2dFwdPipelineProblem<Element, Element, Element, Element, float, aiter_ck::Carrier,
                                                         float, float, None, None, Shape, Traits>;
  using Kernel =
      ck_tile::Layernorm2dFwd<ck_tile::Layernorm2dFwdPipelineOnePass<Problem>, aiter_ck::RowEpilogue<Element>>;
};

}  // namespace tile
