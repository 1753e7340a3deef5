// What moe_smoothquant.hip instantiates: ck_tile's kernel around the pipeline that smoothquant_fwd has, for the reasons at its head.
#pragma once

#include "../include/aiter_ck/config.hpp"
#include "../include/aiter_ck/smoothquant_pipeline.hpp"

#include "ck_tile/ops/smoothquant/kernel/moe_smoothquant_kernel.hpp"

namespace tile {

template <typename In, typename Out, typename Shape, bool TwoPass>
using MoeSmoothquant = ck_tile::MoeSmoothquant<aiter_ck::SmoothquantPipeline<
    ck_tile::SmoothquantPipelineProblem<In, float, float, float, Out, Shape, true, TwoPass>>>;

}  // namespace tile
