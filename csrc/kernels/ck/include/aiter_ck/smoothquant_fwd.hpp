// smoothquant_fwd: ck_tile's kernel around the pipeline of this folder.
#pragma once

#include "aiter_ck/smoothquant_pipeline.hpp"

namespace aiter_ck {

template <typename In, typename Out, typename Shape, bool Pad, bool TwoPass>
using SmoothquantFwd = ck_tile::Smoothquant<SmoothquantPipeline<
    ck_tile::SmoothquantPipelineProblem<In, float, float, float, Out, Shape, Pad, TwoPass>>>;

} // namespace aiter_ck
